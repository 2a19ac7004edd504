"""librdkafka's AdminClient: every call of it that the broker core answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from clients.drivers import Sent
from clients.drivers.confluent_driver import ConfluentDriver
from harness.conditions import wait_until

NewTopicCall = Callable[..., str]
CALL_SECONDS = 60.0


def feature(name: str) -> pytest.MarkDecorator:
    return pytest.mark.compat(client="confluent", feature=name)


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def done(futures: dict[Any, Any]) -> Any:
    """The one result of a call about one thing."""
    (future,) = futures.values()
    return future.result(CALL_SECONDS)


def partitions_of(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions)


@feature("admin: create topic")
def test_create(admin: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    done(admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "777"})]))
    wait_until(lambda: partitions_of(admin, name) == 3, "three partitions")
    assert configs(admin, name)["retention.ms"].value == "777"
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        done(admin.create_topics([NewTopic(name, 3, 1)]))


@feature("admin: create topic, validate only")
def test_validate_only(admin: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    done(admin.create_topics([NewTopic(name, 3, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=CALL_SECONDS).topics
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        done(admin.create_topics([NewTopic(name, 3, 7)], validate_only=True))


@feature("admin: create topic, assignments")
def test_assignments(admin: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    broker = next(iter(admin.list_topics(timeout=CALL_SECONDS).brokers))
    done(admin.create_topics([NewTopic(name, 2, replica_assignment=[[broker], [broker]])]))
    wait_until(lambda: partitions_of(admin, name) == 2, "two partitions")


def test_bad_config(admin: AdminClient, new_name: Callable[[], str]) -> None:
    with pytest.raises(KafkaException, match=r"INVALID_CONFIG.*retention\.ms"):
        done(admin.create_topics([NewTopic(new_name(), 1, 1, config={"retention.ms": "soon"})]))


@feature("admin: delete topic")
def test_delete(admin: AdminClient, new_topic: NewTopicCall) -> None:
    name = new_topic()
    done(admin.delete_topics([name]))
    wait_until(lambda: name not in admin.list_topics(timeout=CALL_SECONDS).topics, "no topic")
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        done(admin.delete_topics([name]))


@feature("admin: create partitions")
def test_create_partitions(admin: AdminClient, new_topic: NewTopicCall) -> None:
    name = new_topic(partitions=2)
    done(admin.create_partitions([NewPartitions(name, 5)], validate_only=True))
    assert partitions_of(admin, name) == 2
    done(admin.create_partitions([NewPartitions(name, 5)]))
    wait_until(lambda: partitions_of(admin, name) == 5, "five partitions")
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        done(admin.create_partitions([NewPartitions(name, 3)]))


@feature("admin: delete records")
def test_delete_records(admin: AdminClient, new_topic: NewTopicCall, bootstrap: str) -> None:
    name = new_topic()
    client = ConfluentDriver(bootstrap)
    client.produce(name, [Sent(b"x")] * 10)
    result = done(admin.delete_records([TopicPartition(name, 0, 4)]))
    assert result.low_watermark == 4
    assert client.watermarks(name) == (4, 10)
    assert client.consume(name, 6)[0].offset == 4


def configs(admin: AdminClient, name: str, kind: ResourceType = ResourceType.TOPIC) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = done(admin.describe_configs([ConfigResource(kind, name)]))
    return found


@feature("admin: describe configs")
def test_describe_configs(admin: AdminClient, new_topic: NewTopicCall) -> None:
    found = configs(admin, new_topic(retention_bytes=1000))
    assert found["retention.bytes"].value == "1000"
    assert found["retention.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not found["retention.bytes"].is_default
    assert "log.retention.bytes" in found["retention.bytes"].synonyms
    assert found["segment.bytes"].is_default
    assert not found["segment.bytes"].is_sensitive
    assert not found["segment.bytes"].is_read_only


@feature("admin: describe broker configs")
def test_describe_broker_configs(admin: AdminClient) -> None:
    broker = str(next(iter(admin.list_topics(timeout=CALL_SECONDS).brokers)))
    found = configs(admin, broker, ResourceType.BROKER)
    assert found["num.partitions"].value == "1"
    assert found["node.id"].is_read_only


@feature("admin: alter configs, incremental")
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


@feature("admin: alter configs, full")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_full_alter(admin: AdminClient, new_topic: NewTopicCall) -> None:
    name = new_topic(retention_bytes=5)
    done(admin.alter_configs([ConfigResource(ResourceType.TOPIC, name, set_config={"retention.ms": "777"})]))
    found = configs(admin, name)
    assert (found["retention.ms"].value, found["retention.bytes"].value) == ("777", "-1")


@feature("admin: describe cluster")
def test_describe_cluster(admin: AdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(CALL_SECONDS)
    assert found.cluster_id
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [bootstrap]
    assert found.controller.id == found.nodes[0].id
    assert found.authorized_operations


@feature("admin: describe topics")
def test_describe_topics(admin: AdminClient, new_topic: NewTopicCall) -> None:
    name = new_topic(partitions=3)
    found = done(admin.describe_topics(TopicCollection([name]), include_authorized_operations=True))
    assert found.name == name
    assert [part.id for part in found.partitions] == [0, 1, 2]
    assert not found.is_internal
    assert found.authorized_operations
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        done(admin.describe_topics(TopicCollection(["no-such-topic"])))


@feature("admin: list offsets")
def test_list_offsets(admin: AdminClient, new_topic: NewTopicCall, bootstrap: str) -> None:
    name = new_topic()
    base_ms = 1_700_000_000_000
    sent = [Sent(b"x", timestamp_ms=base_ms + later_ms) for later_ms in (0, 500, 200)]
    ConfluentDriver(bootstrap).produce(name, sent)

    def ask(spec: OffsetSpec) -> Any:
        return done(
            admin.list_offsets({TopicPartition(name, 0): spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        )

    assert ask(OffsetSpec.earliest()).offset == 0
    assert ask(OffsetSpec.latest()).offset == 3
    assert (ask(OffsetSpec.max_timestamp()).offset, ask(OffsetSpec.max_timestamp()).timestamp) == (1, base_ms + 500)
    assert ask(OffsetSpec.for_timestamp(base_ms + 100)).offset == 1
