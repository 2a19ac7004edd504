"""One round of compaction of one log, from files to files: nothing here knows the running log.

First the records of the dirty part go into the key map, as far as it has room. Then every segment up to there is
copied, without the records that have a newer one; small segments are put together. Each new segment is complete and
fsynced as `.cleaned` files when it is yielded; the broker swaps it in. Only sealed segments are touched.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runnel.storage.compaction.filtering import BatchFilter, Survivors, whole
from runnel.storage.compaction.indexing import CannotClean, Index, Indexed, Pace, Source, source_path
from runnel.storage.compaction.key_map import START_BITS, START_MASK, KeyMap
from runnel.storage.files import File, Files
from runnel.storage.handles import HandleCache
from runnel.storage.scan import Scanner
from runnel.storage.segment import INDEX_SUFFIX, RELATIVE_OFFSET_MAX, SEGMENT_BYTES_MAX, TIME_INDEX_SUFFIX, Segment
from runnel.wire.batch import BatchHeader, read_header
from runnel.wire.errors import Malformed

__all__ = ["CannotClean", "Cleaned", "Job", "Source", "Summary", "clean", "grouped", "remove_cleaned"]

CLEANED_SUFFIX = ".cleaned"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
READ_BYTES = 256 << 10
WRITE_BYTES = 1 << 20
SYNC_BYTES = 16 << 20
"""The new file goes to disk in steps of this size, so that no producer waits behind the fsync of a whole segment."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a round has to know; it travels to another process."""

    directory: str
    sources: Sequence[Source]
    """All segments that may be cleaned, from the first of the log."""
    first_dirty_offset: int
    producers: dict[int, int]
    """The last offset of each active producer."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    key_map_bytes: int
    io_bytes_per_s: float


class Cleaned(NamedTuple):
    """The `.cleaned` files at the first of these base offsets hold what is left of all of them."""

    sources: Sequence[Source]
    size_bytes: int


class Summary(NamedTuple):
    """The end of a round: everything below `cleaned_offset` is clean."""

    cleaned_offset: int
    keys: int
    records_indexed: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_written: int


def clean(job: Job, files: Files, pace: Pace) -> Iterator[Cleaned | Summary]:
    """A `Cleaned` for each new segment, and a `Summary` at the end. Blocking; abandon it anywhere."""
    return Round(job, files, pace).run()


class Round:
    def __init__(self, job: Job, files: Files, pace: Pace) -> None:
        self._job = job
        self._files = files
        self._pace = pace
        self._map = KeyMap(job.key_map_bytes)
        self._index = Index(files, job.directory, job.producers, self._map, pace)
        self._filter = BatchFilter(self._map.newest, job.now_ms, job.delete_retention_ms)
        self._places: list[int] = []
        self._records_read = 0
        self._records_kept = 0
        self._bytes_read = 0
        self._bytes_written = 0

    def run(self) -> Iterator[Cleaned | Summary]:
        end_offset = self._index.fill(self._job.sources, self._job.first_dirty_offset)
        self._places = self._map.places()
        for group in grouped(self._job, self._files, end_offset):
            cleaned = self._clean_group(group)
            if cleaned is not None:
                yield cleaned
        yield Summary(
            end_offset,
            len(self._map),
            self._index.records,
            self._index.records + self._records_read,
            self._records_kept,
            self._index.bytes_read + self._bytes_read,
            self._bytes_written,
        )

    def _clean_group(self, group: Sequence[Source]) -> Cleaned | None:
        """None if nothing would change: then the segment stays as it is."""
        output = Output(self._job, group[0].base_offset, self._files)
        filled = [source for source in group if source.size_bytes]
        changed = len(group) > 1
        for source in filled:
            for header, left in self._survivors(source, source is filled[-1]):
                if left is None:
                    changed = True
                    continue
                changed = changed or left.is_changed
                self._records_kept += left.records
                output.add(left.batch, header.base_offset + header.last_offset_delta, left.max_timestamp)
                self._pace(len(left.batch))
        if not changed and output.segment.size_bytes == filled[0].size_bytes:
            output.discard()
            return None
        output.finish()
        self._bytes_written += output.segment.size_bytes
        return Cleaned(group, output.segment.size_bytes)

    def _survivors(self, source: Source, ends_group: bool) -> Iterator[tuple[BatchHeader, Survivors | None]]:
        """What is left of each batch: of the clean part, of the dirty part, and of what the map had no room for.

        The last header of a group always stays. It tells which offsets the new segment stands for: recovery goes by it.
        """
        size = source.size_bytes
        path = source_path(self._job.directory, source.base_offset)
        file = self._files.open(path)
        indexed = self._index.by_source.get(source.base_offset, Indexed(size, size, 0, 0))
        for chunk, at, header, position in self._batches(file, path, 0, indexed.start):
            self._records_read += header.record_count
            keep_empty = self._is_last_of_producer(header) or (ends_group and position == size)
            try:
                yield header, self._filter.clean(chunk, at, header, keep_empty)
            except Malformed as error:
                raise CannotClean(f"{path}: the batch at offset {header.base_offset}: {error}") from error
        yield from self._dirty_survivors(file, indexed, ends_group and indexed.end == size)
        for chunk, at, header, _ in self._batches(file, path, indexed.end, size):
            yield header, whole(chunk, at, header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        return header.producer_id >= 0 and self._job.producers.get(header.producer_id) == header.last_offset

    def _dirty_survivors(
        self, file: File, indexed: Indexed, keep_last: bool
    ) -> Iterator[tuple[BatchHeader, Survivors | None]]:
        """Only batches of which something is left are read."""
        positions, chunk, chunk_position = self._map.positions, b"", 0
        for number, starts, keep_empty in self._numbers(indexed, keep_last):
            position = positions[number]
            end = positions[number + 1] if number + 1 < indexed.end_number else indexed.end
            if end > chunk_position + len(chunk):
                chunk, chunk_position = file.read(position, max(end - position, READ_BYTES)), position
            at = position - chunk_position
            header = read_header(chunk, at)
            has_null_values = self._map.has_null_values(number)
            yield header, self._filter.dirty(chunk, at, header, starts, has_null_values, keep_empty)

    def _numbers(self, indexed: Indexed, keep_last: bool) -> Iterator[tuple[int, list[int], bool]]:
        """The batches of which something is left, in order: where their newest records start, and whether at least the
        header stays."""
        places, kept = self._places, self._index.kept
        first, end = indexed.first_number, indexed.end_number
        at, end_at = (bisect_left(places, number << START_BITS) for number in (first, end))
        headers = kept[bisect_left(kept, first) : bisect_left(kept, end)]
        if keep_last and first < end and end - 1 not in headers[-1:]:
            headers.append(end - 1)
        headers.append(end)
        next_header = 0
        while at < end_at or headers[next_header] < end:
            number = min(places[at] >> START_BITS if at < end_at else end, headers[next_header])
            starts = []
            while at < end_at and places[at] >> START_BITS == number:
                starts.append(places[at] & START_MASK)
                at += 1
            keep_empty = headers[next_header] == number
            next_header += keep_empty
            yield number, starts, keep_empty

    def _batches(self, file: File, path: str, start: int, end: int) -> Iterator[tuple[bytes, int, BatchHeader, int]]:
        """Batches, checked: the bytes that each lies in, where, its header, and the position after it."""
        scanner = Scanner(file, start, end, verify=True)
        for position, header in scanner:
            self._pace(header.batch_length)
            yield scanner.chunk, position - scanner.chunk_position, header, scanner.position
        self._bytes_read += scanner.position - start
        if scanner.problem is not None:
            where = f"{path}: position {scanner.position} (offset {scanner.expected_offset})"
            raise CannotClean(f"{where}: {scanner.problem}")


def grouped(job: Job, files: Files, end_offset: int) -> Iterator[Sequence[Source]]:
    """The segments below `end_offset`, in runs that fit into one new segment each: its bytes, its indexes, and the
    31 bits that an index has for an offset."""
    bytes_max = min(job.segment_bytes, SEGMENT_BYTES_MAX)
    group: list[Source] = []
    totals = (0, 0, 0)
    for source in job.sources:
        if source.base_offset >= end_offset:
            break
        sizes = (source.size_bytes, *(_index_bytes(job, files, source, each) for each in INDEX_SUFFIXES))
        sums = tuple(map(sum, zip(totals, sizes, strict=True)))
        fits = sums[0] <= bytes_max and max(sums[1:]) <= job.segment_index_bytes
        if group and not (fits and source.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX):
            yield from _filled(group)
            group, sums = [], sizes
        group.append(source)
        totals = sums[0], sums[1], sums[2]
    yield from _filled(group)


def _filled(group: Sequence[Source]) -> Iterator[Sequence[Source]]:
    if any(source.size_bytes for source in group):
        yield group


def _index_bytes(job: Job, files: Files, source: Source, suffix: str) -> int:
    try:
        return files.size(source_path(job.directory, source.base_offset, suffix))
    except FileNotFoundError:  # rebuilt when it is first used
        return 0


class Output:
    """A new segment under its first names."""

    def __init__(self, job: Job, base_offset: int, files: Files) -> None:
        self.segment = Segment(job.directory, base_offset, files, HandleCache(), CLEANED_SUFFIX)
        self.segment.index_interval_bytes = job.index_interval_bytes
        self.segment.create(job.now_ms)
        self._files = files
        self._buffers: list[bytes | bytearray] = []
        self._waiting_bytes = 0
        self._unsynced_bytes = 0

    def add(self, batch: bytes | bytearray, last_offset: int, max_timestamp: int) -> None:
        if self.segment.size_bytes + len(batch) > SEGMENT_BYTES_MAX:
            raise CannotClean(f"{self.segment.log.path}: what is left does not fit into one segment")
        self._buffers.append(batch)
        self.segment.note(len(batch), last_offset, max_timestamp)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self.segment.log.get().append(self._buffers)
        self._unsynced_bytes += self._waiting_bytes
        self._buffers, self._waiting_bytes = [], 0
        if self._unsynced_bytes >= SYNC_BYTES:
            self.segment.log.get().sync()
            self._unsynced_bytes = 0

    def finish(self) -> None:
        """Everything is on disk; its names are made durable by the swap."""
        self._write()
        self.segment.seal()
        for handle in self.segment.file_handles:
            handle.get().sync()
        self.segment.release()

    def discard(self) -> None:
        self.segment.release()
        for handle in self.segment.file_handles:
            with contextlib.suppress(FileNotFoundError):
                self._files.remove(handle.path)


def remove_cleaned(files: Files, directory: str) -> None:
    """Remove what a round left that was abandoned, when nobody writes it any more."""
    for name in files.list(directory):
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")
