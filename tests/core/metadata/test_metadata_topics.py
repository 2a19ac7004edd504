"""Topics: what is created, deleted and grown, and what is refused with which code."""

from __future__ import annotations

from uuid import UUID

import pytest
from metadata_cluster import DIRECTORY, Cluster

from runnel.core.metadata import (
    ClusterLimits,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    TopicOutcome,
)
from runnel.core.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from runnel.wire.errors import ErrorCode


def create(cluster: Cluster, *topics: NewTopic, validate_only: bool = False) -> tuple[TopicOutcome, ...]:
    outcomes: tuple[TopicOutcome, ...] = cluster.do(CreateTopics(topics, validate_only))
    return outcomes


def test_a_topic_has_what_was_asked_for() -> None:
    cluster = Cluster()
    (outcome,) = create(cluster, NewTopic("orders", 3, 1, configs={"retention.ms": "1000"}))
    assert (outcome.code, outcome.partition_count, outcome.replication_factor) == (ErrorCode.NONE, 3, 1)
    topic = cluster.machine.image.topics["orders"]
    assert topic.topic_id == outcome.topic_id
    assert cluster.machine.image.topic_by_id(outcome.topic_id) is topic
    assert topic.configs == {"retention.ms": "1000"}
    assert [partition.index for partition in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.leader, partition.replicas, partition.isr) == (1, (1,), (1,))
        assert (partition.leader_epoch, partition.partition_epoch, partition.directories) == (0, 0, (DIRECTORY,))


def test_the_records_of_a_topic_are_in_kafkas_order() -> None:
    records = Cluster().decide(CreateTopics([NewTopic("orders", 2, configs={"retention.ms": "1"})])).records
    assert [type(record) for record in records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]


def test_minus_one_asks_for_the_defaults_of_the_cluster() -> None:
    cluster = Cluster(brokers=2, limits=ClusterLimits(partitions_default=6, replication_factor_default=2))
    (outcome,) = create(cluster, NewTopic("orders"))
    assert (outcome.partition_count, outcome.replication_factor) == (6, 2)


