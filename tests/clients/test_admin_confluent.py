"""librdkafka's AdminClient: what its users may ask beyond the compatibility card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from harness.conditions import wait_until

NewTopicCall = Callable[..., str]
CALL_SECONDS = 60.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def done(futures: dict[Any, Any]) -> Any:
    """The one result of a call about one thing."""
    (future,) = futures.values()
    return future.result(CALL_SECONDS)


def partitions_of(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions)


def test_validate_only(admin: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    done(admin.create_topics([NewTopic(name, 3, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=CALL_SECONDS).topics
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        done(admin.create_topics([NewTopic(name, 3, 7)], validate_only=True))


def test_assignments(admin: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    broker = next(iter(admin.list_topics(timeout=CALL_SECONDS).brokers))
    done(admin.create_topics([NewTopic(name, 2, replica_assignment=[[broker], [broker]])]))
    wait_until(lambda: partitions_of(admin, name) == 2, "two partitions")


def configs(admin: AdminClient, name: str, kind: ResourceType = ResourceType.TOPIC) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = done(admin.describe_configs([ConfigResource(kind, name)]))
    return found


def test_describe_configs(admin: AdminClient, new_topic: NewTopicCall) -> None:
    found = configs(admin, new_topic(retention_bytes=1000))
    assert found["retention.bytes"].value == "1000"
    assert found["retention.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not found["retention.bytes"].is_default
    assert "log.retention.bytes" in found["retention.bytes"].synonyms
    assert found["segment.bytes"].is_default
    assert not found["segment.bytes"].is_sensitive
    assert not found["segment.bytes"].is_read_only


def test_describe_broker_configs(admin: AdminClient) -> None:
    broker = str(next(iter(admin.list_topics(timeout=CALL_SECONDS).brokers)))
    found = configs(admin, broker, ResourceType.BROKER)
    assert found["num.partitions"].value == "1"
    assert found["node.id"].is_read_only


def test_incremental_alter(admin: AdminClient, new_topic: NewTopicCall) -> None:
    name = new_topic(retention_bytes=5)
    resource = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("retention.ms", "777", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
            ConfigEntry("retention.bytes", "", incremental_operation=AlterConfigOpType.DELETE),
        ],
    )
    done(admin.incremental_alter_configs([resource]))
    found = configs(admin, name)
    assert found["retention.ms"].value == "777"
    assert sorted(found["cleanup.policy"].value.split(",")) == ["compact", "delete"]
    assert found["retention.bytes"].value == "-1"


def test_describe_cluster(admin: AdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(CALL_SECONDS)
    assert found.cluster_id
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [bootstrap]
    assert found.controller.id == found.nodes[0].id
    assert found.authorized_operations


def test_describe_topics(admin: AdminClient, new_topic: NewTopicCall) -> None:
    name = new_topic(partitions=3)
    found = done(admin.describe_topics(TopicCollection([name]), include_authorized_operations=True))
    assert found.name == name
    assert [part.id for part in found.partitions] == [0, 1, 2]
    assert not found.is_internal
    assert found.authorized_operations
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        done(admin.describe_topics(TopicCollection(["no-such-topic"])))
