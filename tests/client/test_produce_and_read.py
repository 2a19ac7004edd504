"""Producing and reading against a real broker: batching, partitions, idempotence over lost replies, following a log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from harness.proxy import CuttingProxy
from runnel.client import admin
from runnel.client.admin import NewTopic
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import bounds, delete_records
from runnel.client.partitioner import partition_for_key
from runnel.client.producer import Delivery, Producer, ProducerSettings
from runnel.client.reader import Reader, ReaderSettings
from runnel.wire.apis import ApiKey
from runnel.wire.batch import Record
from runnel.wire.compression import Compression
from runnel.wire.errors import ErrorCode

NewName = Callable[[], str]


def with_topic(
    bootstrap: str,
    name: str,
    work: Callable[[Cluster, str], Awaitable[None]],
    partitions: int = 1,
    **configs: str,
) -> None:
    async def session() -> None:
        async with Cluster(bootstrap, client_id="test") as cluster:
            settings = {key.replace("_", "."): value for key, value in configs.items()}
            (outcome,) = await admin.create_topics(cluster, [NewTopic(name, partitions, 1, settings)])
            assert outcome.error is None
            await work(cluster, name)

    asyncio.run(session())


async def read_all(
    cluster: Cluster, targets: Sequence[TopicPartition], settings: ReaderSettings | None = None
) -> dict[TopicPartition, list[Record]]:
    """What the partitions hold now."""
    limits = await bounds(cluster, targets)
    found: dict[TopicPartition, list[Record]] = {target: [] for target in targets}
    starts = {target: limit.start for target, limit in limits.items() if limit.start < limit.end}
    async with Reader(cluster, starts, settings) as reader:
        async for chunk in reader.chunks():
            found[chunk.target] += chunk.records
            if chunk.next_offset >= limits[chunk.target].end:
                reader.stop(chunk.target)
    return found


@pytest.mark.parametrize("codec", list(Compression))
def test_records_come_back_as_they_were(bootstrap: str, new_name: NewName, codec: Compression) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        headers = (("a", b"1"), ("a", None), ("ü", b""))
        contents = [(b"k", b"v", headers), (None, b"", ()), (b"", None, ()), (None, b"x" * 100_000, ())]
        async with Producer(cluster, ProducerSettings(compression=codec)) as producer:
            for number, (key, value, extra) in enumerate(contents):
                await producer.send(topic, value, key=key, headers=extra, partition=0, timestamp_ms=1000 + number)
        target = TopicPartition(topic, 0)
        records = (await read_all(cluster, [target]))[target]
        assert [(record.key, record.value, record.headers) for record in records] == contents
        assert [record.offset for record in records] == [0, 1, 2, 3]
        assert [record.timestamp for record in records] == [1000, 1001, 1002, 1003]

    with_topic(bootstrap, new_name(), work)


def test_keys_decide_the_partition_and_order_is_kept(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        keys = [b"key-%d" % (number % 17) for number in range(1000)]
        async with Producer(cluster, ProducerSettings(batch_bytes=2000)) as producer:
            for number, key in enumerate(keys):
                await producer.send(topic, b"%d" % number, key=key)
        targets = [TopicPartition(topic, index) for index in range(4)]
        found = await read_all(cluster, targets, ReaderSettings(partition_bytes_max=3000, fetch_bytes_max=8000))
        for target, records in found.items():
            numbers = [int(record.value or b"") for record in records]
            assert numbers == sorted(numbers)
            assert {partition_for_key(record.key or b"", 4) for record in records} <= {target.partition}
        assert sum(map(len, found.values())) == 1000

    with_topic(bootstrap, new_name(), work, partitions=4)


def test_records_without_a_key_go_to_all_partitions_batch_by_batch(bootstrap: str, new_name: NewName) -> None:
    deliveries: list[Delivery] = []

    async def work(cluster: Cluster, topic: str) -> None:
        settings = ProducerSettings(batch_bytes=1000)
        async with Producer(cluster, settings, deliveries.append) as producer:
            for _ in range(300):
                await producer.send(topic, b"x" * 90)
        assert {delivery.target.partition for delivery in deliveries} == {0, 1, 2}
        assert sum(delivery.record_count for delivery in deliveries) == 300
        assert max(delivery.record_count for delivery in deliveries) == 9

    with_topic(bootstrap, new_name(), work, partitions=3)


def test_a_lost_reply_causes_neither_loss_nor_duplicates(bootstrap: str, new_name: NewName) -> None:
    topic = new_name()

    async def produce(through: str) -> None:
        settings = ProducerSettings(batch_bytes=200)
        async with Cluster(through, client_id="test") as cluster, Producer(cluster, settings) as producer:
            for number in range(200):
                await producer.send(topic, b"%d" % number, partition=0)

    async def work(cluster: Cluster, _: str) -> None:
        with CuttingProxy(bootstrap, lambda key, number: key == ApiKey.PRODUCE and number % 3 == 0) as proxy:
            await produce(proxy.address)
            assert proxy.cuts > 2
        target = TopicPartition(topic, 0)
        records = (await read_all(cluster, [target]))[target]
        assert [int(record.value or b"") for record in records] == list(range(200))

    with_topic(bootstrap, topic, work)


def test_a_batch_that_the_topic_finds_too_large_is_split(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with Producer(cluster) as producer:
            for number in range(50):
                await producer.send(topic, b"%0500d" % number)
        target = TopicPartition(topic, 0)
        records = (await read_all(cluster, [target]))[target]
        assert [int(record.value or b"") for record in records] == list(range(50))
        with pytest.raises(ClientError) as caught:
            async with Producer(cluster) as producer:
                await producer.send(topic, b"x" * 10_000)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    with_topic(bootstrap, new_name(), work, max_message_bytes="2000")


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(bootstrap: str, new_name: NewName, acks: int) -> None:
    deliveries: list[Delivery] = []

    async def work(cluster: Cluster, topic: str) -> None:
        async with Producer(cluster, ProducerSettings(acks=acks), deliveries.append) as producer:
            await producer.send(topic, b"x")
        assert [delivery.base_offset for delivery in deliveries] == [-1 if acks == 0 else 0]
        async with Reader(cluster, {TopicPartition(topic, 0): 0}) as reader:
            async for chunk in reader.chunks():
                assert [record.value for record in chunk.records] == [b"x"]
                break

    with_topic(bootstrap, new_name(), work)


def test_a_full_buffer_holds_the_sender_up_and_nothing_is_lost(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        settings = ProducerSettings(batch_bytes=4000, buffer_bytes_max=10_000)
        async with Producer(cluster, settings) as producer:
            for _ in range(100):
                await producer.send(topic, b"x" * 1000)
                assert producer._buffered_bytes <= 10_000
        assert (await bounds(cluster, [TopicPartition(topic, 0)]))[TopicPartition(topic, 0)].end == 100

    with_topic(bootstrap, new_name(), work)


def test_reading_begins_in_the_middle_of_a_batch_and_waits_for_more(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        target = TopicPartition(topic, 0)
        async with Producer(cluster) as producer:
            for number in range(5):
                await producer.send(topic, b"%d" % number)
            await producer.flush()
            seen: list[int] = []
            async with Reader(cluster, {target: 3}, ReaderSettings(wait_ms=10_000)) as reader:
                async for chunk in reader.chunks():
                    seen += [record.offset for record in chunk.records]
                    if seen[-1] == 4:
                        # The next fetch already waits at the broker; the record must wake it.
                        await producer.send(topic, b"late")
                    if seen[-1] == 5:
                        reader.stop(target)
        assert seen == [3, 4, 5]

    with_topic(bootstrap, new_name(), work)


def test_a_trim_overtakes_the_reader(bootstrap: str, new_name: NewName) -> None:
    jumps: list[tuple[TopicPartition, int, int]] = []

    async def work(cluster: Cluster, topic: str) -> None:
        target = TopicPartition(topic, 0)
        async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
            for _ in range(10):
                await producer.send(topic, b"x")
        await delete_records(cluster, {target: 6})
        async with Reader(cluster, {target: 2}, on_jump=lambda *jump: jumps.append(jump)) as reader:
            async for chunk in reader.chunks():
                assert [record.offset for record in chunk.records] == [6, 7, 8, 9]
                break
        assert jumps == [(target, 2, 6)]
        async with Reader(cluster, {target: 50}) as reader:
            with pytest.raises(ClientError, match="beyond the end"):
                await anext(reader.chunks())

    with_topic(bootstrap, new_name(), work)


def test_reading_survives_a_lost_connection(bootstrap: str, new_name: NewName) -> None:
    topic = new_name()

    async def work(cluster: Cluster, _: str) -> None:
        async with Producer(cluster, ProducerSettings(batch_bytes=200)) as producer:
            for number in range(100):
                await producer.send(topic, b"%d" % number, partition=0)
        target = TopicPartition(topic, 0)
        with CuttingProxy(bootstrap, lambda key, number: key == ApiKey.FETCH and number % 4 == 0) as proxy:
            async with Cluster(proxy.address, client_id="test") as through:
                settings = ReaderSettings(partition_bytes_max=300)
                records = (await read_all(through, [target], settings))[target]
            assert proxy.cuts > 1
        assert [int(record.value or b"") for record in records] == list(range(100))

    with_topic(bootstrap, topic, work)
