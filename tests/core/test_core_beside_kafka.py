"""The same commands go to a running Apache Kafka and to our machine; codes, state and DescribeConfigs must agree.

Where we differ on purpose, the table below says how and why.
"""

from __future__ import annotations

import random
import uuid

import pytest
from both_beside import Both, ours_as_plain, plain, theirs_as_plain

from runnel.core.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from runnel.core.metadata import (
    AlterConfigs,
    Command,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    IncrementalAlterConfigs,
    NewPartitions,
    NewTopic,
    ResourceType,
)

pytestmark = pytest.mark.java

# Defaults that Kafka leaves open and we bound, or that say where this very process listens and stores.
OWN_BROKER_VALUES = {"max.connections", "max.connections.per.ip", "queued.max.request.bytes", "listeners", "log.dirs"}
OWN_BROKER_VALUES |= {"process.roles", "node.id", "broker.id", "group.initial.rebalance.delay.ms"}
OWN_BROKER_VALUES |= {"offsets.topic.replication.factor"}  # one replica is all there is, in the peer by its settings
# Once log.retention.ms is set on the running broker, Kafka shows the default of this key as its value, beside a synonym
# with the value that it was started with. We show the latter.
OWN_BROKER_VALUES |= {"log.retention.hours"}

OWN_BROKER_VALUES |= {"group.consumer.assignment.interval.ms"}  # on one broker nobody needs to wait

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
BROKER = ConfigResource(ResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


# ------------------------------------------------------------------------------------------------ DescribeConfigs


def test_topic_configs_are_described_as_kafka_describes_them(both: Both) -> None:
    both.do(CreateTopics([NewTopic("plain")]))
    both.check_topic_configs("plain")
    odd = {"cleanup.policy": "delete, delete", "segment.bytes": " +2000000 ", "min.cleanable.dirty.ratio": "0.00001"}
    both.do(CreateTopics([NewTopic("odd", configs={**odd, "preallocate": "TRUE", "compression.type": " gzip "})]))
    both.check_topic_configs("odd")


def test_dynamic_broker_configs_are_described_as_kafka_describes_them(both: Both) -> None:
    for resource, name, value in (
        (ALL_BROKERS, "log.retention.ms", "6000"),
        (BROKER, "log.retention.ms", "5000"),
        (ALL_BROKERS, "log.roll.jitter.ms", "77"),
        (BROKER, "log.cleanup.policy", "delete,delete"),
        (BROKER, "message.max.bytes", " 3000000"),
        (ALL_BROKERS, "min.insync.replicas", "2"),
    ):
        command = IncrementalAlterConfigs([(resource, [ConfigChange(name, SET, value)])])
        theirs, ours = both.do(command)
        assert theirs == ours
    default_rows = {row.name: ours_as_plain(row) for row in both.broker.describe_default()}
    theirs = both.kafka.describe_until(ALL_BROKERS, lambda rows: plain(rows) == default_rows)
    assert plain(theirs) == default_rows
    both.do(CreateTopics([NewTopic("under-dynamic", configs={"retention.ms": "1"})]))
    both.check_topic_configs("under-dynamic")
    theirs = both.kafka.describe(BROKER)
    for row in both.broker.describe():
        if row.name in theirs and row.name not in OWN_BROKER_VALUES:
            assert ours_as_plain(row) == theirs_as_plain(theirs[row.name])


def test_our_table_has_every_topic_config_of_kafka_and_its_broker_synonym(both: Both) -> None:
    both.do(CreateTopics([NewTopic("table")]))
    theirs = both.kafka.describe_until(ConfigResource(ResourceType.TOPIC, "table"), bool)
    assert set(TOPIC_CONFIGS) - set(theirs) == {"acks.all.flush"}
    assert set(theirs) <= set(TOPIC_CONFIGS)
    unknown_to_kafka = set(BROKER_CONFIGS) - set(both.kafka.describe(BROKER))
    hidden_by_kafka = {"group.consumer.regex.refresh.interval.ms"}
    shown_when_set = {
        name for name in BROKER_CONFIGS if name.endswith((".throttled.rate", ".dirs.io.max.bytes.per.second"))
    }
    own = {"acks.all.flush", "cluster.id", "max.partitions.per.broker"}
    assert unknown_to_kafka == own | hidden_by_kafka | shown_when_set


# ------------------------------------------------------------------------------------------------ refusals


def create(*topics: NewTopic, validate_only: bool = False) -> CreateTopics:
    return CreateTopics(topics, validate_only)


def change(
    resource: ConfigResource, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigs:
    return IncrementalAlterConfigs([(resource, [ConfigChange(*item) for item in changes])], validate_only)


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


ORDERS = topic_resource("orders")
SCRIPT: list[Command] = [
    create(NewTopic("orders", 3, 1, configs={"retention.ms": "1000"}), NewTopic("other")),
    *(create(NewTopic(name)) for name in ("orders", "", ".", "..", "a" * 250, "a b", "é", "__cluster_metadata")),
    create(NewTopic("twice"), NewTopic("twice"), NewTopic("once")),
    create(NewTopic("with.point")),
    create(NewTopic("with_point")),
    create(NewTopic("both.x"), NewTopic("both_x")),
    *(create(NewTopic("n", *numbers)) for numbers in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (0, 0), (0, 5))),
    create(NewTopic("n", 10_001, 1), validate_only=True),
    create(NewTopic("n", 6_000, 1), NewTopic("m", 6_000, 1), validate_only=True),
    create(NewTopic("n", assignments=[(0, [1]), (1, [1])]), validate_only=True),
    create(NewTopic("n", 1, -1, [(0, [1])])),
    create(NewTopic("n", -1, 1, [(0, [1])])),
    *(
        create(NewTopic("n", assignments=assignments))
        for assignments in (
            [(0, [1]), (0, [1])],
            [(1, [1])],
            [(0, [1]), (2, [1])],
            [(0, [])],
            [(0, [7])],
            [(0, [1, 1])],
            [(-1, [1])],
        )
    ),
    *(
        create(NewTopic("n", configs={name: value}), validate_only=True)
        for name, value in (
            ("nope", "1"),
            ("retention.ms", None),
            ("retention.ms", "abc"),
            ("retention.ms", "-2"),
            ("retention.ms", ""),
            ("cleanup.policy", ""),
            ("cleanup.policy", "compact,,delete"),
            ("cleanup.policy", "Delete"),
            ("compression.type", "ZSTD"),
            ("preallocate", "yes"),
            ("segment.bytes", "1_048_576"),
            ("segment.bytes", "1048575"),
            ("segment.bytes", "2147483648"),
            ("min.cleanable.dirty.ratio", "1.1"),
            ("min.cleanable.dirty.ratio", "1e400"),
            ("retention.bytes", "-7"),
            ("retention.ms", "0"),
            ("local.retention.ms", "-3"),
            ("local.retention.ms", "999999999999"),
            ("compression.gzip.level", "0"),
            ("compression.gzip.level", "-1"),
            ("compression.zstd.level", "-131073"),
            ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "0:1,*"),
            ("leader.replication.throttled.replicas", "0:1 , 1:1"),
            ("leader.replication.throttled.replicas", "0"),
            ("remote.storage.enable", "true"),
            ("remote.log.copy.disable", "true"),
            ("message.timestamp.type", "createtime"),
            ("flush.messages", "0"),
            ("flush.ms", "0"),
            ("min.insync.replicas", "5"),
            ("message.format.version", "3.0"),
        )
    ),
    create(NewTopic("n", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}), validate_only=True),
    *(CreatePartitions([NewPartitions("orders", count)]) for count in (3, 2, 0, -1)),
    *(CreatePartitions([NewPartitions(name, 2)]) for name in ("nope", "a b", "__cluster_metadata")),
    CreatePartitions([NewPartitions("orders", 4), NewPartitions("orders", 5)]),
    *(CreatePartitions([NewPartitions("orders", 4, lists)]) for lists in ([], [[]], [[7]], [[1, 1]], [[1], [1]])),
    CreatePartitions([NewPartitions("orders", 4)], validate_only=True),
    CreatePartitions([NewPartitions("orders", 4)]),
    *(change(topic_resource(name), ("retention.ms", SET, "1")) for name in ("nope", "a b", "")),
    change(ORDERS, ("retention.ms", SET, "x")),
    change(ORDERS, ("nope", SET, "x")),
    change(ORDERS, ("retention.ms", SET, None)),
    change(ORDERS, ("nope", DELETE, None)),
    change(ORDERS, ("retention.ms", DELETE, "5")),
    change(ORDERS, ("retention.ms", APPEND, "5")),
    change(ORDERS, ("cleanup.policy", APPEND, "compact")),
    change(ORDERS, ("cleanup.policy", SUBTRACT, "delete")),
    change(ORDERS, ("cleanup.policy", APPEND, None)),
    change(ORDERS, ("cleanup.policy", APPEND, "keep")),
    change(ORDERS, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    change(ORDERS),
    change(ORDERS, ("retention.ms", SET, "1"), ("segment.bytes", SET, "x")),
    IncrementalAlterConfigs([(ORDERS, []), (ORDERS, []), (topic_resource("other"), [])]),
    *(change(ConfigResource(kind, "x"), ("a", SET, "b")) for kind in (0, 1, 3, 99)),
    *(change(ConfigResource(ResourceType.BROKER, name), ("log.roll.ms", SET, "9")) for name in ("2", "x", "-1")),
    change(BROKER, ("num.partitions", SET, "5")),
    change(BROKER, ("log.retention.ms", SET, "x")),
    change(BROKER, ("log.retention.ms", SET, "0")),
    change(BROKER, ("log.retention.ms", SET, None)),
    change(BROKER, ("log.retention.ms", APPEND, "5")),
    change(BROKER, ("log.segment.bytes", SET, "5")),
    change(BROKER, ("max.connections", SET, "5000")),
    change(ALL_BROKERS, ("num.partitions", SET, "5")),
    change(ALL_BROKERS, ("log.roll.ms", DELETE, None)),
    AlterConfigs([(topic_resource("nope"), [("retention.ms", "1")])]),
    AlterConfigs([(ORDERS, [("retention.ms", "1"), ("segment.bytes", "2000000")])]),
    AlterConfigs([(ORDERS, [("retention.ms", "x")])]),
    AlterConfigs([(ORDERS, [("retention.ms", None)])]),
    AlterConfigs([(ORDERS, [("nope", "x")])]),
    AlterConfigs([(ORDERS, [("retention.ms", "1"), ("retention.ms", "2")])]),
    AlterConfigs([(ORDERS, [])]),
    AlterConfigs([(BROKER, [("num.partitions", "2")])]),
    AlterConfigs([(ConfigResource(ResourceType.BROKER, "9"), [])]),
    DeleteTopics(["nope"]),
    DeleteTopics(["a b"]),
    DeleteTopics([uuid.UUID(int=99)]),
    DeleteTopics(["other", "other"]),
    DeleteTopics(["nope", "nope"]),
    DeleteTopics([""]),
    DeleteTopics(["__cluster_metadata"]),
    DeleteTopics(["orders", "other", "with.point", "nope"]),
]


