"""Index files against the batches that they point to, in one walk, without keeping the batches.

In: the entries of an index, then each batch in order. Out: findings. An index is rebuilt by any broker that finds it
missing, so nothing here is damage: a wrong one costs a reader, not a record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from runnel.cli.offline.dumping import index_entries
from runnel.cli.offline.findings import LogFinding, Remove
from runnel.cli.offline.places import base_offset, open_for_reading
from runnel.storage.index import OffsetIndex, TimeIndex
from runnel.wire.batch import BatchHeader

REBUILT = "a broker makes it again when it is missing: `runnel log verify --repair` removes it"


class IndexCheck(ABC):
    """What both kinds share: only the first problem of a file is told, because it is removed as a whole.

    `is_final`: the segment is sealed, or was closed in order, so the file is as a broker leaves it for good.
    """

    def __init__(self, path: Path, entry: Struct, is_final: bool) -> None:
        self.path = path
        self.is_final = is_final
        self.base_offset = base_offset(path)
        self.problem: LogFinding | None = None
        self._entries = index_entries(path, entry)
        self._next: tuple[int, int] | None = None
        self._last = (-1, -1)
        self._check_end(entry.size)
        self._advance()

    @abstractmethod
    def read(self, first: int, second: int) -> tuple[int, int]:
        """An entry with its relative offset made a real one."""

    def _advance(self) -> None:
        """To the next entry; one that does not rise is the last that is looked at."""
        entry = next(self._entries, None)
        self._next = None
        if entry is None:
            return
        first, second = self.read(*entry)
        if first <= self._last[0] or second < self._last[1]:
            self.complain("entries do not rise")
        else:
            self._next = self._last = (first, second)

    def complain(self, message: str, *, position: int | None = None, offset: int | None = None) -> None:
        if self.problem is None:
            self.problem = LogFinding("warning", self.path, message, REBUILT, position, offset, Remove(self.path))

    def _check_end(self, entry_bytes: int) -> None:
        file = open_for_reading(self.path)
        size = file.size()
        if size % entry_bytes:
            self.complain(f"its size is not a multiple of {entry_bytes} bytes: the last entry is cut short")
        elif self.is_final and size and not any(file.read(size - entry_bytes, entry_bytes)):
            self.complain("it ends with zeros")


class OffsetIndexCheck(IndexCheck):
    """Each entry is (last offset of a batch, where that batch starts); both rise."""

    def __init__(self, path: Path, is_final: bool) -> None:
        self._open: tuple[int, int] | None = None
        super().__init__(path, OffsetIndex.ENTRY, is_final)

    def read(self, first: int, second: int) -> tuple[int, int]:
        return self.base_offset + first, second

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next good batch."""
        while self._next is not None and self._next[1] < position:
            self._miss(*self._next)
            self._advance()
        if self._next is not None and self._next[1] == position:
            self._close()
            self._open = self._next
            self._advance()
        # An append of several batches (a follower's) is indexed once: its first position, its last offset.
        if self._open is not None and self._open[0] == header.last_offset:
            self._open = None

    def skip(self, position: int) -> None:
        """Batches up to `position` cannot be read: what points among them cannot be judged."""
        self._open = None
        while self._next is not None and self._next[1] < position:
            self._advance()

    def finish(self) -> Iterator[LogFinding]:
        self._close()
        if self._next is not None:
            self._miss(*self._next)
        if self.problem is not None:
            yield self.problem

    def _miss(self, offset: int, position: int) -> None:
        self.complain(f"no batch starts at position {position}, where offset {offset} should be", position=position)

    def _close(self) -> None:
        if self._open is not None:
            offset, position = self._open
            self.complain(f"the batch at position {position} does not end with offset {offset}", offset=offset)
            self._open = None


class TimeIndexCheck(IndexCheck):
    """Each entry is (largest timestamp so far, an offset of the batch that has it); timestamps rise.

    The last entry of a sealed segment is its largest timestamp: searches by time and retention rely on it.
    """

    def __init__(self, path: Path, is_final: bool) -> None:
        self._largest = -1
        super().__init__(path, TimeIndex.ENTRY, is_final)

    def read(self, first: int, second: int) -> tuple[int, int]:
        return first, self.base_offset + second

    def batch(self, _: int, header: BatchHeader) -> None:
        self._largest = max(self._largest, header.max_timestamp)
        while self._next is not None and self._next[1] <= header.last_offset:
            timestamp, offset = self._next
            if offset < header.base_offset:
                self.complain(f"no batch holds offset {offset}, which it points to", offset=offset)
            elif header.max_timestamp != timestamp:
                self.complain(
                    f"it says that offset {offset} has time {timestamp}; its batch has {header.max_timestamp}",
                    offset=offset,
                )
            self._advance()

    def skip_offsets(self, offset: int) -> None:
        """Batches before `offset` cannot be read."""
        while self._next is not None and self._next[1] < offset:
            self._advance()

    def finish(self) -> Iterator[LogFinding]:
        if self._next is not None:
            self.complain(f"it points to offset {self._next[1]}, which is not there", offset=self._next[1])
        elif self.is_final and self._last[0] < self._largest:
            self.complain(f"it ends at time {self._last[0]}, but the segment's largest is {self._largest}")
        if self.problem is not None:
            yield self.problem
