"""kafka-python's KafkaAdminClient: what its users may ask beyond the compatibility card."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from kafka.admin import ConfigResource, KafkaAdminClient

from harness.conditions import wait_until

NewTopic = Callable[..., str]
BASE_MS = 1_700_000_000_000


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_assignments(admin: KafkaAdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    broker = admin.describe_cluster()["brokers"][0]["broker_id"]
    admin.create_topics({name: {"assignments": {0: [broker], 1: [broker]}}}, wait_for_metadata=True)
    assert len(admin.describe_topics([name])[0]["partitions"]) == 2


def test_delete_by_id(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic()
    topic_id = admin.describe_topics([name])[0]["topic_id"]
    admin.delete_topics([uuid.UUID(topic_id)])
    wait_until(lambda: name not in admin.list_topics(), "no topic")


def test_describe_configs(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(retention_bytes=1000)
    asked = [ConfigResource("TOPIC", name)]
    changed = admin.describe_configs(asked)["topic"][name]
    assert {key: changed[key]["value"] for key in changed} == {"retention.bytes": "1000"}
    every = admin.describe_configs(asked, include_synonyms=True, config_filter="all")["topic"][name]
    assert every["segment.bytes"]["value"] == "1073741824"
    assert len(every["retention.bytes"]["synonyms"]) == 2


def test_incremental_alter(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(retention_bytes=5)
    answer = admin.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "777"})])
    assert answer["topic"][name] == "OK"
    changed = admin.describe_configs([ConfigResource("TOPIC", name)])["topic"][name]
    assert {key: changed[key]["value"] for key in changed} == {"retention.bytes": "5", "retention.ms": "777"}
    admin.reset_configs([ConfigResource("TOPIC", name, ["retention.ms"])])
    assert set(admin.describe_configs([ConfigResource("TOPIC", name)])["topic"][name]) == {"retention.bytes"}


def test_describe_topic_partitions(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=3)
    found = admin.describe_topic_partitions([name], response_partition_limit=2)
    assert [part["partition_index"] for part in found["topics"][0]["partitions"]] == [0, 1]
    assert found["next_cursor"] == {"topic_name": name, "partition_index": 2}


def test_the_inferred_version_is_recent(admin: KafkaAdminClient) -> None:
    """kafka-python guesses the broker's version from the ranges; an incoherent set makes it guess low."""
    assert admin._manager.broker_version >= (4, 0)
