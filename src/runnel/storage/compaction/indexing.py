"""The first pass of compaction: the dirty part of a log, batch by batch, into the key map.

In: the sealed segments; out: `Indexed` of each that has a dirty part, and up to which offset the map reaches. Every
batch is checked. The loop is written for speed; what is wrong with a damaged batch is found out by a `Scanner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from runnel.storage.compaction.key_map import KeyMap, shorten
from runnel.storage.errors import StorageError
from runnel.storage.files import File, Files
from runnel.storage.scan import BATCH_LENGTH_MIN, Scanner
from runnel.storage.segment import LOG_SUFFIX
from runnel.wire.batch import COMPRESSION_MASK, CONTROL_BIT, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC
from runnel.wire.compression import decompress
from runnel.wire.errors import Malformed
from runnel.wire.record_keys import Walked, walk_records

CHUNK_BYTES = 1 << 20
CRC_FROM = 21

_FIELDS = Struct(">qi4xbIhi16xq6xi")  # base offset, length, magic, crc, attributes, last delta, producer, count

Pace = Callable[[int], None]
"""Told how many bytes were just read or written; waits where that is too fast, raises where the work shall end."""


class CannotClean(StorageError):
    """A source cannot be read or what is left cannot be written as a segment. Nothing was changed."""


class Source(NamedTuple):
    """A sealed segment."""

    base_offset: int
    size_bytes: int
    end_offset: int


class Indexed(NamedTuple):
    """The dirty part of a segment: its positions, and the numbers of its batches."""

    start: int
    end: int
    first_number: int
    end_number: int


def source_path(directory: str, base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


def walk_batch(chunk: bytes, at: int, end: int, attributes: int, count: int) -> tuple[bytes, Walked]:
    """The records of the batch from `at` to `end`: the bytes that they lie in, and where."""
    codec = attributes & COMPRESSION_MASK
    if not codec:
        return chunk, walk_records(chunk, at + HEADER_BYTES, end, count, shorten)
    data = decompress(codec, memoryview(chunk)[at + HEADER_BYTES : end])
    return data, walk_records(data, 0, len(data), count, shorten)


class Index:
    def __init__(self, files: Files, directory: str, producers: dict[int, int], key_map: KeyMap, pace: Pace) -> None:
        self._files = files
        self._directory = directory
        self._producers = producers
        self._map = key_map
        self._pace = pace
        self.by_source: dict[int, Indexed] = {}
        self.kept: list[int] = []
        """Numbers of batches that stay at least as headers: the ends of transactions, and the last of each producer,
        without which its next batch would be out of sequence after a restart."""
        self.records = 0
        self.bytes_read = 0
        self._expected = 0
        self._reached = 0

    def fill(self, sources: Iterable[Source], first_dirty_offset: int) -> int:
        """Up to which offset the map reaches when it is full, or everything is in it."""
        self._reached = first_dirty_offset
        for source in sources:
            if source.end_offset > first_dirty_offset:
                if not self._fill_from(source, first_dirty_offset):
                    break
                self._reached = source.end_offset
        return self._reached

    def _fill_from(self, source: Source, first_dirty_offset: int) -> bool:
        path = source_path(self._directory, source.base_offset)
        file, first_number = self._files.open(path), len(self._map.positions)
        self._expected = source.base_offset
        start, position, has_room = -1, 0, True
        while position < source.size_bytes and has_room:
            chunk = self._read(file, path, position, source.size_bytes)
            try:
                consumed, dirty_from, has_room = self._take(chunk, position, first_dirty_offset)
            except Malformed as error:
                raise CannotClean(f"{path}: the batch at offset {self._expected}: {error}") from error
            if consumed == 0 and has_room:
                raise self._damaged(file, path, position, source.size_bytes)
            start = dirty_from if start < 0 else start
            position += consumed
        self.bytes_read += position
        start = position if start < 0 else start
        self.by_source[source.base_offset] = Indexed(start, position, first_number, len(self._map.positions))
        return has_room

    def _read(self, file: File, path: str, position: int, size_bytes: int) -> bytes:
        """A chunk, or one whole batch where that is larger."""
        chunk = file.read(position, min(CHUNK_BYTES, size_bytes - position))
        if len(chunk) < HEADER_BYTES:
            raise self._damaged(file, path, position, size_bytes)
        whole = _FIELDS.unpack_from(chunk)[1] + LENGTH_PREFIX_BYTES
        if len(chunk) < whole <= size_bytes - position:
            chunk = file.read(position, whole)
        self._pace(len(chunk))
        return chunk

    def _take(self, chunk: bytes, position: int, first_dirty_offset: int) -> tuple[int, int, bool]:
        """Take the whole batches of a chunk: how many bytes they have, where the first dirty one lies (-1 if none
        does), and whether there was room for all of them. The bytes end before a batch that is damaged."""
        view, end = memoryview(chunk), len(chunk)
        unpack, producers, expected = _FIELDS.unpack_from, self._producers, self._expected
        at, dirty_from = 0, -1
        while end - at >= HEADER_BYTES:
            base_offset, length, magic, crc, attributes, delta, producer, count = unpack(chunk, at)
            following = at + length + LENGTH_PREFIX_BYTES
            if base_offset < expected or magic != MAGIC or length < BATCH_LENGTH_MIN or delta < 0 or following > end:
                break
            if crc32c(view[at + CRC_FROM : following]) != crc:
                break
            if base_offset + delta >= first_dirty_offset:
                self._expected = base_offset
                if dirty_from < 0:
                    dirty_from = position + at
                if not self._add(chunk, at, following, position + at, attributes, count):
                    return at, dirty_from, False
                if attributes & CONTROL_BIT or (producer >= 0 and producers.get(producer) == base_offset + delta):
                    self.kept.append(len(self._map.positions) - 1)
                self._reached = base_offset + delta + 1
            expected = base_offset + delta + 1
            at = following
        self._expected = expected
        return at, dirty_from, True

    def _add(self, chunk: bytes, at: int, end: int, position: int, attributes: int, count: int) -> bool:
        if attributes & CONTROL_BIT:
            return self._map.add((), (), position, False)
        keys, starts, null_values = walk_batch(chunk, at, end, attributes, count)[1]
        self.records += count
        return self._map.add(keys, starts, position, bool(null_values))

    def _damaged(self, file: File, path: str, position: int, size_bytes: int) -> CannotClean:
        scanner = Scanner(file, position, size_bytes, self._expected, verify=True)
        next(iter(scanner), None)
        problem = scanner.problem or "the file is shorter than expected"
        return CannotClean(f"{path}: position {position} (offset {self._expected}): {problem}")
