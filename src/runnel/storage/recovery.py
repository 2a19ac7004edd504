"""Opening a log: what is on disk, what of it is good, and what state follows from it.

After a clean stop the files are taken as they are, and only the last few batches are read. After any other stop,
every segment from the one that holds the recovery point is checked batch by batch; a torn end is cut to the last
good batch; indexes, leader epochs and producers follow from what remains. The rules are in docs/formats.md.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from typing import TYPE_CHECKING

from runnel.storage.checkpoints import (
    COMPACTED_NAME,
    FIRST_SEGMENT_NAME,
    PARTITION_METADATA_NAME,
    decode_partition_metadata,
    encode_partition_metadata,
    encode_topic_id,
)
from runnel.storage.compaction.cleaning import CLEANED_SUFFIX
from runnel.storage.compaction.swapping import SWAP_SUFFIX, finish_swaps, read_gaps_below
from runnel.storage.errors import LogCorrupt, TopicIdMismatch
from runnel.storage.files import TEMPORARY_SUFFIX
from runnel.storage.scan import ANYWHERE, HEADERS_CHUNK_BYTES, Scanner, find_intact_batch
from runnel.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, NEVER, SEGMENT_SUFFIXES, Segment
from runnel.storage.syncing import read_first_segment
from runnel.storage.trimming import restart_at

if TYPE_CHECKING:
    from runnel.storage.log import Log

CORRUPT_SUFFIX = ".corrupt"
COPY_CHUNK_BYTES = 1 << 20

logger = logging.getLogger("runnel.storage")


def load(
    log: Log,
    topic_id: uuid.UUID,
    clean: bool,
    now_ms: int,
    log_start_offset: int | None,
    recovery_point: int | None,
    salvage: bool,
) -> None:
    """Fill an empty `Log` from its folder."""
    names = [] if log.is_new_directory else log.files.list(log.directory)
    _check_topic_id(log, topic_id, names)
    names = _finish_swaps(log, names)
    if COMPACTED_NAME in names:
        # Kafka may have had the folder since, and gone further.
        log.gaps_below = max(read_gaps_below(log.files, log.path), log.cleaned_offset or 0)
    elif log.cleaned_offset is not None:
        log.gaps_below = ANYWHERE  # Kafka has compacted it, and does not say how far
    _remove_leftovers(log, names)
    first_segment = read_first_segment(log.files, log.path) if FIRST_SEGMENT_NAME in names else None
    _find_segments(log, names, max(log_start_offset or 0, first_segment or 0), now_ms)
    _remove_deleted(log, first_segment or 0)
    epochs_known = log.epochs.load()
    scanned = not ((clean or log.is_new_directory) and _take_end(log))
    if scanned:
        # After a clean stop every byte was on disk: damage is never just an unfinished write.
        _recover(log, NEVER if clean else recovery_point or 0, salvage)
    if not epochs_known and log.size_bytes:
        _rebuild_epochs(log)
    if log_start_offset is not None and log_start_offset > log.end_offset:
        restart_at(log, log_start_offset)
    log.log_start_offset = max(log_start_offset or 0, log.segments[0].base_offset)
    if log.cleaned_offset is not None:
        log.cleaned_offset = min(log.cleaned_offset, log.end_offset)
    log.epochs.truncate_end(log.end_offset)
    log.epochs.truncate_start(log.log_start_offset)
    log.set_limits(log.active)
    if log.active.start_timestamp() >= 0:  # a restart must not put off the roll by age
        log.active.created_ms = min(now_ms, log.active.start_timestamp())
    reload_producers(log, now_ms)
    if scanned:
        _make_durable(log)
    log.flushed_offset = log.end_offset


def _check_topic_id(log: Log, topic_id: uuid.UUID, names: list[str]) -> None:
    path = f"{log.path}/{PARTITION_METADATA_NAME}"
    found = None
    if PARTITION_METADATA_NAME in names:
        found = decode_partition_metadata(log.files.read_bytes(path))
    if found is None:  # new, or torn by a power loss before it was durable
        log.files.write_atomic(path, encode_partition_metadata(topic_id), sync=False)
        log.unsynced.add([log.handles.handle(log.files, path)])
    elif found != topic_id:
        raise TopicIdMismatch(
            f"{log.path} belongs to topic id {encode_topic_id(found)}, not {encode_topic_id(topic_id)}"
        )


def _finish_swaps(log: Log, names: list[str]) -> list[str]:
    if not any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        return names
    finish_swaps(log.files, log.path, names)
    return log.files.list(log.directory)


def _remove_leftovers(log: Log, names: list[str]) -> None:
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        stem, dot, suffix = name.partition(".")
        orphan = dot + suffix in SEGMENT_SUFFIXES and stem not in logs
        if orphan or name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
            with contextlib.suppress(FileNotFoundError):
                log.files.remove(f"{log.path}/{name}")


def _find_segments(log: Log, names: list[str], first_offset: int, now_ms: int) -> None:
    digits = [name[: -len(LOG_SUFFIX)] for name in names if name.endswith(LOG_SUFFIX)]
    for base_offset in sorted(int(text) for text in digits if text.isdigit()):
        segment = Segment(log.path, base_offset, log.files, log.handles)
        segment.size_bytes = log.files.size(segment.path(LOG_SUFFIX))
        segment.created_ms = now_ms
        if log.segments:
            log.segments[-1].end_offset = base_offset
        log.segments.append(segment)
    if not log.segments:
        segment = Segment(log.path, first_offset, log.files, log.handles)
        segment.create(now_ms)
        log.add_segment(segment)
    log.active = log.segments[-1]
    log.size_bytes = sum(segment.size_bytes for segment in log.segments)


def _remove_deleted(log: Log, first_segment: int) -> None:
    """Segments whose deletion a crash has cut short; some of their files may be back, others not."""
    while len(log.segments) > 1 and log.segments[0].end_offset <= first_segment:
        segment = log.segments.pop(0)
        log.size_bytes -= segment.size_bytes
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                log.files.remove(segment.path(suffix))


def _take_end(log: Log) -> bool:
    """After a clean stop: the end offset from the last few batches. False if the file does not end with one."""
    active = log.active
    log.end_offset = active.base_offset
    if active.size_bytes == 0:
        _reset_indexes(active)
        return True
    active.load_indexes()
    position = active.index.last[1] if active.index.last else 0
    scanner = Scanner(active.log.get(), position, active.size_bytes, verify=True)
    for _, header in scanner:
        if header.max_timestamp > active.max_timestamp:
            active.max_timestamp, active.max_timestamp_offset = header.max_timestamp, header.last_offset
    active.bytes_since_index = active.size_bytes - position
    log.end_offset = scanner.expected_offset
    if scanner.problem is not None:
        logger.error(
            "%s: marked as cleanly stopped, but at position %d %s: checking everything",
            active.log.path, scanner.position, scanner.problem,
        )  # fmt: skip
    return scanner.problem is None


def _reset_indexes(segment: Segment) -> None:
    segment.indexes_loaded = True
    for index in (segment.index, segment.time_index):
        if segment.files.exists(index.handle.path):
            index.reset()


def _recover(log: Log, recovery_point: int, salvage: bool) -> None:
    first = 0
    for number, segment in enumerate(log.segments):
        if segment.base_offset <= recovery_point:
            first = number
    log.epochs.truncate_end(log.segments[first].base_offset)
    log.snapshots.delete_damaged(log.segments[first].base_offset)
    for number in range(first, len(log.segments)):
        segment = log.segments[number]
        if not _scan(log, segment, number, recovery_point, salvage):
            break
    log.active = log.segments[-1]
    log.size_bytes = sum(segment.size_bytes for segment in log.segments)


def _scan(log: Log, segment: Segment, number: int, recovery_point: int, salvage: bool) -> bool:
    """Check one segment and rebuild what follows from it; False if it was cut, and with it the log."""
    size = segment.size_bytes
    segment.start_rebuild()
    segment.index_interval_bytes = log.config.index_interval_bytes
    scanner = Scanner(segment.log.get(), 0, size, segment.base_offset, verify=True, gaps_below=log.gaps_below)
    for _, header in scanner:
        segment.note(header.size_bytes, header.last_offset, header.max_timestamp)
        log.epochs.note(header.leader_epoch, header.base_offset)
    log.end_offset = scanner.expected_offset
    log.unsynced.add((segment.log, segment.index.handle, segment.time_index.handle))
    if scanner.problem is None and segment is not log.active:
        gap = segment.end_offset - scanner.expected_offset
        if gap < 0 or (gap and segment.end_offset > log.gaps_below):
            scanner.problem = f"the next segment starts at offset {segment.end_offset}"
    if scanner.problem is None:
        if segment is not log.active:
            segment.seal()
        return True
    _cut(log, number, scanner, size, recovery_point, salvage)
    return False


def _cut(log: Log, number: int, scanner: Scanner, size: int, recovery_point: int, salvage: bool) -> None:
    """End the log at the last good batch before the problem; keep aside what might still be worth something."""
    segment, later = log.segments[number], log.segments[number + 1 :]
    position, offset = scanner.position, scanner.expected_offset
    intact = any(other.size_bytes for other in later)
    intact = intact or find_intact_batch(segment.log.get(), position + 1, size, offset) is not None
    what = f"{segment.log.path} is damaged at position {position} (offset {offset}): {scanner.problem}"
    if intact and offset < recovery_point and not salvage:
        raise LogCorrupt(
            f"{what}; everything below offset {recovery_point} was on disk, and good batches follow the damage: "
            "nothing was changed"
        )
    if intact or offset < recovery_point:
        logger.error("%s; the log now ends there, the rest is kept in *%s", what, CORRUPT_SUFFIX)
        if position < size:
            _set_aside(log, segment, position, size)
        for other in later:
            log.files.rename(other.log.path, f"{other.log.path}{CORRUPT_SUFFIX}")
    else:
        logger.warning("%s; %d bytes of an unfinished write were cut off", what, size - position)
    segment.log.get().truncate(position)
    segment.end_offset = NEVER
    for other in later:
        other.release()
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                log.files.remove(other.path(suffix))
    del log.segments[number + 1 :]


def _set_aside(log: Log, segment: Segment, position: int, size: int) -> None:
    source = segment.log.get()
    target = log.files.write_bytes(f"{segment.log.path}.{position}{CORRUPT_SUFFIX}", b"")
    while position < size:
        data = source.read(position, min(COPY_CHUNK_BYTES, size - position))
        target.append((data,))
        position += len(data)
    target.sync()


def _rebuild_epochs(log: Log) -> None:
    """From the batches; a segment that starts with the epoch of the next one has no change in it."""
    starts = [segment.first_header().leader_epoch for segment in log.segments if segment.size_bytes]
    filled = [segment for segment in log.segments if segment.size_bytes]
    for number, segment in enumerate(filled):
        log.epochs.note(starts[number], segment.base_offset)
        if number + 1 < len(filled) and starts[number + 1] == starts[number]:
            continue
        for _, header in segment.headers(0, HEADERS_CHUNK_BYTES):
            log.epochs.note(header.leader_epoch, header.base_offset)


def reload_producers(log: Log, now_ms: int) -> None:
    """From the newest good snapshot and the batches after it. Recovered producers count as seen just now."""
    log.snapshots.delete_after(log.end_offset)
    start = log.snapshots.load(log.producers, log.segments[0].base_offset, log.end_offset)
    for segment in log.segments:
        if segment.end_offset <= start or segment.size_bytes == 0:
            continue
        located = segment.locate(start)
        if located is None:
            continue
        for _, header in segment.headers(located[0], HEADERS_CHUNK_BYTES):
            if header.producer_id >= 0 and header.base_offset >= start:
                log.producers.update(header, header.base_offset, now_ms)


def _make_durable(log: Log) -> None:
    """What was found may be in the page cache only; from here on it counts as flushed."""
    log.write_snapshot()
    job = log.sync_job()
    if job is not None:
        job.run()
        log.synced(job)
