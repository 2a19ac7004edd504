"""Cluster, metadata, admin calls and offsets against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runnel.client import admin
from runnel.client.admin import NewTopic
from runnel.client.cluster import Cluster
from runnel.client.configs import (
    ConfigChange,
    ConfigOperation,
    ResourceType,
    alter_configs,
    topic_configs,
    topic_resource,
)
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import (
    EARLIEST,
    LATEST,
    Bounds,
    bounds,
    delete_records,
    list_offsets,
    parse_position,
    resolve,
)
from runnel.client.producer import Producer
from runnel.wire.errors import ErrorCode

NewName = Callable[[], str]


def with_cluster(bootstrap: str, work: Callable[[Cluster], Awaitable[None]]) -> None:
    async def session() -> None:
        async with Cluster(bootstrap, client_id="test") as cluster:
            await work(cluster)

    asyncio.run(session())


def test_topics_are_created_described_and_deleted(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name, other = new_name(), new_name()
        outcomes = await admin.create_topics(
            cluster, [NewTopic(name, 3, 1, {"retention.ms": "1000"}), NewTopic(other, configs={"no.such": "1"})]
        )
        assert [outcome.name for outcome in outcomes] == [name, other]
        assert outcomes[0].error is None
        assert outcomes[0].partitions == 3
        assert outcomes[1].error is not None
        assert outcomes[1].error.code is ErrorCode.INVALID_CONFIG
        view = await cluster.topic(name)
        assert [partition.index for partition in view.partitions] == [0, 1, 2]
        assert view.topic_id == outcomes[0].topic_id
        assert view.replication_factor == 1
        assert not any(partition.is_offline or partition.is_under_replicated for partition in view.partitions)
        (deleted,) = await admin.delete_topics(cluster, [name])
        assert deleted.error is None
        with pytest.raises(ClientError, match="does not exist") as caught:
            await cluster.topic(name)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_cluster(bootstrap, work)


def test_validation_creates_nothing(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        (outcome,) = await admin.create_topics(cluster, [NewTopic(name)], validate_only=True)
        assert outcome.error is None
        assert name not in (await cluster.refresh(None)).topics

    with_cluster(bootstrap, work)


def test_a_topic_is_created_on_demand_only_when_asked(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        with pytest.raises(ClientError, match="does not exist"):
            await cluster.topic(name)
        assert (await cluster.topic(name, create=True)).partitions

    with_cluster(bootstrap, work)


def test_configs_are_changed_and_described(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        await admin.create_topics(cluster, [NewTopic(name, 1, 1, {"segment.ms": "60000"})])
        changes = [
            ConfigChange(ConfigOperation.SET, "retention.ms", "5000"),
            ConfigChange(ConfigOperation.DELETE, "segment.ms"),
            ConfigChange(ConfigOperation.APPEND, "cleanup.policy", "compact"),
        ]
        topic = topic_resource(name)
        assert await alter_configs(cluster, [topic], changes, validate_only=True) == {topic: None}
        assert await alter_configs(cluster, [topic], changes) == {topic: None}
        entries = {entry.name: entry for entry in await topic_configs(cluster, name)}
        assert entries["retention.ms"].value == "5000"
        assert entries["retention.ms"].is_own(ResourceType.TOPIC)
        assert entries["segment.ms"].source == "default"
        assert set((entries["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
        bad = [ConfigChange(ConfigOperation.SET, "retention.ms", "soon")]
        refused = (await alter_configs(cluster, [topic], bad))[topic]
        assert refused is not None
        assert "retention.ms" in refused.message

    with_cluster(bootstrap, work)


def test_partitions_are_added_and_never_taken_away(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
        (grown,) = await admin.create_partitions(cluster, {name: 5})
        assert grown.error is None
        assert len((await cluster.topic(name)).partitions) == 5
        (shrunk,) = await admin.create_partitions(cluster, {name: 1})
        assert shrunk.error is not None
        assert shrunk.error.code is ErrorCode.INVALID_PARTITIONS

    with_cluster(bootstrap, work)


def test_offsets_by_position_and_time(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
        async with Producer(cluster) as producer:
            for number in range(10):
                await producer.send(name, b"x", partition=0, timestamp_ms=1_000_000 + number * 1000)
        full, empty = TopicPartition(name, 0), TopicPartition(name, 1)
        assert await bounds(cluster, [full, empty]) == {full: Bounds(0, 10), empty: Bounds(0, 0)}
        found = await list_offsets(cluster, {full: 1_004_500})
        assert (found[full].offset, found[full].timestamp_ms) == (5, 1_005_000)
        assert (await list_offsets(cluster, {full: 9_000_000}))[full].offset == -1
        assert (await list_offsets(cluster, {full: EARLIEST, empty: LATEST}))[full].offset == 0
        for text, expected in {"start": 0, "end": 10, "-3": 7, "-99": 0, "4": 4, "99": 10, "@1002000": 2}.items():
            places = await resolve(cluster, [full, empty], parse_position(text))
            assert places[full].offset == expected, text
            assert places[empty].offset == 0
        assert await delete_records(cluster, {full: 6}) == {full: 6}
        assert (await bounds(cluster, [full]))[full] == Bounds(6, 10)
        assert (await resolve(cluster, [full], parse_position("2")))[full].asked_offset == 2
        with pytest.raises(ClientError, match="outside the log"):
            await delete_records(cluster, {full: 11})

    with_cluster(bootstrap, work)


def test_a_partition_that_does_not_exist_is_named(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
        with pytest.raises(ClientError, match="no partition 7: it has partitions 0 to 1"):
            await bounds(cluster, [TopicPartition(name, 7)])

    with_cluster(bootstrap, work)


def test_sizes_on_disk(bootstrap: str, new_name: NewName) -> None:
    async def work(cluster: Cluster) -> None:
        name = new_name()
        await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
        async with Producer(cluster) as producer:
            await producer.send(name, b"x" * 5000, partition=1)
        await cluster.topic(name)
        sizes = (await admin.topic_sizes(cluster, [name]))[name]
        assert sizes[0] == 0
        assert sizes[1] > 5000

    with_cluster(bootstrap, work)


def test_every_bootstrap_server_is_tried(bootstrap: str) -> None:
    with_cluster(f"127.0.0.1:1,{bootstrap}", lambda cluster: asyncio.sleep(0))
    with pytest.raises(ClientError, match=r"no broker can be reached.*:1:.*:2:"):
        with_cluster("127.0.0.1:1,127.0.0.1:2", lambda cluster: asyncio.sleep(0))
