"""Sending on a real broker: each record once, also when a run ended in the middle of a minute."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import islice

import pytest

from harness.conditions import wait_until
from harness.process import BrokerProcess
from runnel.client.cluster import Cluster
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import bounds
from runnel.client.partitioner import partition_for_key
from runnel.client.producer import Producer
from runnel.client.reader import Reader
from runnel.examples.shop.feeding import Feeder
from runnel.examples.shop.folder import DemoError, Ledger
from runnel.examples.shop.journeys import Shop
from runnel.examples.shop.rules import INPUTS, PARTITIONS, ShopRecord
from runnel.examples.shop.sending import send_all, sent_records

StartBroker = Callable[..., BrokerProcess]
ByPartition = dict[TopicPartition, list[tuple[bytes | None, bytes | None, int]]]


@pytest.fixture
def address(start_broker: StartBroker) -> str:
    return start_broker().address


def send(address: str, ledger: Ledger, minutes: int) -> int:
    return asyncio.run(send_all(address, ledger, lambda _: None, minutes))


def read(address: str) -> ByPartition:
    async def read_all() -> ByPartition:
        found: ByPartition = {}
        targets = [TopicPartition(topic, number) for topic in INPUTS for number in range(PARTITIONS)]
        async with Cluster(address) as cluster:
            ends = {target: limits.end for target, limits in (await bounds(cluster, targets)).items() if limits.end}
            found = {target: [] for target in ends}
            async with Reader(cluster, dict.fromkeys(ends, 0)) as reader:
                async for chunk in reader.chunks():
                    found[chunk.target] += [(each.key, each.value, each.timestamp) for each in chunk.records]
                    if chunk.next_offset >= ends[chunk.target]:
                        reader.stop(chunk.target)
        return found

    return asyncio.run(read_all())


def by_partition(records: Sequence[ShopRecord]) -> ByPartition:
    sorted_out: defaultdict[TopicPartition, list[tuple[bytes | None, bytes | None, int]]] = defaultdict(list)
    for record in records:
        target = TopicPartition(record.topic, partition_for_key(record.key, PARTITIONS))
        sorted_out[target].append((record.key, record.value, record.arrival_ms))
    return dict(sorted_out)


def test_a_run_that_ended_within_a_minute_is_taken_up(address: str) -> None:
    ledger = Ledger(seed=4, sessions_per_minute=12)
    count = send(address, ledger, 5)
    assert ledger.next_minute == 5
    assert ledger.total == count == len(list(sent_records(ledger)))

    # The next run sends half of its minute and is killed: its ledger was never written.
    unfinished = next(Shop(4, 12).minutes(5))
    half = unfinished[: len(unfinished) // 2]
    _produce(address, half)
    send(address, ledger, 2)
    assert read(address) == by_partition(list(sent_records(ledger)))


def _produce(address: str, records: Sequence[ShopRecord]) -> None:
    async def produce() -> None:
        async with Cluster(address) as cluster, Producer(cluster) as producer:
            for record in records:
                await producer.send(record.topic, record.value, key=record.key, timestamp_ms=record.arrival_ms)

    asyncio.run(produce())


def test_topics_with_records_of_others_are_refused(address: str) -> None:
    ledger = Ledger(seed=4, sessions_per_minute=12)
    send(address, ledger, 2)
    _produce(address, list(islice(sent_records(Ledger(5, 12, 10)), 500)))
    with pytest.raises(DemoError, match="hold records that no demo sent"):
        send(address, ledger, 1)


def test_a_ledger_of_another_broker_is_refused(address: str) -> None:
    ledger = Ledger(seed=4, sessions_per_minute=12, next_minute=1, sent={topic: [1, 1, 1] for topic in INPUTS})
    with pytest.raises(DemoError, match="fewer records than were sent"):
        send(address, ledger, 1)


def test_a_feeder_sends_until_its_block_ends(address: str) -> None:
    ledger, saved = Ledger(seed=6, sessions_per_minute=3), []
    with Feeder(address, ledger, lambda told: saved.append(deepcopy(told)), minute_s=0.01) as feeder:
        wait_until(lambda: len(saved) >= 5, "five minutes sent")
    assert feeder.failure is None
    assert saved[-1] == ledger
    assert read(address) == by_partition(list(sent_records(ledger)))


def test_a_feeder_that_cannot_begin_says_so_at_once(address: str) -> None:
    """Before a pipeline runs over topics that are not those of its checkpoints."""
    ledger = Ledger(seed=4, sessions_per_minute=12, next_minute=1, sent={topic: [1, 1, 1] for topic in INPUTS})
    with pytest.raises(DemoError, match="do not belong together"), Feeder(address, ledger, lambda _: None, minute_s=1):
        pytest.fail("it has begun")


def test_a_feeder_tells_what_ended_it(address: str) -> None:
    begun = threading.Event()

    def full(_: Ledger) -> None:
        begun.wait()
        raise OSError("no space left")

    with Feeder(address, Ledger(1, 1), full, minute_s=0.01) as feeder:
        begun.set()
        wait_until(lambda: feeder.failure, "the failure")
    assert str(feeder.failure) == "no space left"
