"""One round of compaction of one log, from files to files: nothing here knows the running log.

First the records of the dirty part go into the key map, as far as it has room. Then every segment up to there is
copied, without the records that have a newer one; small segments are put together. Each new segment is complete and
fsynced as `.cleaned` files when it is yielded; the broker swaps it in. Only sealed segments are touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runnel.storage.compaction.filtering import BatchFilter, Survivors, open_batch, whole
from runnel.storage.compaction.key_map import CLEAN, KeyMap
from runnel.storage.errors import StorageError
from runnel.storage.files import Files
from runnel.storage.handles import HandleCache
from runnel.storage.scan import Scanner
from runnel.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SEGMENT_BYTES_MAX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from runnel.wire.batch import CONTROL_BIT, BatchHeader
from runnel.wire.errors import Malformed

CLEANED_SUFFIX = ".cleaned"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
WRITE_BYTES = 1 << 20
SYNC_BYTES = 16 << 20
"""The new file goes to disk in steps of this size, so that no producer waits behind the fsync of a whole segment."""

Pace = Callable[[int], None]
"""Told how many bytes were just read or written; waits where that is too fast, raises where the work shall end."""


class CannotClean(StorageError):
    """A source cannot be read or what is left cannot be written as a segment. Nothing was changed."""


class Source(NamedTuple):
    """A sealed segment."""

    base_offset: int
    size_bytes: int
    end_offset: int


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
        self._next_number = 0
        self._offset = 0
        """The batch that is being looked at, for whoever has to find out what is wrong with it."""
        self._records_indexed = 0
        self._records_read = 0
        self._records_kept = 0
        self._bytes_read = 0
        self._bytes_written = 0

    def run(self) -> Iterator[Cleaned | Summary]:
        try:
            yield from self._run()
        except Malformed as error:
            raise CannotClean(f"{self._job.directory}: the batch at offset {self._offset}: {error}") from error

    def _run(self) -> Iterator[Cleaned | Summary]:
        end_offset = self._index_dirty()
        filtered = BatchFilter(self._map, self._job.now_ms, self._job.delete_retention_ms)
        for group in grouped(self._job, self._files, end_offset):
            cleaned = self._clean_group(group, filtered, end_offset)
            if cleaned is not None:
                yield cleaned
        yield Summary(
            end_offset,
            len(self._map),
            self._records_indexed,
            self._records_read,
            self._records_kept,
            self._bytes_read,
            self._bytes_written,
        )

    # --- the first pass ---------------------------------------------------------------------------------------

    def _index_dirty(self) -> int:
        """Fill the map with the dirty part; up to which offset it reaches."""
        reached = first_dirty = self._job.first_dirty_offset
        for source in self._job.sources:
            if source.end_offset <= first_dirty:
                continue
            for chunk, at, header, _ in self._batches(source):
                if header.base_offset + header.last_offset_delta < first_dirty:
                    continue
                if not header.attributes & CONTROL_BIT:
                    walked = open_batch(chunk, at, header)[1]
                    if not self._map.add(walked.keys, bool(walked.null_values)):
                        return reached
                    self._records_indexed += header.record_count
                reached = header.base_offset + header.last_offset_delta + 1
            reached = source.end_offset
        return reached

    # --- the second pass --------------------------------------------------------------------------------------

    def _clean_group(self, group: Sequence[Source], filtered: BatchFilter, end_offset: int) -> Cleaned | None:
        """None if nothing would change: then the segment stays as it is."""
        output = Output(self._job, group[0].base_offset, self._files)
        filled = [source for source in group if source.size_bytes]
        changed = len(group) > 1
        for source in filled:
            for chunk, at, header, is_last in self._batches(source):
                if header.base_offset >= end_offset:
                    left: Survivors | None = whole(chunk, at, header)
                else:
                    # The last header tells which offsets the new segment stands for: recovery goes by it.
                    keep_empty = (is_last and source is filled[-1]) or self._is_last_of_producer(header)
                    left = filtered(chunk, at, header, self._number_of(header), keep_empty)
                    self._records_read += header.record_count
                if left is None:
                    changed = True
                    continue
                changed = changed or left.is_changed
                self._records_kept += left.records
                output.add(left.batch, header.base_offset + header.last_offset_delta, left.max_timestamp)
                self._pace(len(left.batch))
        return self._finish(output, group, changed)

    def _number_of(self, header: BatchHeader) -> int:
        """The number that the batch has in the map: dirty batches come in the order in which they were indexed."""
        if header.base_offset + header.last_offset_delta < self._job.first_dirty_offset:
            return CLEAN
        if header.attributes & CONTROL_BIT:
            return CLEAN
        self._next_number += 1
        return self._next_number - 1

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Without it the producer's next batch would be out of sequence after a restart."""
        return header.producer_id >= 0 and self._job.producers.get(header.producer_id) == header.last_offset

    def _finish(self, output: Output, group: Sequence[Source], changed: bool) -> Cleaned | None:
        if not changed:
            output.discard()
            return None
        output.finish()
        self._bytes_written += output.segment.size_bytes
        return Cleaned(group, output.segment.size_bytes)

    def _batches(self, source: Source) -> Iterator[tuple[bytes, int, BatchHeader, bool]]:
        """Every batch, checked: the bytes that it lies in, where, its header, and whether it is the last."""
        path = source_path(self._job.directory, source.base_offset, LOG_SUFFIX)
        size_bytes, pace = source.size_bytes, self._pace
        scanner = Scanner(self._files.open(path), 0, size_bytes, source.base_offset, verify=True)
        for position, header in scanner:
            self._offset = header.base_offset
            pace(header.batch_length)
            yield scanner.chunk, position - scanner.chunk_position, header, scanner.position >= size_bytes
        self._bytes_read += scanner.position
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


def source_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


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
