"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords: every version, and every refusal Kafka has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.protocol.calls import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    create,
    fetch,
    list_offset,
    metadata,
    produce,
    random_id,
    versions,
)
from harness.batches import decode_values, encode_batch
from harness.conditions import wait_until
from harness.raw import RawConnection, topic_id_of

NewTopic = Callable[..., str]
NewName = Callable[[], str]
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, TOPIC_ALREADY_EXISTS = 1, 3, 17, 36
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG = 37, 38, 39, 40
INVALID_REQUEST, UNKNOWN_TOPIC_ID = 42, 100


def exists(raw: RawConnection, name: str) -> bool:
    return bool(metadata(raw, [name]).topics[0].error_code == 0)


def node_id(raw: RawConnection) -> int:
    return int(metadata(raw, []).brokers[0].node_id)


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
def test_create_in_every_version(raw: RawConnection, new_name: NewName, version: int) -> None:
    name = new_name()
    answer = create(raw, name, version=version, num_partitions=3)
    assert (answer.name, answer.error_code) == (name, 0)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        configs = {config.name: config.value for config in answer.configs}
        assert configs["cleanup.policy"] == "delete"
        assert configs["max.message.bytes"] == "1048588"
    if version >= 7:
        assert answer.topic_id == topic_id_of(raw, name)
    wait_until(lambda: len(metadata(raw, [name]).topics[0].partitions) == 3, "three partitions")


@pytest.mark.parametrize("version", versions(CREATE_TOPICS, 4))
def test_defaults_for_partitions_and_replicas(raw: RawConnection, new_name: NewName, version: int) -> None:
    """KIP-464: -1 means the broker's default."""
    name = new_name()
    assert create(raw, name, version=version, num_partitions=-1, replication_factor=-1).error_code == 0
    wait_until(lambda: len(metadata(raw, [name]).topics[0].partitions) == 1, "one partition")


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
def test_validate_only_creates_nothing(raw: RawConnection, new_name: NewName, version: int) -> None:
    name = new_name()
    answer = create(raw, name, version=version, num_partitions=3, validate_only=True)
    assert answer.error_code == 0
    if version >= 5:
        assert answer.num_partitions == 3
    assert not exists(raw, name)
    bad = create(raw, name, version=version, num_partitions=0, validate_only=True)
    assert bad.error_code == INVALID_PARTITIONS


def test_configs(raw: RawConnection, new_name: NewName) -> None:
    configs = [{"name": "retention.ms", "value": "12345"}, {"name": "cleanup.policy", "value": "compact"}]
    answer = create(raw, new_name(), configs=configs)
    found = {config.name: (config.value, config.config_source) for config in answer.configs}
    assert found["retention.ms"] == ("12345", 1)
    assert found["cleanup.policy"] == ("compact", 1)
    assert found["segment.bytes"] == ("1073741824", 5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "soon"), ("retention.ms", "-2"), ("no.such.config", "1"), ("cleanup.policy", "burn")],
)
def test_bad_configs(raw: RawConnection, new_name: NewName, name: str, value: str) -> None:
    topic = new_name()
    answer = create(raw, topic, configs=[{"name": name, "value": value}])
    assert answer.error_code == INVALID_CONFIG
    assert name in answer.error_message
    assert not exists(raw, topic)