@pytest.mark.parametrize("command", SCRIPT, ids=lambda command: f"{type(command).__name__}")
def test_codes_are_kafkas(both: Both, command: Command) -> None:
    theirs, ours = both.do(command)
    assert ours == theirs


# What we do otherwise, with the reason; Kafka's code first.
ON_PURPOSE: list[tuple[Command, int, int, str]] = [
    (create(NewTopic("n", configs={"segment.bytes": "٣٣٣٣٣٣٣٣"}), validate_only=True), 0, 40, "digits are ASCII"),
    (create(NewTopic("n", configs={"min.cleanable.dirty.ratio": "NaN"}), validate_only=True), 0, 40, "NaN is no ratio"),
    (create(NewTopic("n", configs={"min.cleanable.dirty.ratio": "0.5f"}), validate_only=True), 0, 40, "Java's suffix"),
    (create(NewTopic("n", configs={"internal.segment.bytes": "9"}), validate_only=True), 0, 40, "Kafka's tests only"),
    (change(BROKER, ("nope", SET, "5"), validate_only=True), 0, 42, "a misspelt key is better refused than stored"),
    (change(BROKER, ("log.retention.ms", SET, "-5"), validate_only=True), 0, 42, "-1 is the one word for no limit"),
]


@pytest.mark.parametrize(("command", "kafkas", "ours_expected", "reason"), ON_PURPOSE)
def test_where_we_differ_we_know_it(both: Both, command: Command, kafkas: int, ours_expected: int, reason: str) -> None:
    theirs, ours = both.do(command)
    assert (theirs[0].code, ours[0].code) == (kafkas, ours_expected), reason