def test_each_topic_of_a_request_stands_for_itself() -> None:
    cluster = Cluster()
    outcomes = create(cluster, NewTopic("good"), NewTopic("bad name"), NewTopic("also-good"))
    expected = [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
    assert [outcome.code for outcome in outcomes] == expected
    assert set(cluster.machine.image.topics) == {"good", "also-good"}


def test_validate_only_answers_and_changes_nothing() -> None:
    cluster = Cluster()
    before = cluster.machine.image
    assert create(cluster, NewTopic("orders", 3), validate_only=True)[0].partition_count == 3
    decision = cluster.decide(CreateTopics([NewTopic("orders")], validate_only=True))
    assert decision.records == []
    assert cluster.machine.image == before


def test_leaders_are_spread_over_the_brokers() -> None:
    cluster = Cluster(brokers=3)
    create(cluster, NewTopic("orders", 6, 2))
    partitions = cluster.machine.image.topics["orders"].partitions
    leaders = sorted(int(partition.leader) for partition in partitions)
    assert leaders == [1, 1, 2, 2, 3, 3]
    assert all(len(set(partition.replicas)) == 2 for partition in partitions)


REFUSED = [
    (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
    (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' is not allowed"),
    (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
    (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
    (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
    (NewTopic("a/../b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
    (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
    (NewTopic("é"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
    (NewTopic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
    (NewTopic("with_score"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: with.score"),
    (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
    (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
    (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
    (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
    (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
    (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker(s)"),
    (NewTopic("t", 10_001), ErrorCode.POLICY_VIOLATION, "10000"),
    (NewTopic("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "10000"),
    (NewTopic("t", 1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST, "numPartitions"),
    (NewTopic("t", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "replication factor"),
    (NewTopic("t", assignments=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple"),
    (NewTopic("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
    (NewTopic("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
    (NewTopic("t", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
    (NewTopic("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
    (NewTopic("t", configs={"nope": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
    (NewTopic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
    (NewTopic("t", configs={"retention.ms": "abc"}), ErrorCode.INVALID_CONFIG, "not a whole number"),
]


@pytest.mark.parametrize(("topic", "code", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_created_is_refused(topic: NewTopic, code: ErrorCode, words: str) -> None:
    cluster = Cluster()
    create(cluster, NewTopic("taken"), NewTopic("with.score"))
    before = cluster.machine.image
    (outcome,) = create(cluster, topic)
    assert outcome.code is code
    assert words in str(outcome.message)
    assert cluster.machine.image == before


def test_uneven_assignments_are_refused() -> None:
    topic = NewTopic("t", assignments=[(0, [1]), (1, [1, 2])])
    (outcome,) = create(Cluster(brokers=2), topic)
    assert outcome.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_assignments_are_taken_as_given_in_any_order() -> None:
    cluster = Cluster(brokers=2)
    create(cluster, NewTopic("t", assignments=[(1, [2, 1]), (0, [1, 2])]))
    partitions = cluster.machine.image.topics["t"].partitions
    assert [partition.replicas for partition in partitions] == [(1, 2), (2, 1)]
    assert [partition.leader for partition in partitions] == [1, 2]


def test_a_name_given_twice_is_refused_and_answered_once() -> None:
    outcomes = create(Cluster(), NewTopic("twice"), NewTopic("twice", 5), NewTopic("once"))
    assert [(outcome.name, outcome.code) for outcome in outcomes] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]


def test_a_request_too_large_in_all_is_refused_in_all() -> None:
    outcomes = create(Cluster(), NewTopic("a", 6_000), NewTopic("b", 6_000))
    assert {outcome.code for outcome in outcomes} == {ErrorCode.POLICY_VIOLATION}


def test_a_broker_holds_only_so_many_partitions() -> None:
    cluster = Cluster(limits=ClusterLimits(partitions_per_broker_max=5))
    assert create(cluster, NewTopic("a", 3))[0].code is ErrorCode.NONE
    (outcome,) = create(cluster, NewTopic("b", 3))
    assert outcome.code is ErrorCode.POLICY_VIOLATION
    assert "max.partitions.per.broker" in str(outcome.message)
    (grown,) = cluster.do(CreatePartitions([NewPartitions("a", 6)]))
    assert grown.code is ErrorCode.POLICY_VIOLATION
    assert cluster.machine.image.partition_count == 3
    assert create(cluster, NewTopic("b", 2))[0].code is ErrorCode.NONE


def test_the_topics_of_one_request_share_the_room_that_is_left() -> None:
    cluster = Cluster(limits=ClusterLimits(partitions_per_broker_max=5))
    outcomes = create(cluster, NewTopic("a", 3), NewTopic("b", 3), NewTopic("c", 2))
    assert [outcome.code for outcome in outcomes] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]


# ------------------------------------------------------------------------------------------------ delete


def test_topics_go_by_name_and_by_id() -> None:
    cluster = Cluster()
    first, _, _ = create(cluster, NewTopic("a", 2), NewTopic("b"), NewTopic("c"))
    outcomes = cluster.do(DeleteTopics(["b", first.topic_id]))
    assert [(outcome.name, outcome.code) for outcome in outcomes] == [("b", 0), ("a", 0)]
    assert set(cluster.machine.image.topics) == {"c"}
    assert len(cluster.machine.image.topic_names) == 1
    assert cluster.machine.image.partition_count == 1


def test_a_topic_made_again_is_another_topic() -> None:
    cluster = Cluster()
    (first,) = create(cluster, NewTopic("a", configs={"retention.ms": "1"}))
    cluster.do(DeleteTopics(["a"]))
    (second,) = create(cluster, NewTopic("a"))
    assert first.topic_id != second.topic_id
    assert cluster.machine.image.topics["a"].configs == {}
    assert cluster.machine.image.topic_by_id(first.topic_id) is None


def test_what_cannot_be_deleted_is_refused() -> None:
    cluster = Cluster()
    (made,) = create(cluster, NewTopic("a"))
    unknown = UUID(int=5)
    outcomes = cluster.do(DeleteTopics(["nope", unknown, "a", made.topic_id, "gone", "gone"]))
    assert [(outcome.name, outcome.topic_id.int, outcome.code.name) for outcome in outcomes] == [
        ("nope", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        (None, 5, "UNKNOWN_TOPIC_ID"),
        ("a", made.topic_id.int, "INVALID_REQUEST"),
        ("gone", 0, "INVALID_REQUEST"),
    ]
    assert set(cluster.machine.image.topics) == {"a"}


def test_deletion_can_be_switched_off() -> None:
    cluster = Cluster(limits=ClusterLimits(topic_deletion=False))
    create(cluster, NewTopic("a"))
    assert cluster.do(DeleteTopics(["a"]))[0].code is ErrorCode.TOPIC_DELETION_DISABLED


def test_internal_topics_are_deleted_only_on_purpose() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("__consumer_offsets"))
    assert cluster.machine.image.topics["__consumer_offsets"].internal
    assert cluster.do(DeleteTopics(["__consumer_offsets"]))[0].code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert cluster.do(DeleteTopics(["__consumer_offsets"], internal_allowed=True))[0].code is ErrorCode.NONE


# ------------------------------------------------------------------------------------------------ partitions


def test_a_topic_grows_and_keeps_its_first_partitions() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("a", 2))
    before = cluster.machine.image.topics["a"].partitions
    (outcome,) = cluster.do(CreatePartitions([NewPartitions("a", 5)]))
    assert outcome.code is ErrorCode.NONE
    after = cluster.machine.image.topics["a"].partitions
    assert after[:2] == before
    assert [partition.index for partition in after] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (NewPartitions("nope", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic 'nope'"),
        (NewPartitions("a", 3), ErrorCode.INVALID_PARTITIONS, "already has 3"),
        (NewPartitions("a", 2), ErrorCode.INVALID_PARTITIONS, "2 would not be an increase"),
        (NewPartitions("a", -1), ErrorCode.INVALID_PARTITIONS, "-1 would not be an increase"),
        (NewPartitions("a", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "10000"),
        (NewPartitions("a", 5, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "1 assignment(s)"),
        (NewPartitions("a", 4, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "0 assignment(s)"),
        (NewPartitions("a", 4, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (NewPartitions("a", 4, [[7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
    ],
)
def test_growth_that_cannot_be_is_refused(wanted: NewPartitions, code: ErrorCode, words: str) -> None:
    cluster = Cluster()
    create(cluster, NewTopic("a", 3))
    before = cluster.machine.image
    (outcome,) = cluster.do(CreatePartitions([wanted]))
    assert outcome.code is code
    assert words in str(outcome.message)
    assert cluster.machine.image == before


def test_growth_can_be_validated_and_assigned() -> None:
    cluster = Cluster(brokers=2)
    create(cluster, NewTopic("a", 1, 1))
    assert cluster.do(CreatePartitions([NewPartitions("a", 2, [[2]])], validate_only=True))[0].code is ErrorCode.NONE
    assert len(cluster.machine.image.topics["a"].partitions) == 1
    cluster.do(CreatePartitions([NewPartitions("a", 2, [[2]])]))
    assert cluster.machine.image.topics["a"].partitions[1].leader == 2


def test_a_topic_grown_twice_in_one_request_is_refused_once() -> None:
    cluster = Cluster()
    create(cluster, NewTopic("a"))
    outcomes = cluster.do(CreatePartitions([NewPartitions("a", 2), NewPartitions("a", 3)]))
    assert [outcome.code for outcome in outcomes] == [ErrorCode.INVALID_REQUEST]
