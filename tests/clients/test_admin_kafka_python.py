"""kafka-python's KafkaAdminClient: every call of it that the broker core answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec

from clients.drivers import Sent
from clients.drivers.kafka_python_driver import KafkaPythonDriver
from harness.conditions import wait_until

NewTopic = Callable[..., str]
BASE_MS = 1_700_000_000_000


def feature(name: str) -> pytest.MarkDecorator:
    return pytest.mark.compat(client="kafka-python", feature=name)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@feature("admin: create topic")
def test_create(admin: KafkaAdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    admin.create_topics({name: {"num_partitions": 3, "configs": {"retention.ms": "777"}}}, wait_for_metadata=True)
    assert len(admin.describe_topics([name])[0]["partitions"]) == 3
    assert name in admin.list_topics()
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([name])


@feature("admin: create topic, validate only")
def test_validate_only(admin: KafkaAdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    admin.create_topics([name], validate_only=True)
    assert name not in admin.list_topics()


@feature("admin: create topic, assignments")
def test_assignments(admin: KafkaAdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    broker = admin.describe_cluster()["brokers"][0]["broker_id"]
    admin.create_topics({name: {"assignments": {0: [broker], 1: [broker]}}}, wait_for_metadata=True)
    assert len(admin.describe_topics([name])[0]["partitions"]) == 2


@feature("admin: delete topic")
def test_delete(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic()
    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics(), "no topic")
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name])


@feature("admin: delete topic by id")
def test_delete_by_id(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic()
    topic_id = admin.describe_topics([name])[0]["topic_id"]
    admin.delete_topics([uuid.UUID(topic_id)])
    wait_until(lambda: name not in admin.list_topics(), "no topic")


@feature("admin: create partitions")
def test_create_partitions(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    admin.create_partitions({name: 5}, validate_only=True)
    admin.create_partitions({name: 5})
    wait_until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5, "five partitions")
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_partitions({name: 3})


@feature("admin: delete records")
def test_delete_records(admin: KafkaAdminClient, new_topic: NewTopic, bootstrap: str) -> None:
    name = new_topic()
    client = KafkaPythonDriver(bootstrap)
    client.produce(name, [Sent(b"x")] * 10)
    place = TopicPartition(name, 0)
    assert admin.delete_records({place: 4})[place]["low_watermark"] == 4
    assert client.watermarks(name) == (4, 10)


@feature("admin: describe configs")
def test_describe_configs(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(retention_bytes=1000)
    asked = [ConfigResource("TOPIC", name)]
    changed = admin.describe_configs(asked)["topic"][name]
    assert {key: changed[key]["value"] for key in changed} == {"retention.bytes": "1000"}
    every = admin.describe_configs(asked, include_synonyms=True, config_filter="all")["topic"][name]
    assert every["segment.bytes"]["value"] == "1073741824"
    assert len(every["retention.bytes"]["synonyms"]) == 2


@feature("admin: describe broker configs")
def test_describe_broker_configs(admin: KafkaAdminClient) -> None:
    broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    found = admin.describe_configs([ConfigResource("BROKER", broker)], config_filter="all")["broker"][broker]
    assert found["num.partitions"]["value"] == "1"


@feature("admin: alter configs, incremental")
def test_incremental_alter(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(retention_bytes=5)
    answer = admin.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "777"})])
    assert answer["topic"][name] == "OK"
    changed = admin.describe_configs([ConfigResource("TOPIC", name)])["topic"][name]
    assert {key: changed[key]["value"] for key in changed} == {"retention.bytes": "5", "retention.ms": "777"}
    admin.reset_configs([ConfigResource("TOPIC", name, ["retention.ms"])])
    assert set(admin.describe_configs([ConfigResource("TOPIC", name)])["topic"][name]) == {"retention.bytes"}


@feature("admin: alter configs, full")
def test_full_alter(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(retention_bytes=5)
    answer = admin.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "777"})], incremental=False)
    assert answer["topic"][name] == "OK"
    changed = admin.describe_configs([ConfigResource("TOPIC", name)])["topic"][name]
    assert changed["retention.ms"]["value"] == "777"


@feature("admin: describe cluster")
def test_describe_cluster(admin: KafkaAdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster()
    assert [f"{broker['host']}:{broker['port']}" for broker in found["brokers"]] == [bootstrap]
    assert found["cluster_id"]


@feature("admin: log dirs")
def test_log_dirs(admin: KafkaAdminClient, new_topic: NewTopic, bootstrap: str) -> None:
    name = new_topic()
    KafkaPythonDriver(bootstrap).produce(name, [Sent(b"x" * 1000)])
    found = admin.describe_log_dirs([name])[0]["log_dirs"][0]
    assert found["error_code"] == 0
    assert found["topics"][0]["partitions"][0]["partition_size"] > 1000


@feature("admin: list offsets")
def test_list_offsets(admin: KafkaAdminClient, new_topic: NewTopic, bootstrap: str) -> None:
    name = new_topic()
    sent = [Sent(b"x", timestamp_ms=BASE_MS + later_ms) for later_ms in (0, 500, 200)]
    KafkaPythonDriver(bootstrap).produce(name, sent)
    place = TopicPartition(name, 0)

    def ask(spec: OffsetSpec | int) -> int:
        return int(admin.list_partition_offsets({place: spec})[place].offset)

    assert ask(OffsetSpec.EARLIEST) == 0
    assert ask(OffsetSpec.LATEST) == 3
    assert ask(OffsetSpec.MAX_TIMESTAMP) == 1
    assert ask(BASE_MS + 100) == 1


@feature("admin: describe topics")
def test_describe_topic_partitions(admin: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=3)
    found = admin.describe_topic_partitions([name], response_partition_limit=2)
    assert [part["partition_index"] for part in found["topics"][0]["partitions"]] == [0, 1]
    assert found["next_cursor"] == {"topic_name": name, "partition_index": 2}


def test_the_inferred_version_is_recent(admin: KafkaAdminClient) -> None:
    """kafka-python guesses the broker's version from the ranges; an incoherent set makes it guess low."""
    assert admin._manager.broker_version >= (4, 0)
