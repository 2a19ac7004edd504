"""Looking into a log beyond its headers: offsets by timestamp, and the check of everything that is in it.

These block, and open the records of at most one batch per call (`verify` opens none). In: a `Log`; out: values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from runnel.storage.scan import Scanner
from runnel.storage.segment import Segment
from runnel.wire.batch import BatchHeader, Record, iterate_records

if TYPE_CHECKING:
    from runnel.storage.log import Log


class Finding(NamedTuple):
    """Something that is wrong with a log."""

    path: str
    position: int
    offset: int
    problem: str


Found: TypeAlias = tuple[int, int, int]
"""timestamp, offset, leader epoch"""


def offset_for_timestamp(log: Log, timestamp: int) -> Found | None:
    return _on_current_segments(log, lambda segments: _offset_for_timestamp(log, segments, timestamp))


def _on_current_segments(log: Log, search: Callable[[list[Segment]], Found | None]) -> Found | None:
    """Search in a thread, beside compaction and retention: their files may go before this one has opened them."""
    while True:
        segments = log.segments
        try:
            return search(segments)
        except FileNotFoundError:
            if log.segments is segments:
                raise


def _offset_for_timestamp(log: Log, segments: list[Segment], timestamp: int) -> Found | None:
    for segment in segments:
        if segment.end_offset <= log.log_start_offset or segment.size_bytes == 0:
            continue
        segment.load_indexes()
        if segment.max_timestamp < timestamp:
            continue
        start = max(segment.time_index.by_timestamp(timestamp), log.log_start_offset)
        found = _first_since(segment, start, timestamp, log.log_start_offset)
        if found is not None:
            return found
    return None


def _first_since(segment: Segment, start: int, timestamp: int, offset_min: int) -> Found | None:
    located = segment.locate(start)
    if located is None:
        return None
    for position, header in segment.headers(located[0]):
        if header.max_timestamp >= timestamp:
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= offset_min:
                    return record.timestamp, record.offset, header.leader_epoch
    return None


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterator[Record]:
    return iterate_records(segment.log.get().read(position, header.size_bytes))


def max_timestamp_offset(log: Log) -> Found | None:
    return _on_current_segments(log, lambda segments: _max_timestamp_offset(log, segments))


def _max_timestamp_offset(log: Log, segments: list[Segment]) -> Found | None:
    best: Segment | None = None
    for segment in segments:
        segment.load_indexes()
        if segment.max_timestamp >= 0 and (best is None or segment.max_timestamp > best.max_timestamp):
            best = segment
    if best is None:
        return None
    found = None
    if best.max_timestamp_offset >= log.log_start_offset:
        found = _first_since(best, best.max_timestamp_offset, best.max_timestamp, log.log_start_offset)
    # Trimmed, or of a batch that compaction emptied: no index knows the next largest.
    return found or _largest_since(segments, log.log_start_offset)


def _largest_since(segments: list[Segment], start: int) -> Found | None:
    best: tuple[Segment, BatchHeader] | None = None
    for segment in segments:
        for _, header in segment.headers(0):
            if header.last_offset < start or header.record_count == 0:
                continue
            if best is None or header.max_timestamp > best[1].max_timestamp:
                best = (segment, header)
    if best is None or best[1].max_timestamp < 0:
        return None
    segment, header = best
    return _first_since(segment, max(start, header.base_offset), header.max_timestamp, start)


def verify(log: Log) -> Iterator[Finding]:
    expected = log.segments[0].base_offset
    for segment in log.segments:
        if segment.base_offset < expected or expected < segment.base_offset > log.gaps_below:
            problem = f"the segment before it ends at offset {expected}"
            yield Finding(segment.log.path, 0, segment.base_offset, problem)
        file, size, start = segment.log.get(), segment.size_bytes, segment.base_offset
        scanner = Scanner(file, 0, size, start, verify=True, gaps_below=log.gaps_below)
        for _ in scanner:
            pass
        if scanner.problem is not None:
            yield Finding(segment.log.path, scanner.position, scanner.expected_offset, scanner.problem)
        expected = scanner.expected_offset
        yield from _verify_indexes(segment)


def _verify_indexes(segment: Segment) -> Iterator[Finding]:
    segment.load_indexes()
    batches = dict(segment.headers(0))
    for relative_offset, position in segment.index:
        header = batches.get(position)
        if header is None or header.last_offset != segment.base_offset + relative_offset:
            offset = segment.base_offset + relative_offset
            yield Finding(segment.index.handle.path, position, offset, "no batch with this offset is there")
    last = -1
    for timestamp, relative_offset in segment.time_index:
        if timestamp <= last:
            offset = segment.base_offset + relative_offset
            yield Finding(segment.time_index.handle.path, 0, offset, "timestamps do not rise")
        last = timestamp
