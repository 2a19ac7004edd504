"""Group commit: one fsync, off the event loop, answers every append that waited for it.

While a log is being synced, later appends gather; one more sync then serves them all. An fsync that fails takes the
log offline and fails its waiters: the pages may already be gone, so it is never tried again (fsyncgate).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from runnel.storage.errors import LogOffline
from runnel.storage.syncing import SyncJob

if TYPE_CHECKING:
    from runnel.services.partition import Partition

log = logging.getLogger("runnel.flusher")

SYNC_THREADS = 8


class SyncWait:
    """Appends of one log that wait for the disk: (offset that must be safe, future)."""

    __slots__ = ("future", "offset")

    def __init__(self, offset: int, future: asyncio.Future[None]) -> None:
        self.offset = offset
        self.future = future


class Flusher:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="runnel-fsync")
        self._loop = asyncio.get_running_loop()
        self._running = 0
        self._queue: deque[Partition] = deque()

    def flushed(self, partition: Partition, offset: int) -> asyncio.Future[None]:
        """A future that is done when everything below ``offset`` is on disk."""
        future: asyncio.Future[None] = self._loop.create_future()
        if partition.log.flushed_offset >= offset:
            future.set_result(None)
            return future
        partition.sync_waits.append(SyncWait(offset, future))
        if not partition.syncing:
            partition.syncing = True
            # Not at once: appends of this turn of the loop, from all connections, share the sync.
            self._loop.call_soon(self._begin, partition)
        return future

    def sync_soon(self, partition: Partition) -> None:
        """Begin a sync that nobody waits for (a sealed segment, flush.ms)."""
        if not partition.syncing and partition.log.offline is None:
            partition.syncing = True
            self._loop.call_soon(self._begin, partition)

    def sync_within(self, partition: Partition, delay_ms: int) -> None:
        """flush.ms: begin a sync at the latest after this time."""
        if partition.sync_timer is None:
            partition.sync_timer = self._loop.call_later(delay_ms / 1000, self._timer_fired, partition)

    def _timer_fired(self, partition: Partition) -> None:
        partition.sync_timer = None
        self.sync_soon(partition)

    def _begin(self, partition: Partition) -> None:
        """Start a sync when a thread is free: a job holds files open, so jobs must not pile up."""
        if self._running >= SYNC_THREADS:
            self._queue.append(partition)
            return
        try:
            job = None if partition.log.offline is not None else partition.log.sync_job()
        except OSError as error:  # a file of the log cannot even be opened
            self._failed(partition, error)
            return
        if job is None:
            self._settle(partition)
            return
        self._running += 1
        work = self._loop.run_in_executor(self._threads, job.run)
        work.add_done_callback(lambda done: self._finished(partition, job, done))

    def _finished(self, partition: Partition, job: SyncJob, done: asyncio.Future[None]) -> None:
        self._running -= 1
        error = done.exception()
        if error is None:
            partition.log.synced(job)
            self._settle(partition)
        else:
            self._failed(partition, error)
        while self._queue and self._running < SYNC_THREADS:
            self._begin(self._queue.popleft())

    def _failed(self, partition: Partition, error: BaseException) -> None:
        log.error("%s-%d goes offline, its fsync failed: %s", partition.topic, partition.index, error)
        partition.log.sync_failed(error)
        self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        """Answer whoever is served, and go on if somebody is left."""
        offline = partition.log.offline
        safe = partition.log.flushed_offset
        left: list[SyncWait] = []
        for wait in partition.sync_waits:
            if wait.future.done():
                continue
            if wait.offset <= safe:
                wait.future.set_result(None)
            elif offline is not None:
                wait.future.set_exception(LogOffline(partition.log.path, offline))
            else:
                left.append(wait)
        partition.sync_waits = left
        if left:
            self._queue.append(partition)  # behind those that already wait for a thread
        else:
            partition.syncing = False

    def close(self) -> None:
        self._threads.shutdown(wait=True)
