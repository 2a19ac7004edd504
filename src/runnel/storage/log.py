"""One partition's log: appends at its end, reads anywhere, rolls segments, knows what is durable.

In: whole record batches, in the order they shall have; out: their offsets, and later their bytes. Not thread safe:
everything runs on the event-loop thread except `ReadPlan.read`, `SyncJob.run` and `FileJobs.run_all`, made
for other threads, and `Log.open` and `Log.close`, which block. Deciding when to sync, to enforce retention, to
answer a client is the service's.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from runnel.core.partition.producers import Duplicate, ProducerStates
from runnel.storage import reading, recovery, searching, trimming
from runnel.storage.config import LogConfig
from runnel.storage.epochs import LeaderEpochs
from runnel.storage.errors import LogOffline, StorageError
from runnel.storage.files import Files
from runnel.storage.handles import HandleCache
from runnel.storage.segment import NEVER, SEGMENT_BYTES_MAX, Segment
from runnel.storage.snapshots import ProducerSnapshots
from runnel.storage.syncing import NO_SPACE, FileJobs, SyncJob, Unsynced
from runnel.wire.batch import LENGTH_PREFIX_BYTES, BatchHeader, assign, iterate_headers
from runnel.wire.errors import ErrorCode, Refusal

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    duplicate: bool
    max_timestamp: int


class Log:
    __slots__ = (
        "active",
        "cleaned_offset",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "file_jobs",
        "files",
        "first_unflushed_ms",
        "flushed_offset",
        "gaps_below",
        "handles",
        "hints",
        "is_new_directory",
        "log_start_offset",
        "offline",
        "parent_unsynced",
        "path",
        "producers",
        "segments",
        "size_bytes",
        "snapshots",
        "truncations",
        "unsynced",
    )

    def __init__(
        self, directory: Path, config: LogConfig, files: Files, handles: HandleCache, names: Sequence[str]
    ) -> None:
        """An unopened log; `open` is the way in."""
        self.directory = directory
        self.path = str(directory)
        self.config = config
        self.files = files
        self.handles = handles
        self.segments: list[Segment] = []
        self.active: Segment
        self.log_start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0
        self.size_bytes = 0
        self.offline: BaseException | None = None
        self.first_unflushed_ms: int | None = None
        self.producers = ProducerStates()
        self.snapshots = ProducerSnapshots(self.path, files, names)
        self.epochs = LeaderEpochs(self.path, files)
        self.hints: dict[int, tuple[Segment, int]] = {}
        self.is_new_directory = False
        self.parent_unsynced = False
        """The folder's own name may not be durable: this process made it, or one before that came to a bad end."""
        self.unsynced = Unsynced()
        self.truncations = 0
        self.file_jobs = FileJobs()
        self.cleaned_offset: int | None = None
        """Below this, compaction has removed what newer records replace. None: it never looked at this log."""
        self.gaps_below = 0
        """Below this, offsets may be missing because compaction removed them. Elsewhere a gap means lost bytes."""

    @classmethod
    def open(
        cls,
        directory: Path,
        topic_id: uuid.UUID,
        config: LogConfig,
        *,
        files: Files,
        handles: HandleCache,
        clean: bool,
        now_ms: int,
        log_start_offset: int | None = None,
        recovery_point: int | None = None,
        cleaned_offset: int | None = None,
        salvage: bool = False,
    ) -> Log:
        """Blocking. Makes the folder if it is not there; `clean` skips the scan that an unclean stop needs.

        LogCorrupt: bytes below the recovery point are damaged. `salvage` then keeps what comes before them and
        moves the rest into `*.corrupt` files.
        """
        is_new = files.make_directory(directory)
        log = cls(directory, config, files, handles, () if is_new else files.list(directory))
        log.is_new_directory = is_new
        log.parent_unsynced = is_new or not clean
        log.cleaned_offset = None if is_new else cleaned_offset
        recovery.load(log, topic_id, clean, now_ms, log_start_offset, recovery_point, salvage)
        return log

    # --- appending ---------------------------------------------------------------------------------------------

    def append(
        self, batch: memoryview | bytearray, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Place one whole, checked batch at the end. Its offset and epoch are patched into `batch` itself."""
        if self.offline is not None:
            raise LogOffline(self.path, self.offline)
        has_producer = header.producer_id >= 0
        if has_producer:
            verdict = self.producers.check(header)
            if verdict is not None:
                if isinstance(verdict, Duplicate):
                    return AppendResult(verdict.base_offset, verdict.last_offset, True, verdict.timestamp)
                raise Refusal(verdict.code, verdict.message)
        segment, size = self.active, len(batch)
        if size != header.batch_length + LENGTH_PREFIX_BYTES or header.last_offset_delta < 0:
            raise ValueError(f"not one whole batch: {size} bytes with {header}")
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        if (
            segment.size_bytes + size > segment.size_limit
            or max_timestamp > segment.roll_after_ms
            or last_offset > segment.offset_limit
        ):
            segment = self._roll_for(size, now_ms)
        assign(batch, 0, base_offset, leader_epoch)
        try:
            segment.log.get().append((batch,))
        except OSError as error:
            self._append_failed(segment, error)
        if segment.size_bytes == 0:
            self._note_first(segment, max_timestamp)
        segment.note(size, last_offset, max_timestamp)
        if leader_epoch > self.epochs.latest:
            self.epochs.note(leader_epoch, base_offset)
        self.end_offset = last_offset + 1
        self.size_bytes += size
        if has_producer:
            self.producers.update(header, base_offset, now_ms)
        if self.first_unflushed_ms is None:
            self.first_unflushed_ms = now_ms
            segment.log.dirty = True
        return AppendResult(base_offset, last_offset, False, max_timestamp)

    def append_replica(self, batches: bytes | bytearray | memoryview, now_ms: int) -> int:
        """Append batches that a leader has already placed; the new end offset. They must follow our end."""
        view = memoryview(batches)
        for position, header in iterate_headers(view):
            if self.offline is not None:
                raise LogOffline(self.path, self.offline)
            if header.base_offset < self.end_offset:
                raise Refusal(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"a batch at offset {header.base_offset} cannot follow {self.end_offset}",
                )
            self._append_placed(view[position : position + header.size_bytes], header, now_ms)
        return self.end_offset

    def _append_placed(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        segment, size = self.active, len(batch)
        last_offset, max_timestamp = header.last_offset, header.max_timestamp
        if (
            segment.size_bytes + size > segment.size_limit
            or max_timestamp > segment.roll_after_ms
            or last_offset > segment.offset_limit
        ):
            segment = self._roll_for(size, now_ms, header.base_offset)
        try:
            segment.log.get().append((batch,))
        except OSError as error:
            self._append_failed(segment, error)
        if segment.size_bytes == 0:
            self._note_first(segment, max_timestamp)
        segment.note(size, last_offset, max_timestamp)
        self.epochs.note(header.leader_epoch, header.base_offset)
        self.end_offset = last_offset + 1
        self.size_bytes += size
        if header.producer_id >= 0:
            self.producers.update(header, header.base_offset, now_ms)
        if self.first_unflushed_ms is None:
            self.first_unflushed_ms = now_ms
            segment.log.dirty = True

    def _append_failed(self, segment: Segment, error: OSError) -> NoReturn:
        """Take away what a torn write left; a full disk is the only error that the log survives."""
        if error.errno in NO_DESCRIPTOR:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path}: {error.strerror}") from error
        try:
            segment.log.get().truncate(segment.size_bytes)
        except OSError:
            self.go_offline(error)
        if error.errno in NO_SPACE:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path}: no space left on the device") from error
        self.go_offline(error)

    def go_offline(self, error: BaseException) -> NoReturn:
        """Stop for good: what the disk holds is no longer known."""
        if self.offline is None:
            self.offline = error
        raise LogOffline(self.path, self.offline) from error

    def _note_first(self, segment: Segment, max_timestamp: int) -> None:
        segment.first_timestamp = max_timestamp
        segment.log.dirty = True
        self.set_limits(segment)

    # --- rolling -----------------------------------------------------------------------------------------------

    def set_limits(self, segment: Segment) -> None:
        """When this segment has to be followed by a new one, in the terms that `append` compares."""
        config = self.config
        segment.index_interval_bytes = config.index_interval_bytes
        segment.index_entries_max = max(1, config.segment_index_bytes // 8)
        segment.time_entries_max = max(1, config.segment_index_bytes // 12 - 1)
        segment.size_limit = min(config.segment_bytes, SEGMENT_BYTES_MAX)
        started = segment.start_timestamp()
        segment.roll_after_ms = NEVER if started < 0 else started + config.segment_ms - self._jitter_ms(segment)

    def _jitter_ms(self, segment: Segment) -> int:
        """Spreads rolls of many partitions; the same for the same segment, so that a restart changes nothing."""
        jitter_max = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if jitter_max <= 0:
            return 0
        return zlib.crc32(segment.log.path.encode()) % jitter_max

    def _roll_for(self, size: int, now_ms: int, base_offset: int | None = None) -> Segment:
        if size > min(self.config.segment_bytes, SEGMENT_BYTES_MAX):
            raise Refusal(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes is larger than a segment of {self.config.segment_bytes}",
            )
        if self.active.size_bytes:
            self.roll(now_ms, base_offset)
        return self.active

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Seal the active segment and start the next one at the end offset. An empty one is left as it is."""
        if self.offline is not None:
            raise LogOffline(self.path, self.offline)
        sealed = self.active
        if sealed.size_bytes == 0:
            return
        start = self.end_offset if base_offset is None else base_offset
        try:
            sealed.seal()
            self.write_snapshot()
            segment = Segment(self.path, start, self.files, self.handles)
            segment.create(now_ms)
        except OSError as error:
            self._roll_failed(error)
        sealed.end_offset = start
        self.unsynced.add((sealed.log, sealed.index.handle, sealed.time_index.handle))
        self.add_segment(segment)

    def _roll_failed(self, error: OSError) -> NoReturn:
        """The active segment is still whole: with space again, the next append tries again."""
        if error.errno in NO_SPACE or error.errno in NO_DESCRIPTOR:
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path}: cannot start a segment: {error.strerror}"
            ) from error
        self.go_offline(error)

    def add_segment(self, segment: Segment) -> None:
        """Make `segment` the active one."""
        self.segments.append(segment)
        self.active = segment
        self.set_limits(segment)
        self.unsynced.add(())

    def roll_if_due(self, now_ms: int) -> bool:
        """Roll a segment that has been open for segment.ms though nothing was appended that would roll it."""
        active = self.active
        if self.offline is not None or active.size_bytes == 0:
            return False
        if now_ms - active.created_ms < self.config.segment_ms - self._jitter_ms(active):
            return False
        self.roll(now_ms)
        return True

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self.set_limits(self.active)

    # --- durability --------------------------------------------------------------------------------------------

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self.flushed_offset

    @property
    def sealed_unsynced(self) -> bool:
        """A sealed segment waits for its fsync: the service should run a sync job soon, as Kafka does on a roll."""
        return self.unsynced.has_files

    def write_snapshot(self) -> None:
        """The producers as they are at the end offset; durable with the next sync job."""
        self.snapshots.write(self.producers, self.end_offset)
        paths = self.snapshots.paths(self.end_offset)
        self.unsynced.add([self.handles.handle(self.files, path) for path in paths])

    def sync_job(self) -> SyncJob | None:
        """What has to be fsynced for everything up to now to be durable; None if it already is.

        One at a time: the next is made when this one was `synced`.
        """
        if self.offline is not None:
            raise LogOffline(self.path, self.offline)
        if self.flushed_offset >= self.end_offset and self.unsynced.is_clean:
            return None
        open_files = [self.active.log.get()]
        for handle in self.unsynced.handles:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                open_files.append(handle.get())
        directories: list[str] = []
        if not self.unsynced.is_clean:
            directories = [self.path, str(self.directory.parent)] if self.parent_unsynced else [self.path]
        self.first_unflushed_ms = None
        return SyncJob(
            self.files,
            open_files,
            directories,
            self.epochs.take_change(),
            target_offset=self.end_offset,
            changes=self.unsynced.changes,
            truncations=self.truncations,
            snapshot_offset=self.snapshots.offsets[-1] if self.snapshots.offsets else -1,
            segment=self.active,
        )

    def synced(self, job: SyncJob) -> None:
        """The job has run: up to its target, the log survives a power loss."""
        if job.truncations != self.truncations:
            return  # what it made durable was cut off meanwhile
        if job.target_offset > self.flushed_offset:
            self.flushed_offset = job.target_offset
        if self.unsynced.done(job.changes):
            self.parent_unsynced = False
            if self.offline is None:
                self._remove_stale_snapshots(job.snapshot_offset)
        self.active.log.dirty = self.first_unflushed_ms is not None
        if job.segment is self.active:
            reading.make_room(self.hints)
            self.hints[job.target_offset] = (job.segment, job.position)

    def _remove_stale_snapshots(self, durable_offset: int) -> None:
        stale = self.snapshots.forget({segment.base_offset for segment in self.segments}, durable_offset)
        for path in stale:
            with contextlib.suppress(OSError):  # a leftover does no harm
                self.files.remove(path)

    def sync_failed(self, error: BaseException) -> None:
        """The job has failed. The log stops: a second fsync could succeed without the bytes being there."""
        if self.offline is None:
            self.offline = error

    def abandon(self) -> None:
        """The topic was deleted: its names may soon be another's, so nothing goes by path any more."""
        self.sync_failed(StorageError("the topic was deleted"))
        self.file_jobs.clear()

    def close(self, *, clean: bool) -> None:
        """Blocking. A clean close leaves nothing to scan: indexes, snapshot and bytes are durable on return."""
        try:
            if clean and self.offline is None:
                self._close_clean()
        finally:
            self.file_jobs.close()
            for segment in self.segments:
                segment.release()

    def _close_clean(self) -> None:
        self.file_jobs.run_all()
        active = self.active
        if active.size_bytes and active.indexes_loaded:
            active.seal()
            self.unsynced.add((active.index.handle, active.time_index.handle))
        if self.end_offset not in self.snapshots.offsets and self.size_bytes:
            self.write_snapshot()
        job = self.sync_job()
        if job is not None:
            try:
                job.run()
            except OSError as error:
                self.go_offline(error)
            self.synced(job)

    # --- reading -----------------------------------------------------------------------------------------------

    def plan_read(
        self, offset: int, max_bytes: int, end_offset_max: int | None = None, min_one: bool = True
    ) -> reading.ReadPlan:
        """Whole batches from the one that holds `offset`, below `end_offset_max`, of one segment."""
        if self.offline is not None:
            raise LogOffline(self.path, self.offline)
        end_offset = self.end_offset if end_offset_max is None else end_offset_max
        return reading.plan_read(self, offset, max_bytes, end_offset, min_one)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with this timestamp or a later one. Blocking."""
        return searching.offset_for_timestamp(self, timestamp)

    def max_timestamp_offset(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the record with the largest timestamp. Blocking."""
        return searching.max_timestamp_offset(self)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.end_offset)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def verify(self) -> Iterator[searching.Finding]:
        """Check every checksum and offset of every segment, for an offline checker. Blocking."""
        return searching.verify(self)

    # --- shortening --------------------------------------------------------------------------------------------

    def trim_prefix(self, new_log_start_offset: int, *, defer_removal: bool = False) -> None:
        """DeleteRecords: nothing below is readable any more; segments wholly below are deleted.

        Blocks unless removal is deferred. That the log starts in the middle of a segment is the caller's to remember.
        """
        trimming.trim_prefix(self, new_log_start_offset, defer_removal)

    def enforce_retention(self, now_ms: int, *, high_watermark: int | None = None, defer_removal: bool = False) -> int:
        """Delete segments beyond retention.ms and retention.bytes; how many. Blocks unless removal is deferred."""
        return trimming.enforce_retention(self, now_ms, high_watermark, defer_removal)

    def truncate_to(self, offset: int) -> None:
        """Cut the end: batches that hold `offset` or later ones go. Blocking."""
        trimming.truncate_to(self, offset)

    def truncated(self) -> None:
        """The end was cut: a sync that is on its way no longer counts, and producers follow from what is left."""
        self.truncations += 1
        recovery.reload_producers(self, 0)
