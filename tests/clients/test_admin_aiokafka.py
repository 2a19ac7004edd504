"""aiokafka's AIOKafkaAdminClient: older versions of the admin APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from clients.drivers import Sent
from clients.drivers.aiokafka_driver import AiokafkaDriver

NewTopicCall = Callable[..., str]
T = TypeVar("T")
CALL_SECONDS = 60.0


def feature(name: str) -> pytest.MarkDecorator:
    return pytest.mark.compat(client="aiokafka", feature=name)


def with_admin(bootstrap: str, work: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    async def run() -> T:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(run(), CALL_SECONDS))


async def partitions_of(admin: AIOKafkaAdminClient, name: str) -> int:
    return len((await admin.describe_topics([name]))[0]["partitions"])


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Bounded by `with_admin`; Apache Kafka's metadata follow a little later, Runnel's at once."""
    while not await check():  # noqa: ASYNC110 (another process changes, which sets no event here)
        await asyncio.sleep(0.01)


@feature("admin: create topic")
def test_create_and_delete(bootstrap: str, new_name: Callable[[], str]) -> None:
    name = new_name()

    async def work(admin: AIOKafkaAdminClient) -> None:
        answer = await admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "777"})])
        assert answer.topic_errors[0][:2] == (name, 0)

        async def has_three() -> bool:
            return await partitions_of(admin, name) == 3

        await eventually(has_three)
        assert name in await admin.list_topics()
        await admin.delete_topics([name])

        async def is_gone() -> bool:
            return name not in await admin.list_topics()

        await eventually(is_gone)

    with_admin(bootstrap, work)


@feature("admin: create topic, validate only")
def test_validate_only(bootstrap: str, new_name: Callable[[], str]) -> None:
    name = new_name()

    async def work(admin: AIOKafkaAdminClient) -> None:
        await admin.create_topics([NewTopic(name, 3, 1)], validate_only=True)
        assert name not in await admin.list_topics()

    with_admin(bootstrap, work)


@feature("admin: create partitions")
def test_create_partitions(bootstrap: str, new_topic: NewTopicCall) -> None:
    name = new_topic(partitions=2)

    async def work(admin: AIOKafkaAdminClient) -> None:
        await admin.create_partitions({name: NewPartitions(4)})

        async def has_four() -> bool:
            return await partitions_of(admin, name) == 4

        await eventually(has_four)

    with_admin(bootstrap, work)


@feature("admin: describe configs")
def test_configs(bootstrap: str, new_topic: NewTopicCall) -> None:
    name = new_topic(retention_bytes=5)
    resource = ConfigResource(ConfigResourceType.TOPIC, name)

    async def work(admin: AIOKafkaAdminClient) -> dict[str, Any]:
        (reply,) = await admin.describe_configs([resource])
        return {config[0]: config[1] for config in reply.resources[0][4]}

    found = with_admin(bootstrap, work)
    assert (found["retention.bytes"], found["segment.bytes"]) == ("5", "1073741824")


@feature("admin: alter configs, full")
def test_alter_configs(bootstrap: str, new_topic: NewTopicCall) -> None:
    name = new_topic(retention_bytes=5)

    async def work(admin: AIOKafkaAdminClient) -> dict[str, Any]:
        change = ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "777"})
        (changed,) = await admin.alter_configs([change])
        assert changed.resources[0][0] == 0
        (reply,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return {config[0]: config[1] for config in reply.resources[0][4]}

    found = with_admin(bootstrap, work)
    assert (found["retention.ms"], found["retention.bytes"]) == ("777", "-1")


@feature("admin: delete records")
def test_delete_records(bootstrap: str, new_topic: NewTopicCall) -> None:
    name = new_topic()
    client = AiokafkaDriver(bootstrap)
    client.produce(name, [Sent(b"x")] * 10)
    place = TopicPartition(name, 0)

    async def work(admin: AIOKafkaAdminClient) -> int:
        return (await admin.delete_records({place: RecordsToDelete(before_offset=4)}))[place]

    assert with_admin(bootstrap, work) == 4
    assert client.watermarks(name) == (4, 10)


@feature("admin: describe cluster")
def test_describe_cluster(bootstrap: str) -> None:
    async def work(admin: AIOKafkaAdminClient) -> dict[str, Any]:
        return await admin.describe_cluster()

    found = with_admin(bootstrap, work)
    assert [f"{broker['host']}:{broker['port']}" for broker in found["brokers"]] == [bootstrap]
