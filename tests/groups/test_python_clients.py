"""kafka-python and aiokafka as members of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from groups.consumers import produce
from harness.conditions import wait_until

NewTopic = Callable[..., str]


@pytest.mark.compat(client="kafka-python", feature="group rebalance of two members")
def test_kafka_python_members_share_commit_and_resume(bootstrap: str, new_topic: NewTopic) -> None:
    from kafka import KafkaConsumer, TopicPartition

    topic = new_topic(partitions=2)
    produce(bootstrap, topic, 5, 2)
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
    }
    one = KafkaConsumer(topic, **settings)
    seen: list[int] = []

    def read_all() -> bool:
        for records in one.poll(100).values():
            seen.extend(record.offset for record in records)
        return len(seen) == 10

    wait_until(read_all, "ten records")
    one.commit()
    two = KafkaConsumer(topic, **settings)

    def shared() -> bool:
        one.poll(50)
        two.poll(50)
        return len(one.assignment()) == len(two.assignment()) == 1

    wait_until(shared, "one partition each")
    assert [two.committed(TopicPartition(topic, index)) for index in (0, 1)] == [5, 5]
    one.close()
    wait_until(lambda: two.poll(50) or len(two.assignment()) == 2, "both partitions")
    two.close()


@pytest.mark.compat(client="aiokafka", feature="group rebalance of two members")
def test_aiokafka_members_share_commit_and_resume(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    produce(bootstrap, topic, 5, 2)
    asyncio.run(asyncio.wait_for(_aiokafka_members(bootstrap, topic), 60))


async def _aiokafka_members(bootstrap: str, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
    }
    one, two = AIOKafkaConsumer(topic, **settings), AIOKafkaConsumer(topic, **settings)
    await one.start()
    for _ in range(10):
        await one.getone()
    await one.commit()
    await two.start()
    while len(one.assignment()) != 1 or len(two.assignment()) != 1:
        await one.getmany(timeout_ms=50)
        await two.getmany(timeout_ms=50)
    assert [await two.committed(TopicPartition(topic, index)) for index in (0, 1)] == [5, 5]
    await one.stop()
    while len(two.assignment()) != 2:
        await two.getmany(timeout_ms=50)
    await two.stop()
