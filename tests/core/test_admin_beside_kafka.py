"""Every topic config, group configs, quotas, credentials, features, elections and moves, as Apache Kafka has them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from both_beside import Both, ours_as_plain, plain

from runnel.core.configs import TOPIC_CONFIGS, ConfigView
from runnel.core.metadata import (
    AlterClientQuotas,
    AlterConfigs,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    Command,
    ConfigChange,
    ConfigResource,
    CreateTopics,
    CredentialDeletion,
    CredentialUpsertion,
    ElectLeaders,
    FeatureUpdate,
    IncrementalAlterConfigs,
    NewTopic,
    PartitionReassignment,
    QuotaAlteration,
    QuotaChange,
    ResourceType,
    UpdateFeatures,
)

pytestmark = pytest.mark.java

# A value for every topic config of Kafka 4.3 that is not its default.
OTHER_VALUES = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "5",
    "compression.lz4.level": "12",
    "compression.type": "zstd",
    "compression.zstd.level": "-7",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "1000",
    "flush.messages": "10",
    "flush.ms": "1000",
    "follower.replication.throttled.replicas": "0:1,1:1",
    "index.interval.bytes": "1000",
    "leader.replication.throttled.replicas": "*",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "99999999",
    "max.message.bytes": "1000",
    "message.timestamp.after.max.ms": "5000",
    "message.timestamp.before.max.ms": "5000",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "1000",
    "min.insync.replicas": "1",
    "preallocate": "true",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "1000",
    "retention.ms": "1000",
    "segment.bytes": "2000000",
    "segment.index.bytes": "4000",
    "segment.jitter.ms": "1000",
    "segment.ms": "1000",
    "unclean.leader.election.enable": "true",
}


def test_every_topic_config_is_taken_and_shown_as_kafka_does(both: Both) -> None:
    """Value, source, type, synonyms and flags of all configs of a topic that sets one of them; all are documented."""
    assert set(OTHER_VALUES) == set(TOPIC_CONFIGS) - {"acks.all.flush"}
    topics = {f"with.{key}": NewTopic(f"with.{key}", 1, configs={key: value}) for key, value in OTHER_VALUES.items()}
    theirs, ours = both.do(CreateTopics(list(topics.values())))
    assert theirs == ours
    assert {answer.code for answer in ours} == {0}
    for name in topics:
        both.check_topic_configs(name)
    described = both.kafka.describe(ConfigResource(ResourceType.TOPIC, "with.segment.ms"), documented=True)
    undocumented = [name for name, row in described.items() if not row.documentation]
    assert undocumented == [name for name in described if not TOPIC_CONFIGS[name].documentation] == []


# On one broker nobody needs to wait for an assignment.
OWN_DEFAULTS = {"consumer.assignment.interval.ms"}


def check(both: Both, resource: ConfigResource, view: ConfigView) -> None:
    """DescribeConfigs of a resource is the same on both sides, and documented on both."""
    ours = {row.name: ours_as_plain(row) for row in view.describe() if row.name not in OWN_DEFAULTS}

    def same(theirs: dict[str, Any]) -> bool:
        return {name: row for name, row in plain(theirs).items() if name not in OWN_DEFAULTS} == ours

    described = both.kafka.describe_until(resource, same)
    assert same(described), (plain(described), ours)
    assert all(row.documentation for row in both.kafka.describe(resource, documented=True).values())
    assert all(row.documentation for row in view.describe())


def test_group_configs_are_described_as_kafka_describes_them(both: Both) -> None:
    group = ConfigResource(ResourceType.GROUP, "a-group")
    check(both, group, both.broker.group())
    both.do(IncrementalAlterConfigs([(group, [ConfigChange("consumer.session.timeout.ms", 0, "50000")])]))
    check(both, group, both.broker.group(both.machine.image.group_configs["a-group"]))


def test_client_metrics_are_described_as_kafka_describes_them(both: Both) -> None:
    subscription = ConfigResource(ResourceType.CLIENT_METRICS, "a-subscription")
    check(both, subscription, both.broker.client_metrics())
    changes = [("metrics", "org.apache.kafka."), ("match", "client_id=a.*,client_software_name=b")]
    both.do(AlterConfigs([(subscription, changes)]))
    check(both, subscription, both.broker.client_metrics(both.machine.image.client_metrics_configs["a-subscription"]))


# ------------------------------------------------------------------------------------------------ codes

GROUP = ConfigResource(ResourceType.GROUP, "g")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")
SESSION = "consumer.session.timeout.ms"


def configs(resource: ConfigResource, *changes: tuple[str, int, str | None]) -> Command:
    return IncrementalAlterConfigs([(resource, [ConfigChange(*change) for change in changes])])


def quota(
    entity: list[tuple[str, str | None]], *changes: tuple[str, float | None], validate_only: bool = False
) -> Command:
    return AlterClientQuotas([QuotaAlteration(entity, [QuotaChange(*change) for change in changes])], validate_only)


def credential(user: str, mechanism: int = 1, iterations: int = 4096) -> CredentialUpsertion:
    return CredentialUpsertion(user, mechanism, iterations, b"salt", b"x" * 32)


def features(*updates: tuple[str, int, int]) -> Command:
    return UpdateFeatures([FeatureUpdate(*update) for update in updates], validate_only=True)


def move(topic: str, index: int, replicas: list[int] | None, *, factor_may_change: bool = True) -> Command:
    return AlterPartitionReassignments([PartitionReassignment(topic, index, replicas)], factor_may_change)


A = [("user", "a")]
ADDRESS = [("ip", "10.9.8.7")]
SCRIPT: list[Command] = [
    CreateTopics([NewTopic("led", 2)]),
    *(configs(GROUP, (SESSION, 0, value)) for value in ("50000", "1", "99999999", "x", "", None)),
    *(
        configs(GROUP, (key, 0, "7"))
        for key in ("nope", "consumer.heartbeat.interval.ms", "share.delivery.count.limit")
    ),
    *(
        configs(GROUP, (key, 0, "16000"))
        for key in ("consumer.heartbeat.interval.ms", "streams.assignment.interval.ms")
    ),
    configs(GROUP, ("share.auto.offset.reset", 0, "by_duration:P1D")),
    configs(GROUP, ("share.auto.offset.reset", 0, "by_duration:P")),
    configs(GROUP, ("share.isolation.level", 0, "READ_COMMITTED")),
    configs(GROUP, ("streams.num.standby.replicas", 0, "3")),
    configs(GROUP, (SESSION, 2, "50000")),
    configs(GROUP, ("nope", 1, None)),
    configs(ConfigResource(ResourceType.GROUP, ""), (SESSION, 0, "50000")),
    *(configs(METRICS, ("interval.ms", 0, value)) for value in ("99", "100", "3600000", "3600001", "x")),
    *(configs(METRICS, ("match", 0, value)) for value in ("client_id=a", "client_id=[", "nope=a", "client_id", "")),
    configs(METRICS, ("nope", 0, "1")),
    configs(METRICS, ("metrics", 2, "a.")),
    configs(ConfigResource(ResourceType.CLIENT_METRICS, ""), ("metrics", 0, "*")),
    AlterConfigs([(GROUP, []), (METRICS, [])]),
    AlterConfigs([(ConfigResource(ResourceType.BROKER_LOGGER, "1"), [("root", "INFO")])]),
    *(quota(A, ("producer_byte_rate", value)) for value in (5.0, 0.0, -1.0, 1.5, 1.0000001, 1e30, 2.0**63, math.inf)),
    *(quota(A, ("request_percentage", value)) for value in (0.5, -0.5, 1e30, math.inf)),
    *(quota(A, (key, 1.0)) for key in ("nope", "connection_creation_rate", "consumer_byte_rate")),
    quota(A, ("nope", None)),
    quota(A, ("producer_byte_rate", 1.0), ("producer_byte_rate", None)),
    quota(A, ("producer_byte_rate", 1.0), ("nope", 1.0)),
    *(
        quota(entity, ("producer_byte_rate", 1e9))
        for entity in ([], [("x", "y")], [("user", "")], [("client-id", "c")])
    ),
    quota([("user", "a"), ("user", "b")], ("producer_byte_rate", 1e9)),
    *(quota(ADDRESS, ("connection_creation_rate", value)) for value in (1e6, 2.0**31 - 1, 2.0**31, 1.5)),
    quota(ADDRESS, ("producer_byte_rate", 1.0)),
    quota([("ip", "256.1.1.1")], ("connection_creation_rate", 1.0)),
    quota([("ip", "10.9.8.7"), ("user", "a")], ("connection_creation_rate", 1.0)),
    quota([("user", None)], ("producer_byte_rate", 1e9), validate_only=True),
    AlterUserScramCredentials([], [credential("alice"), credential("bob", 2, 16_384)]),
    AlterUserScramCredentials([], [credential("alice"), credential("alice", 2)]),
    AlterUserScramCredentials([CredentialDeletion("alice", 1)], [credential("alice")]),
    *(AlterUserScramCredentials([], [credential("carol", 1, iterations)]) for iterations in (4095, 16_385, -1)),
    *(AlterUserScramCredentials([], [credential("carol", mechanism)]) for mechanism in (0, 3, -1)),
    AlterUserScramCredentials([], [credential("")]),
    *(
        AlterUserScramCredentials([CredentialDeletion(*gone)])
        for gone in (("", 1), ("alice", 2), ("alice", 7), ("x", 1))
    ),
    AlterUserScramCredentials([CredentialDeletion("alice", 1), CredentialDeletion("bob", 2)]),
    *(features(("group.version", level, kind)) for level in (-1, 0, 1, 2) for kind in range(5)),
    *(features(("metadata.version", level, kind)) for level in (6, 7, 29, 30, 31) for kind in (1, 2, 3)),
    features(("nope", 1, 1)),
    features(("group.version", 0, 2), ("nope", 1, 1)),
    features(),
    *(ElectLeaders(kind, [("led", 0), ("led", 7), ("nope", 0), ("led", 0)]) for kind in (0, 1, 2)),
    ElectLeaders(0, []),
    ElectLeaders(1, None),
    *(move("led", 0, replicas) for replicas in ([1], [7], [1, 7], [1, 1], [], [-1], None)),
    *(move("led", 0, replicas, factor_may_change=False) for replicas in ([1], [1, 7])),
    move("led", 7, [1]),
    move("nope", 0, None),
]


@pytest.mark.parametrize("command", SCRIPT, ids=lambda command: f"{type(command).__name__}")
def test_codes_are_kafkas(both: Both, command: Command) -> None:
    theirs, ours = both.do(command)
    assert ours == theirs


# What we do otherwise, with the reason; Kafka's code first.
ON_PURPOSE: list[tuple[Command, int, int, str]] = [
    (quota(A, ("request_percentage", math.nan), validate_only=True), 0, 42, "no number is no quota"),
    (quota([("ip", "localhost")], ("connection_creation_rate", 1.0), validate_only=True), 0, 42, "names move"),
    (AlterUserScramCredentials([], [CredentialUpsertion("a", 1, 4096, b"s", b"")]), -1, 93, "the client's mistake"),
]


@pytest.mark.parametrize(("command", "kafkas", "ours_expected", "reason"), ON_PURPOSE)
def test_where_we_differ_we_know_it(both: Both, command: Command, kafkas: int, ours_expected: int, reason: str) -> None:
    theirs, ours = both.do(command)
    assert (theirs[0].code, ours[0].code) == (kafkas, ours_expected), reason
