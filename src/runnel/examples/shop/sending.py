"""Sending the shop's records, minute by minute, and taking up exactly where an earlier run stopped.

In: a `Shop` and a `Ledger`. Out: records in topics. The ledger is saved after each minute; should a run end in the
middle of one, the offsets of the topics say which of its records are there already, and the next run sends the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

from runnel.client.admin import NewTopic, create_topics
from runnel.client.cluster import Cluster
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import bounds
from runnel.client.partitioner import partition_for_key
from runnel.client.producer import Producer
from runnel.examples.shop.folder import DemoError, Ledger
from runnel.examples.shop.journeys import Shop
from runnel.examples.shop.rules import ALERTS, INPUTS, PARTITIONS, ShopRecord
from runnel.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CLIENT_ID = "runnel-demo"
FOREVER = {"retention.ms": "-1"}
"""The shop's clock is not ours: by its timestamps a record may be older than the default retention."""


class Sender:
    """Use as `async with Sender.open(...) as sender`; then `send_minute` again and again."""

    def __init__(self, producer: Producer, ledger: Ledger, save: Callable[[Ledger], None], there: list[int]) -> None:
        self._producer, self._ledger, self._save = producer, ledger, save
        self._minutes = Shop(ledger.seed, ledger.sessions_per_minute).minutes(ledger.next_minute)
        self._there = dict(zip(_targets(), there, strict=True))

    @classmethod
    @asynccontextmanager
    async def open(cls, bootstrap: str, ledger: Ledger, save: Callable[[Ledger], None]) -> AsyncIterator[Sender]:
        async with Cluster(bootstrap, client_id=CLIENT_ID) as cluster:
            await _ensure_topics(cluster)
            ends = {target: found.end for target, found in (await bounds(cluster, _targets())).items()}
            there = [ends[target] - _sent(ledger, target) for target in _targets()]
            if min(there) < 0:
                raise DemoError(_STRANGE.format(what="hold fewer records than were sent to them"))
            async with Producer(cluster) as producer:
                yield cls(producer, ledger, save, there)

    async def send_minute(self) -> int:
        """Send the next simulated minute; how many records it had."""
        records = next(self._minutes)
        counts = {topic: list(self._ledger.sent.get(topic, [0] * PARTITIONS)) for topic in INPUTS}
        for record in records:
            partition = partition_for_key(record.key, PARTITIONS)
            counts[record.topic][partition] += 1
            await self._send(TopicPartition(record.topic, partition), record)
        if any(self._there.values()):
            raise DemoError(_STRANGE.format(what="hold records that no demo sent"))
        await self._producer.flush()
        self._ledger.sent = counts
        self._ledger.next_minute += 1
        self._save(self._ledger)
        return len(records)

    async def _send(self, target: TopicPartition, record: ShopRecord) -> None:
        if self._there[target]:
            self._there[target] -= 1
            return
        await self._producer.send(
            record.topic, record.value, key=record.key, partition=target.partition, timestamp_ms=record.arrival_ms
        )


_STRANGE = (
    "the shop's topics {what}: the broker's data and the demo's folder do not belong together. Delete both, or name "
    "others by --data-dir and --folder"
)


def _targets() -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic in INPUTS for partition in range(PARTITIONS)]


def _sent(ledger: Ledger, target: TopicPartition) -> int:
    counts = ledger.sent.get(target.topic)
    return counts[target.partition] if counts else 0


async def _ensure_topics(cluster: Cluster) -> None:
    topics = [NewTopic(name, PARTITIONS, 1, FOREVER) for name in INPUTS] + [NewTopic(ALERTS, 1, 1, FOREVER)]
    for outcome in await create_topics(cluster, topics):
        if outcome.error is not None and outcome.error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome.error
    for topic in topics:
        found = len((await cluster.topic(topic.name)).partitions)
        if found != topic.partitions:
            raise DemoError(
                f"topic '{topic.name}' has {found} partitions and the demo needs {topic.partitions}: "
                f"delete it (`runnel topic delete {topic.name}`), or name another --data-dir"
            )


async def send_all(bootstrap: str, ledger: Ledger, save: Callable[[Ledger], None], minutes: int) -> int:
    """As fast as the broker takes them; how many records."""
    async with Sender.open(bootstrap, ledger, save) as sender:
        return sum([await sender.send_minute() for _ in range(minutes)])


async def send_until(
    stop: asyncio.Event,
    bootstrap: str,
    ledger: Ledger,
    save: Callable[[Ledger], None],
    *,
    minute_s: float,
    begun: Callable[[], None],
) -> None:
    """A simulated minute every `minute_s`, until told to stop. `begun` is called when topics and ledger agree."""
    loop = asyncio.get_running_loop()
    async with Sender.open(bootstrap, ledger, save) as sender:
        begun()
        due_s = loop.time()
        while not stop.is_set():
            await sender.send_minute()
            due_s = max(due_s + minute_s, loop.time())
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), due_s - loop.time())


def sent_records(ledger: Ledger) -> Iterator[ShopRecord]:
    """All that was sent so far, made anew."""
    for records in islice(Shop(ledger.seed, ledger.sessions_per_minute).minutes(), ledger.next_minute):
        yield from records
