"""What of a log may be cleaned, how dirty that is, and the job that cleans it. Runs on the event loop.

A log is clean up to `Log.cleaned_offset`. Never touched are the active segment, what is not on disk or not stable (not
committed, or of an open transaction), and segments with a record younger than min.compaction.lag.ms. The rules of
choice are Kafka's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runnel.storage.compaction.cleaning import Job, Source
from runnel.storage.segment import Segment

if TYPE_CHECKING:
    from runnel.storage.log import Log


class Dirt(NamedTuple):
    """The part of a log that may be cleaned."""

    segments: list[Segment]
    first_dirty_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Something has waited longer than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)


def dirt_of(log: Log, stable_offset: int, now_ms: int) -> Dirt:
    """`stable_offset`: the high watermark, or where the first open transaction begins."""
    first_dirty = max(log.cleaned_offset or 0, log.log_start_offset)
    segments = _cleanable(log, _limit(log, stable_offset), first_dirty, now_ms)
    clean_bytes = sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty)
    dirty = [segment for segment in segments if segment.end_offset > first_dirty]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    return Dirt(segments, first_dirty, clean_bytes, dirty_bytes, _is_overdue(log, dirty, now_ms))


def is_due(log: Log, dirt: Dirt) -> bool:
    if dirt.dirty_bytes == 0:
        return False
    return dirt.is_overdue or dirt.ratio > log.config.min_cleanable_dirty_ratio


def _limit(log: Log, stable_offset: int) -> int:
    """No segment that reaches beyond this may be cleaned.

    The producer snapshot behind the last one must be on disk: it is all that knows of the batches that will be gone.
    """
    on_disk = log.flushed_offset if log.unsynced.is_clean else log.flushed_offset - 1
    return min(stable_offset, on_disk, log.active.base_offset)


def _cleanable(log: Log, limit: int, first_dirty: int, now_ms: int) -> list[Segment]:
    lag_ms = log.config.min_compaction_lag_ms
    found: list[Segment] = []
    for segment in log.segments:
        if segment.end_offset > limit:
            break
        is_dirty = segment.end_offset > first_dirty
        if is_dirty and lag_ms > 0 and segment.largest_timestamp() > now_ms - lag_ms:
            break
        found.append(segment)
    return found


def _is_overdue(log: Log, dirty: list[Segment], now_ms: int) -> bool:
    oldest_allowed = now_ms - log.config.max_compaction_lag_ms
    return oldest_allowed > 0 and any(0 < segment.start_timestamp() < oldest_allowed for segment in dirty)


def job_of(log: Log, dirt: Dirt, now_ms: int, *, key_map_bytes: int, io_bytes_per_s: float) -> Job:
    config = log.config
    end_offset = dirt.segments[-1].end_offset if dirt.segments else 0
    return Job(
        directory=log.path,
        sources=[Source(segment.base_offset, segment.size_bytes, segment.end_offset) for segment in dirt.segments],
        first_dirty_offset=dirt.first_dirty_offset,
        producers={producer: each.last_offset for producer, each in log.producers if each.last_offset < end_offset},
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        key_map_bytes=key_map_bytes,
        io_bytes_per_s=io_bytes_per_s,
    )
