"""Sparse indexes of one segment, in Kafka's format: offset -> position, and timestamp -> offset.

The newest entries wait in a small buffer and go to the file in groups; everything older is searched in the file by
reading one small block near where the entry should be. So an index costs no memory in proportion to its segment,
and no system call per append. Index files are rebuildable: they are never fsynced on the path of an ack.

    .index      relative_offset i32 | position i32     the batch at position ends at base_offset + relative_offset
    .timeindex  timestamp i64 | relative_offset i32    the largest timestamp up to and including that offset
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import ClassVar, NamedTuple

from runnel.storage.handles import Handle

PENDING_ENTRIES_MAX = 128
"""Entries that wait in memory: 1 KiB of .index for at least 512 KiB of log."""
BLOCK_ENTRIES = 128


class Column(NamedTuple):
    """One number of an entry: how to read it, and where it starts."""

    unpack: Callable[[bytes | bytearray, int], tuple[int, ...]]
    offset: int
    bytes: int


def _column(layout: str, offset: int) -> Column:
    number = Struct(layout)
    return Column(number.unpack_from, offset, number.size)


class Floor(NamedTuple):
    """The last entry at or below what was looked for, and the one before it."""

    entry: tuple[int, int]
    previous: tuple[int, int] | None


class SparseIndex:
    """Entries of two rising numbers: a prefix in the file, the newest few in memory."""

    ENTRY: ClassVar[Struct]
    FIRST: ClassVar[Column]
    SECOND: ClassVar[Column]
    __slots__ = ("_torn", "base_offset", "file_entries", "handle", "last", "pending")

    def __init__(self, handle: Handle, base_offset: int) -> None:
        self.handle = handle
        self.base_offset = base_offset
        self.file_entries = 0
        self.pending = bytearray()
        self.last: tuple[int, int] | None = None
        self._torn = False

    @property
    def entries(self) -> int:
        return self.file_entries + len(self.pending) // self.ENTRY.size

    def load(self) -> bool:
        """Take the file as it is; False if it is missing or cannot be right, and must be rebuilt."""
        stride = self.ENTRY.size
        try:
            file = self.handle.get()
        except FileNotFoundError:
            return False
        size = file.size()
        self.pending.clear()
        self.file_entries, rest = divmod(size, stride)
        if self.file_entries:
            first, second = self.ENTRY.unpack(file.read((self.file_entries - 1) * stride, stride))
            self.last = (first, second)
            return rest == 0 and first >= 0 and second >= 0
        self.last = None
        return rest == 0

    def append(self, first: int, second: int) -> None:
        self.pending += self.ENTRY.pack(first, second)
        self.last = (first, second)
        if len(self.pending) >= PENDING_ENTRIES_MAX * self.ENTRY.size:
            # A full disk must not fail an append that is already in the log: the entries wait for the next try.
            with contextlib.suppress(OSError):
                self.flush()

    def flush(self) -> None:
        """Hand the waiting entries to the operating system."""
        if not self.pending:
            return
        file = self.handle.create()
        size = self.file_entries * self.ENTRY.size
        if self._torn:
            file.truncate(size)
            self._torn = False
        try:
            file.append((self.pending,))
        except OSError:
            self._torn = True
            raise
        self.file_entries += len(self.pending) // self.ENTRY.size
        self.pending = bytearray()
        self.handle.dirty = True

    def reset(self, entries: int = 0) -> None:
        """Keep the first `entries` and drop the rest, in memory and in the file."""
        stride = self.ENTRY.size
        if entries < self.file_entries or self._torn or entries == 0:
            self.file_entries = min(entries, self.file_entries)
            self.handle.create().truncate(self.file_entries * stride)
            self._torn = False
        del self.pending[max(0, entries - self.file_entries) * stride :]
        self.last = self.entry(entries - 1) if entries else None

    def entry(self, number: int) -> tuple[int, int]:
        stride = self.ENTRY.size
        if number >= self.file_entries:
            first, second = self.ENTRY.unpack_from(self.pending, (number - self.file_entries) * stride)
        else:
            first, second = self.ENTRY.unpack(self.handle.get().read(number * stride, stride))
        return first, second

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Every entry, oldest first (for checks; reads the whole file)."""
        size = self.file_entries * self.ENTRY.size
        data = self.handle.get().read(0, size) if size else b""
        yield from self.ENTRY.iter_unpack(data)
        yield from self.ENTRY.iter_unpack(bytes(self.pending))

    def floor(self, column: Column, value: int) -> Floor | None:
        """The last entry whose `column` is at most `value`."""
        pending = self.pending
        stride = self.ENTRY.size
        if pending:
            number = _floor_in(pending, len(pending) // stride, stride, column, value)
            if number > 0:
                return Floor(self._unpack(pending, number), self._unpack(pending, number - 1))
            if number == 0:
                previous = self.entry(self.file_entries - 1) if self.file_entries else None
                return Floor(self._unpack(pending, 0), previous)
        return self._floor_in_file(column, value) if self.file_entries else None

    def _unpack(self, data: bytes | bytearray, number: int) -> tuple[int, int]:
        first, second = self.ENTRY.unpack_from(data, number * self.ENTRY.size)
        return first, second

    def _floor_in_file(self, column: Column, value: int) -> Floor | None:
        """Entries below `low` are at most `value`, entries from `high` on are above it."""
        file, stride = self.handle.get(), self.ENTRY.size
        low, high = 0, self.file_entries
        probe = self._guess(column, value)
        while low < high:
            start = min(max(probe - BLOCK_ENTRIES // 2, low), max(high - BLOCK_ENTRIES, low))
            count = min(BLOCK_ENTRIES, high - start)
            data = file.read(start * stride, count * stride)
            number = _floor_in(data, count, stride, column, value)
            if number < 0:
                high = start
            elif number == count - 1 and start + count < high:
                low = start + count
            else:
                return self._floor_at(data, number, start)
            probe = (low + high) // 2
        return self._floor_at(b"", -1, low) if low else None

    def _floor_at(self, data: bytes, number: int, start: int) -> Floor:
        if number >= 1:
            return Floor(self._unpack(data, number), self._unpack(data, number - 1))
        entry = start + number
        return Floor(self.entry(entry), self.entry(entry - 1) if entry else None)

    def _guess(self, column: Column, value: int) -> int:
        """Entries lie about evenly in the segment: look first where a straight line would put this one."""
        if self.last is None or column.bytes > 4:
            return self.file_entries // 2
        last = self.last[1 if column.offset else 0]
        return min(value, last) * self.entries // max(last, 1)


def _floor_in(data: bytes | bytearray, count: int, stride: int, column: Column, value: int) -> int:
    unpack, offset, _ = column
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if unpack(data, middle * stride + offset)[0] <= value:
            low = middle + 1
        else:
            high = middle
    return low - 1


class OffsetIndex(SparseIndex):
    ENTRY = Struct(">ii")
    FIRST = _column(">i", 0)
    SECOND = _column(">i", 4)
    __slots__ = ()

    def by_offset(self, offset: int) -> int:
        """A position from which walking forward finds the batch that holds `offset`."""
        floor = self.floor(self.FIRST, offset - self.base_offset)
        return floor.entry[1] if floor else 0

    def by_position(self, position: int) -> Floor | None:
        """The last entry whose batch starts at or before `position`, as (relative offset, position)."""
        return self.floor(self.SECOND, position)


class TimeIndex(SparseIndex):
    ENTRY = Struct(">qi")
    FIRST = _column(">q", 0)
    SECOND = _column(">i", 8)
    __slots__ = ()

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Kafka's rule: only a timestamp above all before it is an entry."""
        last = self.last
        if timestamp > (-1 if last is None else last[0]):
            self.append(timestamp, offset - self.base_offset)

    def by_timestamp(self, timestamp: int) -> int:
        """An offset before which no record has this timestamp or a later one."""
        floor = self.floor(self.FIRST, timestamp)
        return self.base_offset + (floor.entry[1] if floor else 0)
