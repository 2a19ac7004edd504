"""Compaction: picks the dirtiest log, has it cleaned, swaps the new segments in. One log at a time.

The work itself runs elsewhere (``storage/compaction/runners.py``); here is what belongs on the event loop: the choice,
the swaps, and the end of a round whose log is no longer to be compacted. A log that cannot be cleaned is left alone
until the broker restarts, loudly; it stays readable and writable.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar
from uuid import UUID

from runnel.core.metadata import ClusterImage
from runnel.services.configs import ConfigService
from runnel.services.flusher import Flusher
from runnel.services.log_storage import Key
from runnel.services.partition import Partition
from runnel.services.partitions import Partitions, now_ms
from runnel.storage.compaction.cleaning import CannotClean, Cleaned, Summary, remove_cleaned
from runnel.storage.compaction.pace import Stopped
from runnel.storage.compaction.planning import Dirt, dirt_of, is_due, job_of
from runnel.storage.compaction.runners import ChildDied, Round, Runner
from runnel.storage.compaction.swapping import finish, gaps_job, swap
from runnel.storage.errors import StorageError
from runnel.storage.syncing import NO_SPACE
from runnel.wire.errors import Refusal

log = logging.getLogger("runnel.cleaner")

LOGS_PER_TURN = 50
"""How many logs are looked at before the loop gets its turn again."""
DEATHS_MAX = 3
"""How often in a row the process may die on one log before that log is left alone."""
FAILURES = (CannotClean, ChildDied, OSError)
Result = TypeVar("Result")


class UnderWay(NamedTuple):
    partition: Partition
    round: Round
    truncations: int


class Cleaner:
    def __init__(self, partitions: Partitions, configs: ConfigService, flusher: Flusher, runner: Runner) -> None:
        self._partitions = partitions
        self._configs = configs
        self._flusher = flusher
        self._runner = runner
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="runnel-cleaner")
        self._task: asyncio.Task[None] | None = None
        self._under_way: UnderWay | None = None
        self._stopping = False
        self._wake = asyncio.Event()
        self._backoff_ms = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._uncleanable: dict[Key, UUID] = {}
        self._deaths: dict[Key, int] = {}

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._configs.broker["log.cleaner.enable"]:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Give up what is under way; nothing touches files on return."""
        self._stopping = True
        self._wake.set()
        if self._under_way is not None:
            self._under_way.round.abort()
        if self._task is not None:
            await self._task
        await self._idle.wait()
        await self._in_thread(self._runner.rest)
        self._thread.shutdown(wait=True)

    async def _run(self) -> None:
        while not self._stopping:
            try:
                while not self._stopping and await self.clean_one():
                    pass
                await self._in_thread(self._runner.rest)
            except Exception:
                log.exception("compaction failed; it goes on after log.cleaner.backoff.ms")
            self._backoff_ms = self._configs.broker["log.cleaner.backoff.ms"]
            with suppress(TimeoutError):
                async with asyncio.timeout(self._backoff_ms / 1000):
                    await self._wake.wait()
            self._wake.clear()

    async def follow(self, image: ClusterImage) -> None:
        """End the round of a log whose topic is gone, another, or no longer compacted; nothing touches its files on
        return."""
        if self._backoff_ms != self._configs.broker["log.cleaner.backoff.ms"]:
            self._wake.set()
        while self._under_way is not None and not self._is_compacted(image, self._under_way.partition):
            self._under_way.round.abort()
            await self._idle.wait()

    def _is_compacted(self, image: ClusterImage, partition: Partition) -> bool:
        topic = image.topics.get(partition.topic)
        if topic is None or topic.topic_id != partition.topic_id:
            return False
        return "compact" in self._configs.of_topic(topic.configs)["cleanup.policy"]

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # --- choosing ---------------------------------------------------------------------------------------------

    async def clean_one(self) -> bool:
        """Clean the dirtiest log that is due; whether there was one that is now cleaner."""
        found = await self._dirtiest()
        return found is not None and not self._stopping and await self._clean(*found)

    async def _dirtiest(self) -> tuple[Partition, Dirt] | None:
        best: tuple[Partition, Dirt] | None = None
        now = now_ms()
        compacted = [each for each in self._partitions.open_partitions.values() if each.log.config.compacted]
        for number, partition in enumerate(compacted, 1):
            dirt = self._look_at(partition, now)
            if dirt is not None and (best is None or dirt.ratio > best[1].ratio):
                best = (partition, dirt)
            if number % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
        return best if best is not None and self._is_wanted(best[0]) else None

    def _look_at(self, partition: Partition, now: int) -> Dirt | None:
        """What of this log is to be cleaned; None if nothing is."""
        if not self._is_wanted(partition) or self._uncleanable.get(_key(partition)) == partition.topic_id:
            return None
        try:
            partition.log.roll_if_due(now)
            if partition.log.sealed_unsynced:  # what is not on disk cannot be cleaned: next time it is
                self._flusher.sync_soon(partition)
            dirt = dirt_of(partition.log, partition.high_watermark, now)
        except (Refusal, StorageError, OSError) as error:
            log.error("%s-%d cannot be looked at for compaction: %s", *_key(partition), error)
            return None
        return dirt if is_due(partition.log, dirt) else None

    def _is_wanted(self, partition: Partition) -> bool:
        served = self._partitions.open_partitions.get(_key(partition)) is partition
        return served and partition.log.offline is None and partition.log.config.compacted

    # --- cleaning ---------------------------------------------------------------------------------------------

    async def _clean(self, partition: Partition, dirt: Dirt) -> bool:
        broker = self._configs.broker
        job = job_of(
            partition.log,
            dirt,
            now_ms(),
            key_map_bytes=int(broker["log.cleaner.dedupe.buffer.size"] * broker["log.cleaner.io.buffer.load.factor"]),
            io_bytes_per_s=broker["log.cleaner.io.max.bytes.per.second"],
        )
        under_way = UnderWay(partition, self._runner.start(job), partition.log.truncations)
        self._under_way = under_way
        self._idle.clear()
        try:
            return await self._carry_out(under_way, dirt)
        except (Stopped, FileNotFoundError):  # retention or a deletion came first
            why = "the broker stops" if self._stopping else "its log has changed"
            log.info("compaction of %s-%d was given up: %s", *_key(partition), why)
        except FAILURES as error:
            self._failed(partition, error)
        finally:
            self._under_way = None
            self._idle.set()
        return False

    async def _carry_out(self, under_way: UnderWay, dirt: Dirt) -> bool:
        """Swap in what the round makes until it is over; whatever ends it early leaves no files behind."""
        partition = under_way.partition
        began_s, bytes_before = time.monotonic(), dirt.clean_bytes + dirt.dirty_bytes
        try:
            while isinstance(found := await self._next(under_way), Cleaned):
                await self._in_thread(gaps_job(partition.log, found.sources[-1].end_offset).run)
                if not swap(partition.log, found, under_way.truncations):
                    raise Stopped
                await self._move_files(partition)
            await self._in_thread(gaps_job(partition.log, found.cleaned_offset).run)
            if not finish(partition.log, found, under_way.truncations):
                raise Stopped
            await self._move_files(partition)
        except (Stopped, StorageError, OSError):
            under_way.round.abort()
            await self._in_thread(lambda: _remove_files(under_way))
            raise
        except BaseException:  # what it has written is removed when the log is next opened
            under_way.round.abort()
            raise
        await self._partitions.write_checkpoints()
        self._deaths.pop(_key(partition), None)
        _tell(partition, found, dirt, bytes_before, time.monotonic() - began_s)
        return True

    async def _next(self, under_way: UnderWay) -> Cleaned | Summary:
        found = await self._in_thread(under_way.round.next)
        if self._stopping or not self._is_wanted(under_way.partition):
            raise Stopped
        return found

    async def _move_files(self, partition: Partition) -> None:
        """The files follow the swap. Where they cannot, it is not known what the disk holds."""
        jobs = partition.log.file_jobs
        failed_before = jobs.failure  # a removal that retention has reported
        with suppress(OSError):
            await self._in_thread(jobs.run_all)
        if jobs.failure is not None and jobs.failure is not failed_before:
            log.error("%s-%d goes offline, its files could not be swapped: %s", *_key(partition), jobs.failure)
            partition.log.sync_failed(jobs.failure)
            partition.wake_all()
            raise Stopped from jobs.failure

    def _failed(self, partition: Partition, error: Exception) -> None:
        key = _key(partition)
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            log.warning("%s-%d cannot be compacted now: no space left on the device", *key)
            return
        deaths = self._deaths[key] = self._deaths.get(key, 0) + 1
        if isinstance(error, ChildDied) and deaths < DEATHS_MAX:
            log.warning("compaction of %s-%d is tried again later: %s", *key, error)
            return
        self._uncleanable[key] = partition.topic_id
        log.error(
            "%s-%d cannot be compacted and grows until the broker restarts; its records stay readable. "
            "`runnel log verify` checks its files. The reason: %s",
            *key,
            error,
        )


def _key(partition: Partition) -> Key:
    return partition.topic, partition.index


def _remove_files(under_way: UnderWay) -> None:
    """What the round has written and nobody will read, once it is surely over. Blocking."""
    with suppress(Stopped, StopIteration, StorageError, OSError):
        while True:
            under_way.round.next()
    opened = under_way.partition.log
    if opened.offline is None:  # the folder of a deleted topic goes as a whole, and its name may be another's by now
        try:
            remove_cleaned(opened.files, opened.path)
        except OSError as error:
            log.warning("files of a round that was given up are left in %s: %s", opened.path, error)


def _tell(partition: Partition, summary: Summary, dirt: Dirt, bytes_before: int, took_s: float) -> None:
    log.info(
        "compacted %s-%d up to offset %d in %.1f s: %d of %d records in %.1f of %.1f MB are left; %d keys, %.0f MB/s",
        *_key(partition),
        summary.cleaned_offset,
        took_s,
        summary.records_kept,
        summary.records_read,
        partition.log.size_bytes / 1e6,
        bytes_before / 1e6,
        summary.keys,
        (dirt.clean_bytes + dirt.dirty_bytes) / 1e6 / max(took_s, 1e-3),
    )
