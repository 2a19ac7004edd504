"""Metadata in every version: all, none and named topics, ids, auto-create."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from clients.protocol.calls import DESCRIBE_TOPIC_PARTITIONS, METADATA, metadata, random_id, versions
from harness.conditions import wait_until
from harness.raw import RawConnection, topic_id_of

NewTopic = Callable[..., str]
UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, UNKNOWN_TOPIC_ID, INVALID_REQUEST = 3, 17, 100, 42
ZERO = uuid.UUID(int=0)


@pytest.mark.parametrize("version", versions(METADATA))
def test_a_topic_in_every_version(raw: RawConnection, new_topic: NewTopic, bootstrap: str, version: int) -> None:
    name = new_topic(partitions=3)
    reply = metadata(raw, [name], version=version)
    topic = reply.topics[0]
    assert (topic.name, topic.error_code) == (name, 0)
    assert sorted(part.partition_index for part in topic.partitions) == [0, 1, 2]
    node = reply.brokers[0]
    assert f"{node.host}:{node.port}" == bootstrap
    assert all(part.leader_id == node.node_id for part in topic.partitions)
    assert all(list(part.replica_nodes) == list(part.isr_nodes) == [node.node_id] for part in topic.partitions)
    if version >= 1:
        assert reply.controller_id == node.node_id
    if version >= 2:
        assert reply.cluster_id
    if version >= 7:
        assert all(part.leader_epoch == 0 for part in topic.partitions)
    if version >= 10:
        assert topic.topic_id not in (None, ZERO)


@pytest.mark.parametrize("version", versions(METADATA))
def test_all_topics(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    """Version 0 asks for all with an empty list, later versions with null."""
    name = new_topic()
    reply = raw.request(METADATA, version, {"topics": [] if version == 0 else None})
    assert name in [topic.name for topic in reply.topics]


@pytest.mark.parametrize("version", versions(METADATA, 1))
def test_no_topics(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    new_topic()
    reply = raw.request(METADATA, version, {"topics": []})
    assert list(reply.topics) == []
    assert len(reply.brokers) == 1


@pytest.mark.parametrize("version", versions(METADATA, 4))
def test_an_unknown_topic_without_auto_create(raw: RawConnection, new_name: Callable[[], str], version: int) -> None:
    name = new_name()
    topic = metadata(raw, [name], version=version).topics[0]
    assert (topic.name, topic.error_code, list(topic.partitions)) == (name, UNKNOWN_TOPIC_OR_PARTITION, [])
    assert metadata(raw, [name], version=version).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
def test_auto_create(raw: RawConnection, new_name: Callable[[], str], version: int) -> None:
    """Versions below 4 always ask for it. Kafka answers the first request with an error, then creates."""
    name = new_name()

    def exists() -> bool:
        topic = metadata(raw, [name], version=version, auto_create=True).topics[0]
        return bool(topic.error_code == 0 and len(topic.partitions) == 1)

    wait_until(exists, "the created topic")


@pytest.mark.parametrize("name", ["bad/name", "", "..", "ä", "x" * 250])
def test_illegal_names(raw: RawConnection, name: str) -> None:
    assert metadata(raw, [name], auto_create=True).topics[0].error_code == INVALID_TOPIC


@pytest.mark.parametrize("version", [12, 13])
def test_by_topic_id(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic()
    topic_id = topic_id_of(raw, name)
    reply = raw.request(METADATA, version, {"topics": [{"topic_id": topic_id, "name": None}]})
    assert (reply.topics[0].name, reply.topics[0].topic_id, reply.topics[0].error_code) == (name, topic_id, 0)


@pytest.mark.parametrize("version", [12, 13])
def test_an_unknown_topic_id(raw: RawConnection, version: int) -> None:
    topic_id = random_id()
    reply = raw.request(METADATA, version, {"topics": [{"topic_id": topic_id, "name": None}]})
    topic = reply.topics[0]
    assert (topic.error_code, topic.topic_id) == (UNKNOWN_TOPIC_ID, topic_id)
    assert topic.name is None


def test_ids_are_stable_and_differ(raw: RawConnection, new_topic: NewTopic) -> None:
    first, second = new_topic(), new_topic()
    assert topic_id_of(raw, first) == topic_id_of(raw, first) != topic_id_of(raw, second)


def describe(
    raw: RawConnection, names: list[str], limit: int = 2000, cursor: dict[str, object] | None = None
) -> object:
    body = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": cursor}
    return raw.request(DESCRIBE_TOPIC_PARTITIONS, 0, body)


def test_describe_topic_partitions(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic(partitions=3)
    reply = describe(raw, [name])
    topic = reply.topics[0]
    assert (topic.name, topic.error_code, topic.topic_id) == (name, 0, topic_id_of(raw, name))
    assert [part.partition_index for part in topic.partitions] == [0, 1, 2]
    assert reply.next_cursor is None


def test_describe_topic_partitions_in_pages(raw: RawConnection, new_topic: NewTopic) -> None:
    names = sorted([new_topic(partitions=3), new_topic(partitions=3)])
    seen = []
    cursor = None
    for _ in range(10):
        reply = describe(raw, names, 2, cursor)
        seen += [(topic.name, part.partition_index) for topic in reply.topics for part in topic.partitions]
        if reply.next_cursor is None:
            break
        place = reply.next_cursor
        cursor = {"topic_name": place.topic_name, "partition_index": place.partition_index}
    assert seen == [(name, index) for name in names for index in range(3)]


def test_describe_an_unknown_topic(raw: RawConnection, new_name: Callable[[], str]) -> None:
    assert describe(raw, [new_name()]).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
