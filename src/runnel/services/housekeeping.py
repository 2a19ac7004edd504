"""What a broker does by itself, at intervals: retention, rolling by age, checkpoints, expiry of producers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from runnel.services.configs import ConfigService
from runnel.services.flusher import Flusher
from runnel.services.partition import Partition
from runnel.services.partitions import Partitions, now_ms
from runnel.storage.errors import StorageError
from runnel.wire.errors import Refusal

log = logging.getLogger("runnel.housekeeping")

SEALED_CHECK_MS = 1000
PARTITIONS_PER_TURN = 50
"""How many logs are looked at before the loop gets its turn again."""


class Housekeeping:
    def __init__(self, partitions: Partitions, configs: ConfigService, flusher: Flusher) -> None:
        self._partitions = partitions
        self._configs = configs
        self._flusher = flusher
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for name, work, interval in (
            ("retention", self.retain, lambda: self._configs.broker["log.retention.check.interval.ms"]),
            ("sync of sealed segments", self.sync_sealed, lambda: SEALED_CHECK_MS),
            ("checkpoint", self.checkpoint, lambda: self._configs.broker["log.flush.offset.checkpoint.interval.ms"]),
        ):
            self._tasks.append(asyncio.get_running_loop().create_task(_every(name, work, interval)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def retain(self) -> None:
        """Roll and drop what is due, in every log, opened for it if need be."""
        for number, (topic, index) in enumerate(self._partitions.all_keys()):
            try:
                await self._retain_one(await self._partitions.open(topic, index))
            except Refusal:
                continue  # deleted meanwhile, or offline and already reported
            except (StorageError, OSError) as error:
                log.error("retention of %s-%d: %s", topic, index, error)
            if number % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _retain_one(self, partition: Partition) -> None:
        now = now_ms()
        partition.log.roll_if_due(now)
        deleted = partition.log.enforce_retention(now, high_watermark=partition.high_watermark, defer_removal=True)
        await self._partitions.remove_dropped(partition)
        partition.log.producers.expire(now, self._configs.broker["producer.id.expiration.ms"])
        if deleted:
            log.info("retention dropped %d segments of %s-%d", deleted, partition.topic, partition.index)

    async def sync_sealed(self) -> None:
        """As Kafka does: a segment that was sealed goes to disk, so that recovery never has to go behind it."""
        for partition in self._partitions.open_partitions.values():
            if partition.log.sealed_unsynced:
                self._flusher.sync_soon(partition)

    async def checkpoint(self) -> None:
        await self._partitions.write_checkpoints()


async def _every(name: str, work: Callable[[], Awaitable[None]], interval_ms: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(interval_ms() / 1000)
        try:
            await work()
        except Exception:
            log.exception("%s failed; it is tried again after its interval", name)