def test_assignments(raw: RawConnection, new_name: NewName) -> None:
    name, here = new_name(), node_id(raw)
    assignments = [{"partition_index": index, "broker_ids": [here]} for index in range(2)]
    answer = create(raw, name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert (answer.error_code, answer.num_partitions) == (0, 2)
    wait_until(lambda: len(metadata(raw, [name]).topics[0].partitions) == 2, "two partitions")


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        ([(0, [4711])], INVALID_REPLICA_ASSIGNMENT),
        ([(1, [None])], INVALID_REPLICA_ASSIGNMENT),
        ([(0, [None, None])], INVALID_REPLICA_ASSIGNMENT),
        ([(0, [])], INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_bad_assignments(raw: RawConnection, new_name: NewName, assignments: list[Any], error: int) -> None:
    name, here = new_name(), node_id(raw)
    asked = [
        {"partition_index": index, "broker_ids": [here if one is None else one for one in brokers]}
        for index, brokers in assignments
    ]
    answer = create(raw, name, num_partitions=-1, replication_factor=-1, assignments=asked)
    assert answer.error_code == error
    assert not exists(raw, name)


def test_partitions_and_assignments_exclude_each_other(raw: RawConnection, new_name: NewName) -> None:
    assignments = [{"partition_index": 0, "broker_ids": [node_id(raw)]}]
    answer = create(raw, new_name(), num_partitions=1, replication_factor=1, assignments=assignments)
    assert answer.error_code == INVALID_REQUEST


@pytest.mark.parametrize("count", [0, -2])
def test_bad_partition_counts(raw: RawConnection, new_name: NewName, count: int) -> None:
    assert create(raw, new_name(), num_partitions=count).error_code == INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_bad_replication_factors(raw: RawConnection, new_name: NewName, factor: int) -> None:
    assert create(raw, new_name(), replication_factor=factor).error_code == INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250])
def test_illegal_names(raw: RawConnection, name: str) -> None:
    answer = create(raw, name)
    assert answer.error_code == INVALID_TOPIC
    assert answer.error_message


def test_the_longest_name(raw: RawConnection, new_name: NewName) -> None:
    name = new_name().ljust(249, "x")
    assert create(raw, name).error_code == 0
    wait_until(lambda: exists(raw, name), "the topic")
    wait_until(lambda: produce(raw, name, encode_batch([b"a"])).error_code == 0, "a record in it")


def test_names_that_collide(raw: RawConnection, new_name: NewName) -> None:
    """Dots and underscores are the same in metric names."""
    name = new_name()
    assert create(raw, f"{name}.one_two").error_code == 0
    assert create(raw, f"{name}_one.two").error_code == INVALID_TOPIC


def test_a_topic_that_exists(raw: RawConnection, new_topic: NewTopic) -> None:
    assert create(raw, new_topic()).error_code == TOPIC_ALREADY_EXISTS


def test_twice_in_one_request(raw: RawConnection, new_name: NewName) -> None:
    name, other = new_name(), new_name()
    topics = [{"name": one, "num_partitions": 1, "replication_factor": 1} for one in (name, other, name)]
    reply = raw.request(CREATE_TOPICS, 7, {"topics": topics, "timeout": 30_000})
    errors = {topic.name: int(topic.error_code) for topic in reply.topics}
    assert errors == {name: INVALID_REQUEST, other: 0}
    assert not exists(raw, name)


