"""Making a log shorter: retention and DeleteRecords at its start, truncation at its end.

In: a `Log` and a limit; out: segments that the log has let go of, and a `RemovalJob` for their files. Readers that
hold a file of a removed segment keep reading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.storage.errors import LogOffline
from runnel.storage.segment import NEVER, SEGMENT_SUFFIXES, Segment
from runnel.storage.syncing import RemovalJob, read_first_segment, write_first_segment
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.storage.log import Log


def enforce_retention(log: Log, now_ms: int, high_watermark: int | None, defer_removal: bool) -> int:
    if log.offline is not None:
        raise LogOffline(log.path, log.offline)
    if log.config.producer_expiration_ms >= 0:
        log.producers.expire(now_ms, log.config.producer_expiration_ms)
    limit = log.end_offset if high_watermark is None else high_watermark
    count = max(_expired(log, now_ms), _oversized(log), _below_start(log))
    count = min(count, _below(log, limit))
    if count == len(log.segments):
        count = _roll_or_keep(log, count, now_ms)
    if count:
        _remove_first(log, count, defer_removal)
    return count


def _roll_or_keep(log: Log, count: int, now_ms: int) -> int:
    """As Kafka: an empty segment at the end offset keeps the watermarks exact. A full disk may have no room for it;
    then the active segment stays for now, and the others make room."""
    try:
        log.roll(now_ms)
    except Refusal:
        return count - 1
    return count


def _expired(log: Log, now_ms: int) -> int:
    """How many of the oldest segments have nothing younger than retention.ms. An empty one never counts."""
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    count = 0
    for segment in log.segments:
        if segment.size_bytes == 0 or now_ms - segment.largest_timestamp() <= retention_ms:
            break
        count += 1
    return count


def _oversized(log: Log) -> int:
    """How many of the oldest segments can go with retention.bytes still kept."""
    if log.config.retention_bytes < 0:
        return 0
    excess = log.size_bytes - log.config.retention_bytes
    count = 0
    for segment in log.segments:
        if segment.size_bytes == 0 or excess < segment.size_bytes:
            break
        excess -= segment.size_bytes
        count += 1
    return count


def _below_start(log: Log) -> int:
    return sum(segment.end_offset <= log.log_start_offset for segment in log.segments)


def _below(log: Log, offset: int) -> int:
    """How many segments end at or below `offset`; the active one ends at the end offset."""
    return sum(min(segment.end_offset, log.end_offset) <= offset for segment in log.segments)


def trim_prefix(log: Log, new_log_start_offset: int, defer_removal: bool) -> None:
    if log.offline is not None:
        raise LogOffline(log.path, log.offline)
    if new_log_start_offset > log.end_offset:
        raise Refusal(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"cannot trim to offset {new_log_start_offset}: the log ends at {log.end_offset}",
        )
    if new_log_start_offset > log.log_start_offset:
        log.log_start_offset = new_log_start_offset
        log.epochs.truncate_start(new_log_start_offset)
        count = _below_start(log)
        if count:
            _remove_first(log, count, defer_removal)


def _remove_first(log: Log, count: int, defer_removal: bool) -> None:
    """The caller leaves at least one segment."""
    removed, kept = log.segments[:count], log.segments[count:]
    first = kept[0].base_offset
    keep = _stand_in(log, first, kept)
    log.segments = kept
    log.size_bytes -= sum(segment.size_bytes for segment in removed)
    log.log_start_offset = max(log.log_start_offset, first)
    log.epochs.truncate_start(log.log_start_offset)
    log.hints = {}
    stale = log.snapshots.forget({segment.base_offset for segment in kept}, first)
    paths = [*_paths(removed), *stale]
    log.file_jobs.put(RemovalJob(log.files, log.path, first_offset=first, keep=keep, paths=paths))
    for segment in removed:
        segment.detach()
    if not defer_removal:
        _run_jobs(log)


def _stand_in(log: Log, first: int, kept: list[Segment]) -> list[str]:
    """Files that must be durable before the segments below `first` go: what is known of producers must outlive them.

    The snapshot at `first` fits whatever else a power loss takes. A later one only fits a log that reaches so far.
    """
    if log.snapshots.is_complete(first):
        return log.snapshots.paths(first)
    try:
        log.write_snapshot()
    except OSError as error:
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.path}: no snapshot of producers: {error}") from error
    return [*log.snapshots.paths(log.end_offset), *(segment.log.path for segment in kept)]


def _paths(segments: list[Segment]) -> list[str]:
    return [segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES]


def _run_jobs(log: Log) -> None:
    try:
        log.file_jobs.run_all()
    except OSError as error:
        log.go_offline(error)


def truncate_to(log: Log, offset: int) -> None:
    if log.offline is not None:
        raise LogOffline(log.path, log.offline)
    if offset >= log.end_offset:
        return
    _run_jobs(log)
    try:
        if offset <= log.segments[0].base_offset:
            restart_at(log, offset)
        else:
            _cut_at(log, offset)
    except OSError as error:
        log.go_offline(error)


def _cut_at(log: Log, offset: int) -> None:
    kept = [segment for segment in log.segments if segment.base_offset < offset]
    removed = log.segments[len(kept) :]
    last = kept[-1]
    located = last.locate(offset)
    end_offset = min(offset, located[1].base_offset) if located else offset
    log.segments = kept
    log.active = last
    last.end_offset = NEVER
    log.hints = {}
    if located is not None:
        last.cut(located[0])
    if log.gaps_below > 0:  # the end must be one that a restart finds again
        end_offset = min(end_offset, _end_of(last))
    _finish(log, end_offset, removed)


def _end_of(segment: Segment) -> int:
    """The offset after the last batch."""
    segment.load_indexes()
    last = segment.index.last
    end_offset = segment.base_offset
    for _, header in segment.headers(last[1] if last else 0):
        end_offset = header.next_offset
    return end_offset


def restart_at(log: Log, offset: int) -> None:
    """Forget everything and continue at `offset`, as a follower does whose whole log the leader has dropped."""
    removed = log.segments
    log.segments = []
    log.hints = {}
    segment = Segment(log.path, offset, log.files, log.handles)
    if any(old.base_offset == offset for old in removed):
        for old in removed:
            old.release()
        removed = [old for old in removed if old.base_offset != offset]
    if read_first_segment(log.files, log.path) is not None:
        write_first_segment(log.files, log.path, offset)
    segment.create(0)
    log.add_segment(segment)
    log.log_start_offset = min(log.log_start_offset, offset) if offset < log.log_start_offset else offset
    _finish(log, offset, removed)


def _finish(log: Log, end_offset: int, removed: list[Segment]) -> None:
    """Everything that describes offsets beyond the new end goes too, durably, before anything new is appended."""
    for segment in removed:
        segment.release()
    log.end_offset = end_offset
    log.flushed_offset = min(log.flushed_offset, end_offset)
    if log.cleaned_offset is not None:
        log.cleaned_offset = min(log.cleaned_offset, end_offset)
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.size_bytes = sum(segment.size_bytes for segment in log.segments)
    log.epochs.truncate_end(end_offset)
    log.snapshots.delete_after(end_offset)
    log.set_limits(log.active)
    log.active.log.get().sync()
    RemovalJob(log.files, log.path, first_offset=0, keep=(), paths=_paths(removed)).run()
    log.files.sync_directory(log.path)
    log.truncated()
