"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, AlterReplicaLogDirs on one broker.

Passes on Apache Kafka too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.protocol.calls import (
    ALTER_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    ELECT_LEADERS,
    LIST_REASSIGNMENTS,
    metadata,
    versions,
)
from harness.raw import RawConnection

NewTopic = Callable[..., str]
UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, LOG_DIR_NOT_FOUND = 3, 39, 42, 57
ELECTION_NOT_NEEDED, NO_REASSIGNMENT_IN_PROGRESS = 84, 85
PREFERRED, UNCLEAN = 0, 1
TIMEOUT_MS = 30_000


def elect(raw: RawConnection, topics: dict[str, list[int]] | None, *, version: int = 2, kind: int = PREFERRED) -> Any:
    asked = None
    if topics is not None:
        asked = [{"topic": name, "partitions": partitions} for name, partitions in topics.items()]
    return raw.request(
        ELECT_LEADERS, version, {"election_type": kind, "topic_partitions": asked, "timeout": TIMEOUT_MS}
    )


def elections(reply: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, partition.partition_id): int(partition.error_code)
        for topic in reply.replica_election_results
        for partition in topic.partition_result
    }


@pytest.mark.parametrize("version", versions(ELECT_LEADERS))
def test_the_one_replica_leads_already(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic(partitions=2)
    reply = elect(raw, {name: [0, 1, 7], "no-such-topic": [0]}, version=version)
    assert elections(reply) == {
        (name, 0): ELECTION_NOT_NEEDED,
        (name, 1): ELECTION_NOT_NEEDED,
        (name, 7): UNKNOWN_TOPIC_OR_PARTITION,
        ("no-such-topic", 0): UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert getattr(reply, "error_code", 0) == 0


@pytest.mark.parametrize("version", versions(ELECT_LEADERS))
def test_of_all_partitions_only_those_are_answered_that_needed_it(
    raw: RawConnection, new_topic: NewTopic, version: int
) -> None:
    name = new_topic()
    reply = elect(raw, None, version=version)
    assert name in [topic.topic for topic in reply.replica_election_results]
    assert elections(reply) == {}


def test_unclean_and_unknown_elections(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert elections(elect(raw, {name: [0]}, kind=UNCLEAN)) == {(name, 0): ELECTION_NOT_NEEDED}
    refused = elect(raw, {name: [0]}, kind=2)
    assert (refused.error_code, elections(refused)) == (INVALID_REQUEST, {(name, 0): INVALID_REQUEST})


def reassign(raw: RawConnection, name: str, partition: int, replicas: list[int] | None, version: int = 1) -> int:
    topic = {"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]}
    reply = raw.request(ALTER_REASSIGNMENTS, version, {"topics": [topic], "timeout": TIMEOUT_MS})
    assert reply.error_code == 0
    return int(reply.responses[0].partitions[0].error_code)


@pytest.mark.parametrize("version", versions(ALTER_REASSIGNMENTS))
def test_reassignments_on_one_broker(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    broker = metadata(raw, []).brokers[0].node_id
    assert reassign(raw, name, 0, [broker], version) == 0
    assert reassign(raw, name, 0, None, version) == NO_REASSIGNMENT_IN_PROGRESS
    for replicas in ([broker + 7], [broker, broker + 7], [broker, broker], []):
        assert reassign(raw, name, 0, replicas, version) == INVALID_REPLICA_ASSIGNMENT
    assert reassign(raw, name, 7, [broker], version) == UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(raw, "no-such-topic", 0, None, version) == UNKNOWN_TOPIC_OR_PARTITION
    partition = metadata(raw, [name]).topics[0].partitions[0]
    assert (list(partition.replica_nodes), list(partition.isr_nodes), partition.leader_epoch) == ([broker], [broker], 0)


def test_nothing_is_on_the_move(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    for topics in (
        None,
        [],
        [{"name": name, "partition_indexes": [0]}],
        [{"name": "no-such", "partition_indexes": [0]}],
    ):
        reply = raw.request(LIST_REASSIGNMENTS, 0, {"topics": topics, "timeout": TIMEOUT_MS})
        assert (reply.error_code, reply.topics) == (0, ())


@pytest.mark.parametrize("version", versions(ALTER_REPLICA_LOG_DIRS))
def test_there_is_one_log_directory(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    directory = raw.request(DESCRIBE_LOG_DIRS, 4, {"topics": None}).results[0].log_dir

    def move(path: str) -> dict[tuple[str, int], int]:
        topics = [{"name": name, "partitions": [0, 7]}, {"name": "no-such-topic", "partitions": [0]}]
        reply = raw.request(ALTER_REPLICA_LOG_DIRS, version, {"dirs": [{"path": path, "topics": topics}]})
        return {
            (topic.topic_name, partition.partition_index): int(partition.error_code)
            for topic in reply.results
            for partition in topic.partitions
        }

    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert move(directory) == {(name, 0): 0, (name, 7): unknown, ("no-such-topic", 0): unknown}
    assert set(move("/no/such/folder").values()) == {LOG_DIR_NOT_FOUND}
