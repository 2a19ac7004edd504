"""The partitions of this broker: each is opened once, when first used, however many requests race for it.

The image of the cluster says which partitions exist; this service keeps the open ones in step with it. Opening,
trimming, closing and deleting touch the disk and run in threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import UUID

from runnel.core.metadata import ClusterImage, TopicImage
from runnel.services.configs import ConfigService
from runnel.services.log_storage import Key, LogStorage
from runnel.services.partition import Partition
from runnel.services.topic_settings import log_config, partition_settings
from runnel.storage.errors import StorageError
from runnel.storage.log import Log
from runnel.wire.errors import ErrorCode, Refusal

log = logging.getLogger("runnel.partitions")

DISK_THREADS = 4
Result = TypeVar("Result")


class DiskUsage(NamedTuple):
    directory: str
    partition_bytes: dict[Key, int]
    total_bytes: int
    usable_bytes: int


class Partitions:
    """``open_partitions`` is read by the hot paths directly; only this service writes it."""

    def __init__(self, storage: LogStorage, configs: ConfigService) -> None:
        self.open_partitions: dict[Key, Partition] = {}
        self._storage = storage
        self._configs = configs
        self._image: ClusterImage | None = None
        self._opening: dict[Key, asyncio.Task[Partition]] = {}
        self._failed: dict[Key, Refusal] = {}
        self._threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="runnel-disk")
        self._removals: set[asyncio.Task[None]] = set()
        self._checkpointing = asyncio.Lock()
        self._unchecked: set[Key] = set()  # logs that an unclean stop left and that nobody has opened since

    @property
    def directory(self) -> str:
        """The one log directory, as clients name it."""
        return self._storage.path

    # --- looking up -------------------------------------------------------------------------------------------

    def exists(self, topic: str, index: int) -> bool:
        image = self._image
        found = image.topics.get(topic) if image is not None else None
        return found is not None and 0 <= index < len(found.partitions)

    def all_keys(self) -> list[Key]:
        topics = self._image.topics.values() if self._image is not None else ()
        return [(topic.name, index) for topic in topics for index in range(len(topic.partitions))]

    @property
    def vouched_for(self) -> bool:
        """Whether a clean mark may speak for every log: none failed to open, and after an unclean stop each was
        opened, and so checked. Else the next start must check them."""
        return not self._failed and not self._unchecked

    def why_absent(self, topic: str, topic_id: UUID | None, index: int) -> Refusal:
        """Why there is no such open partition, as a client should hear it."""
        failed = self._failed.get((topic, index))
        if failed is not None:
            return failed
        if not topic and topic_id is not None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {topic}-{index} does not exist")

    async def open(self, topic: str, index: int) -> Partition:
        """The partition, opened if need be; Refusal where it does not exist or its log cannot be opened."""
        key = (topic, index)
        found = self.open_partitions.get(key)
        if found is not None:
            return found
        if not self.exists(topic, index):
            raise self.why_absent(topic, None, index)
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(key))
            self._opening[key] = opening
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
        # Whoever asked may go away; the others still want it.
        return await asyncio.shield(opening)

    async def _open(self, key: Key) -> Partition:
        topic = self._topic(key)
        try:
            opened = await self._in_thread(lambda: self._open_log(key, topic))
        except (StorageError, OSError) as error:
            if not self._still(topic):  # deleted while it was being opened
                raise self.why_absent(key[0], None, key[1]) from error
            log.error("cannot open %s-%d: %s", *key, error)
            self._failed[key] = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            raise self._failed[key] from error
        self._failed.pop(key, None)
        self._unchecked.discard(key)
        if not self._still(topic):  # deleted while it was being opened
            await self._in_thread(lambda: self._discard(key, opened))
            raise self.why_absent(key[0], None, key[1])
        partition = self._partition(key, opened)
        self.open_partitions[key] = partition
        return partition

    def _topic(self, key: Key) -> TopicImage:
        topic = self._image.topics.get(key[0]) if self._image is not None else None
        if topic is None or key[1] >= len(topic.partitions):
            raise self.why_absent(key[0], None, key[1])
        return topic

    def _still(self, topic: TopicImage) -> bool:
        now = self._image.topics.get(topic.name) if self._image is not None else None
        return now is not None and now.topic_id == topic.topic_id

    def _open_log(self, key: Key, topic: TopicImage) -> Log:
        config = log_config(self._configs.of_topic(topic.configs))
        return self._storage.open_log(*key, topic.topic_id, config, now_ms())

    def _partition(self, key: Key, opened: Log) -> Partition:
        topic = self._topic(key)  # read again: configs or the epoch may have changed meanwhile
        settings = partition_settings(self._configs.of_topic(topic.configs))
        epoch = topic.partitions[key[1]].leader_epoch
        return Partition(topic.name, topic.topic_id, key[1], opened, epoch, settings)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # --- following the image ----------------------------------------------------------------------------------

    def attach(self, image: ClusterImage) -> None:
        self._image = image
        self._unchecked = set() if self._storage.was_clean else set(self.all_keys())

    async def follow(self, before: ClusterImage, image: ClusterImage, configs_changed: bool) -> None:
        """Make the open partitions what the image says; complete on return."""
        self._image = image
        gone = [t for t in before.topics.values() if not self._still(t)] if before.topics is not image.topics else []
        for partition in self.open_partitions.values():
            topic = image.topics.get(partition.topic)
            if topic is not None and (configs_changed or topic is not before.topics.get(partition.topic)):
                self._update(partition, topic)
        if gone:
            await self._delete(gone)

    def _update(self, partition: Partition, topic: TopicImage) -> None:
        if topic.topic_id != partition.topic_id or partition.index >= len(topic.partitions):
            return
        view = self._configs.of_topic(topic.configs)
        partition.settings = partition_settings(view)
        partition.leader_epoch = topic.partitions[partition.index].leader_epoch
        partition.log.update_config(log_config(view))

    async def _delete(self, topics: Iterable[TopicImage]) -> None:
        """Out of sight at once, renamed before the answer, removed in the background."""
        doomed: list[tuple[Key, Partition | None]] = []
        for topic in topics:
            for index in range(len(topic.partitions)):
                partition = self.open_partitions.pop((topic.name, index), None)
                self._failed.pop((topic.name, index), None)
                self._unchecked.discard((topic.name, index))
                if partition is not None:
                    partition.abandon()
                doomed.append(((topic.name, index), partition))
        for _, partition in doomed:
            if partition is not None:
                await partition.quiet()
        async with self._checkpointing:
            paths = await self._in_thread(lambda: self._set_all_aside(doomed))
        self.remove_later(paths)

    def remove_later(self, paths: Iterable[Path]) -> None:
        """Free the space of folders that were set aside, in the background."""
        removal = asyncio.get_running_loop().create_task(self._remove(paths))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    def _set_all_aside(self, doomed: list[tuple[Key, Partition | None]]) -> list[Path]:
        with suppress(OSError):  # then each is tried alone, and told of
            self._storage.forget(key for key, _ in doomed)
        paths = [self._set_aside(key, partition) for key, partition in doomed]
        self._storage.sync()
        return [path for path in paths if path is not None]

    def _set_aside(self, key: Key, partition: Partition | None) -> Path | None:
        if partition is not None:
            partition.log.close(clean=False)
        try:
            return self._storage.set_aside(*key)
        except OSError as error:
            log.error("cannot set the folder of %s-%d aside: %s", *key, error)
            return None

    def _discard(self, key: Key, opened: Log) -> None:
        opened.close(clean=False)
        path = self._storage.set_aside(*key)
        if path is not None:
            self._storage.remove(path)

    async def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            try:
                await self._in_thread(partial(self._storage.remove, path))
            except OSError as error:
                log.error("cannot remove %s: %s", path, error)

    # --- records and disk -------------------------------------------------------------------------------------

    async def trim(self, topic: str, index: int, offset: int) -> int:
        """Move the log start offset up (DeleteRecords); the new one, which is on disk on return."""
        partition = await self.open(topic, index)
        target = partition.high_watermark if offset == -1 else offset
        if not 0 <= target <= partition.high_watermark:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside of 0 to the high watermark {partition.high_watermark}",
            )
        try:
            if target > partition.log.log_start_offset:
                partition.log.trim_prefix(target, defer_removal=True)
            await self.write_checkpoints()
            await self.remove_dropped(partition)
        except (StorageError, OSError) as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return partition.log.log_start_offset

    async def remove_dropped(self, partition: Partition) -> None:
        """Free the space of segments that trimming, retention or compaction dropped."""
        if partition.log.file_jobs:
            await self._in_thread(partition.log.file_jobs.run_all)

    async def disk_usage(self, wanted: set[Key] | None) -> DiskUsage:
        keys = [key for key in self.all_keys() if wanted is None or key in wanted]
        open_sizes = {k: p.log.size_bytes for k, p in self.open_partitions.items() if wanted is None or k in wanted}
        closed = [key for key in keys if key not in open_sizes]
        sizes = await self._in_thread(lambda: {key: self._storage.partition_bytes(*key) for key in closed})
        total, usable = self._storage.disk_space()
        return DiskUsage(self._storage.path, {**sizes, **open_sizes}, total, usable)

    async def write_checkpoints(self) -> None:
        """Offsets that are on disk, where logs start, up to where they are clean: of the open logs. Those of the
        others are kept as they are."""
        async with self._checkpointing:  # gathered and written in one order, and never beside a deletion
            flushed = {key: partition.log.flushed_offset for key, partition in self.open_partitions.items()}
            starts = {key: partition.log.log_start_offset for key, partition in self.open_partitions.items()}
            cleaned = {k: p.log.cleaned_offset for k, p in self.open_partitions.items() if p.log.cleaned_offset}
            work = asyncio.ensure_future(
                self._in_thread(lambda: self._storage.write_checkpoints(flushed, starts, cleaned))
            )
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait((work,))  # the thread goes on: keep the lock until it is done
                raise

    async def close(self) -> bool:
        """Flush and close every log, in threads; whether all of them closed in order."""
        if self._opening:
            await asyncio.gather(*self._opening.values(), return_exceptions=True)
        if self._removals:
            await asyncio.gather(*self._removals)
        closed = await asyncio.gather(*(self._close_one(p) for p in self.open_partitions.values()))
        if all(closed):
            await self.write_checkpoints()
        self.open_partitions.clear()
        self._threads.shutdown(wait=True)
        return all(closed)

    async def _close_one(self, partition: Partition) -> bool:
        try:
            await self._in_thread(lambda: partition.log.close(clean=True))
        except (StorageError, OSError) as error:
            log.error("%s-%d did not close in order: %s", partition.topic, partition.index, error)
            return False
        return True


def now_ms() -> int:
    return time.time_ns() // 1_000_000