@pytest.mark.parametrize("version", versions(DELETE_TOPICS))
def test_delete_by_name(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    answer = delete(raw, version, name=name)
    assert (answer.name, answer.error_code) == (name, 0)
    wait_until(lambda: not exists(raw, name), "no topic")
    assert delete(raw, version, name=name).error_code == UNKNOWN_TOPIC_OR_PARTITION


def delete(raw: RawConnection, version: int, *, name: str | None = None, topic_id: Any = None) -> Any:
    body: dict[str, Any] = {"timeout": 30_000}
    if version >= 6:
        body["topics"] = [{"name": name, "topic_id": topic_id}]
    else:
        body["topic_names"] = [name]
    return raw.request(DELETE_TOPICS, version, body).responses[0]


def test_delete_by_id(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    topic_id = topic_id_of(raw, name)
    answer = delete(raw, 6, topic_id=topic_id)
    assert (answer.error_code, answer.topic_id) == (0, topic_id)
    wait_until(lambda: not exists(raw, name), "no topic")
    assert delete(raw, 6, topic_id=random_id()).error_code == UNKNOWN_TOPIC_ID


def test_a_topic_that_comes_back_is_another_one(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    produce(raw, name, encode_batch([b"old"]))
    old_id = topic_id_of(raw, name)
    assert delete(raw, 6, name=name).error_code == 0
    wait_until(lambda: create(raw, name).error_code == 0, "the topic again")
    wait_until(lambda: exists(raw, name) and list_offset(raw, name, -1).error_code == 0, "its leader")
    assert topic_id_of(raw, name) != old_id
    assert list_offset(raw, name, -1).offset == 0
    assert produce(raw, name, encode_batch([b"new"])).base_offset == 0
    assert decode_values(fetch(raw, name, 0).records) == [(0, b"new")]


@pytest.mark.parametrize("version", versions(CREATE_PARTITIONS))
def test_add_partitions(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic(partitions=2)
    produce(raw, name, encode_batch([b"kept"]))
    assert add_partitions(raw, name, 4, version=version).error_code == 0
    wait_until(lambda: len(metadata(raw, [name]).topics[0].partitions) == 4, "four partitions")
    wait_until(lambda: produce(raw, name, encode_batch([b"a"]), partition=3).error_code == 0, "a new leader")
    assert decode_values(fetch(raw, name, 0).records) == [(0, b"kept")]


def add_partitions(
    raw: RawConnection,
    name: str,
    count: int,
    *,
    version: int = 3,
    validate_only: bool = False,
    assignments: list[dict[str, Any]] | None = None,
) -> Any:
    topics = [{"name": name, "count": count, "assignments": assignments}]
    body = {"topics": topics, "timeout": 30_000, "validate_only": validate_only}
    return raw.request(CREATE_PARTITIONS, version, body).results[0]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_partitions_cannot_become_fewer(raw: RawConnection, new_topic: NewTopic, count: int) -> None:
    answer = add_partitions(raw, new_topic(partitions=2), count)
    assert answer.error_code == INVALID_PARTITIONS
    assert answer.error_message


def test_add_partitions_validate_only(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert add_partitions(raw, name, 3, validate_only=True).error_code == 0
    assert len(metadata(raw, [name]).topics[0].partitions) == 1


def test_add_partitions_with_assignments(raw: RawConnection, new_topic: NewTopic) -> None:
    name, here = new_topic(), node_id(raw)
    assert add_partitions(raw, name, 2, assignments=[{"broker_ids": [here]}]).error_code == 0
    bad = add_partitions(raw, name, 3, assignments=[{"broker_ids": [4711]}])
    assert bad.error_code == INVALID_REPLICA_ASSIGNMENT
    few = add_partitions(raw, name, 5, assignments=[{"broker_ids": [here]}])
    assert few.error_code == INVALID_REPLICA_ASSIGNMENT


def test_add_partitions_to_nothing(raw: RawConnection, new_name: NewName) -> None:
    assert add_partitions(raw, new_name(), 2).error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", versions(DELETE_RECORDS))
def test_delete_records(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    for number in range(4):
        produce(raw, name, encode_batch([str(number).encode()] * 2))
    answer = delete_records(raw, name, 3, version=version)
    assert (answer.error_code, answer.low_watermark) == (0, 3)
    assert list_offset(raw, name, -2).offset == 3
    assert fetch(raw, name, 2).error_code == OFFSET_OUT_OF_RANGE
    served = fetch(raw, name, 3)
    assert served.log_start_offset == 3
    assert [offset for offset, _ in decode_values(served.records) if offset >= 3] == [3, 4, 5, 6, 7]
    assert delete_records(raw, name, 1, version=version).low_watermark == 3  # never back


def delete_records(raw: RawConnection, name: str, offset: int, *, version: int = 2) -> Any:
    partitions = [{"partition_index": 0, "offset": offset}]
    body = {"topics": [{"name": name, "partitions": partitions}], "timeout": 30_000}
    return raw.request(DELETE_RECORDS, version, body).topics[0].partitions[0]


def test_delete_all_records(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    produce(raw, name, encode_batch([b"a", b"b"]))
    assert delete_records(raw, name, -1).low_watermark == 2
    assert produce(raw, name, encode_batch([b"c"])).base_offset == 2
    assert decode_values(fetch(raw, name, 2).records) == [(2, b"c")]


def test_delete_records_that_do_not_exist(raw: RawConnection, new_topic: NewTopic) -> None:
    assert delete_records(raw, new_topic(), 5).error_code == OFFSET_OUT_OF_RANGE
    assert delete_records(raw, "no-such-topic", 0).error_code == UNKNOWN_TOPIC_OR_PARTITION
