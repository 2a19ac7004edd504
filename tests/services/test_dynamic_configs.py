"""Every broker config that is said to be dynamic and to work changes what a running broker does, at once."""

from __future__ import annotations

import asyncio

from runnel.core.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from runnel.core.metadata import ConfigChange, ConfigOperation, ConfigResource, NewTopic, ResourceType
from runnel.services.node import Node
from runnel.services.partition import Partition
from runnel.services.partitions import now_ms
from runnel.wire.batch import encode_batch

# Values that are not the default, for the keys that set the defaults of topics.
OTHER_VALUES = {
    "log.cleanup.policy": "compact",
    "log.retention.ms": "1000",
    "log.retention.bytes": "1000",
    "log.segment.bytes": "2000000",
    "log.roll.ms": "1000",
    "log.roll.jitter.ms": "1000",
    "log.index.size.max.bytes": "4000",
    "log.index.interval.bytes": "1000",
    "acks.all.flush": "false",
    "log.flush.interval.messages": "10",
    "log.flush.interval.ms": "1000",
    "message.max.bytes": "1000",
    "log.message.timestamp.type": "LogAppendTime",
    "log.message.timestamp.before.max.ms": "1000",
    "log.message.timestamp.after.max.ms": "1000",
    "log.cleaner.delete.retention.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "log.cleaner.min.compaction.lag.ms": "1000",
    "log.cleaner.max.compaction.lag.ms": "1000000",
}
BEHIND_TOPICS = {topic.broker_synonym for topic in TOPIC_CONFIGS.values() if topic.broker_synonym is not None}
# These take effect in their own ways: limits of connections in tests/broker/test_broker_configs.py, the expiration of
# producers below, the interval in the tests of the consumer protocol, the cleaner's in test_cleaner.py.
ELSEWHERE = {
    "max.connections",
    "max.connections.per.ip",
    "producer.id.expiration.ms",
    "group.consumer.assignment.interval.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
}


def test_the_lists_are_whole() -> None:
    dynamic = {name for name, found in BROKER_CONFIGS.items() if found.effective and not found.read_only}
    assert dynamic - ELSEWHERE <= BEHIND_TOPICS
    assert dynamic & BEHIND_TOPICS <= set(OTHER_VALUES)


def state(partition: Partition) -> tuple[object, object]:
    return partition.settings, partition.log.config


async def change(node: Node, broker: str, name: str, operation: ConfigOperation, value: str | None) -> None:
    resource = ConfigResource(ResourceType.BROKER, broker)
    (outcome,) = await node.configs.change([(resource, [ConfigChange(name, operation, value)])], False)
    assert outcome.code == 0, outcome


def test_an_open_partition_follows_every_default_of_topics() -> None:
    async def scenario() -> None:
        node = await Node.start(None, {}, 64)
        await node.topics.create([NewTopic("t", 1)], False)
        partition = await node.partitions.open("t", 0)
        for name, value in OTHER_VALUES.items():
            if not BROKER_CONFIGS[name].effective:
                continue
            for broker in ("", "1"):
                before = state(partition)
                await change(node, broker, name, ConfigOperation.SET, value)
                assert state(partition) != before, f"{name} of broker {broker!r} changed nothing"
                await change(node, broker, name, ConfigOperation.DELETE, None)
                assert state(partition) == before, f"{name} of broker {broker!r} cannot be taken back"
        await node.stop()

    asyncio.run(scenario())


def test_producers_are_forgotten_sooner_when_the_running_broker_is_told_so() -> None:
    async def scenario() -> None:
        node = await Node.start(None, {}, 64)
        await node.topics.create([NewTopic("t", 1)], False)
        partition = await node.partitions.open("t", 0)
        records = [(now_ms(), b"k", b"v", ())]
        batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)
        node.produce.append(partition, memoryview(batch), 1, True, now_ms() - 60_000)
        await node._housekeeping.retain()
        assert len(partition.log.producers) == 1
        await change(node, "1", "producer.id.expiration.ms", ConfigOperation.SET, "60000")
        await node._housekeeping.retain()
        assert len(partition.log.producers) == 0
        await node.stop()

    asyncio.run(scenario())