# ------------------------------------------------------------------------------------------------ at random


def random_command(chance: random.Random) -> Command:
    name = chance.choice(["r1", "r2", "r.3", "r_3", "r-4"])
    configs: dict[str, str | None] = {}
    if chance.random() < 0.3:
        configs[chance.choice(["retention.ms", "segment.bytes"])] = chance.choice(["2000000", "5", "x"])
    match chance.randrange(5):
        case 0 | 1:
            return create(NewTopic(name, chance.choice([-1, 0, 1, 3]), chance.choice([-1, 1]), configs=configs))
        case 2:
            return CreatePartitions([NewPartitions(name, chance.randrange(6))])
        case 3:
            key = chance.choice(["retention.ms", "cleanup.policy"])
            value = chance.choice(["5000", "compact", "delete"])
            return change(topic_resource(name), (key, chance.randrange(4), value))
        case _:
            return DeleteTopics([name])


def test_random_commands_end_in_the_same_state(both: Both) -> None:
    seed = 20_261_116
    chance = random.Random(seed)
    for step in range(120):
        command = random_command(chance)
        theirs, ours = both.do(command)
        assert ours == theirs, f"seed {seed}, step {step}: {command}"
    ours_counts = {name: len(topic.partitions) for name, topic in both.machine.image.topics.items()}
    assert both.kafka.partition_counts_until(ours_counts) == ours_counts
    for name in ours_counts:
        both.check_topic_configs(name)
