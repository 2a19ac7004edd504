"""What the Python admin clients can do about users, groups, leaders, replicas, features and the quorum."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka import admin as confluent
from kafka import TopicPartition as KafkaPythonPartition
from kafka import errors as kafka_errors
from kafka.admin import (
    ConfigResource,
    KafkaAdminClient,
    ScramMechanism,
    UpdateFeatureType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from clients.drivers import Sent
from clients.drivers.confluent_driver import ConfluentDriver
from harness.conditions import wait_until

NewTopic = Callable[..., str]
CALL_SECONDS = 60.0


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex[:8]}"


# ------------------------------------------------------------------------------------------------ confluent


@pytest.fixture
def librdkafka(bootstrap: str) -> confluent.AdminClient:
    return confluent.AdminClient({"bootstrap.servers": bootstrap})


def done(futures: dict[Any, Any]) -> Any:
    """The one result of a call about one thing."""
    (future,) = futures.values()
    return future.result(CALL_SECONDS)


def test_scram_with_confluent(librdkafka: confluent.AdminClient, user: str) -> None:
    mechanism = confluent.ScramMechanism.SCRAM_SHA_512
    info = confluent.ScramCredentialInfo(mechanism, 8192)
    upsertion = confluent.UserScramCredentialUpsertion(user, info, b"the password")
    done(librdkafka.alter_user_scram_credentials([upsertion]))
    described = wait_until(lambda: found_user(librdkafka, user), "the user is described")
    assert [(one.mechanism, one.iterations) for one in described.scram_credential_infos] == [(mechanism, 8192)]
    done(librdkafka.alter_user_scram_credentials([confluent.UserScramCredentialDeletion(user, mechanism)]))
    wait_until(lambda: found_user(librdkafka, user) is None, "the user is gone")


def found_user(client: confluent.AdminClient, user: str) -> Any:
    """All users are asked for: in librdkafka a user that is not there is an exception."""
    return client.describe_user_scram_credentials().result(CALL_SECONDS).get(user)


def test_elections_with_confluent(librdkafka: confluent.AdminClient, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    asked = [TopicPartition(name, 0), TopicPartition(name, 1), TopicPartition("no-such-topic", 0)]
    results = librdkafka.elect_leaders(ElectionType.PREFERRED, asked).result(CALL_SECONDS)
    assert {(found.topic, found.partition): error.code() for found, error in results.items()} == {
        (name, 0): KafkaError.ELECTION_NOT_NEEDED,
        (name, 1): KafkaError.ELECTION_NOT_NEEDED,
        ("no-such-topic", 0): KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_group_configs_with_confluent(librdkafka: confluent.AdminClient, user: str) -> None:
    key = "consumer.session.timeout.ms"
    entry = confluent.ConfigEntry(key, "50000", incremental_operation=confluent.AlterConfigOpType.SET)
    resource = confluent.ConfigResource(confluent.ResourceType.GROUP, user, incremental_configs=[entry])
    done(librdkafka.incremental_alter_configs([resource]))
    asked = confluent.ConfigResource(confluent.ResourceType.GROUP, user)
    wait_until(lambda: done(librdkafka.describe_configs([asked]))[key].value == "50000", "the group's config")


# ------------------------------------------------------------------------------------------------ kafka-python


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_scram_with_kafka_python(kafka_python: KafkaAdminClient, user: str) -> None:
    upsertion = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, "the password", iterations=4096)
    assert kafka_python.alter_user_scram_credentials([upsertion]) == {user: None}

    def described() -> list[Any]:
        found = kafka_python.describe_user_scram_credentials([user])[user]
        return [(info["mechanism"], info["iterations"]) for info in found["credential_infos"]]

    wait_until(lambda: described() == [(ScramMechanism.SCRAM_SHA_256, 4096)], "the user is described")
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    assert kafka_python.alter_user_scram_credentials([deletion]) == {user: None}
    wait_until(lambda: described() == [], "the user is gone")
    assert kafka_python.alter_user_scram_credentials([deletion])[user] is not None


def test_elections_with_kafka_python(kafka_python: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic()
    (topic,) = kafka_python.elect_leaders(0, {name: [0]}).replica_election_results
    assert [row.error_code for row in topic.partition_result] == [kafka_errors.ElectionNotNeededError.errno]
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        kafka_python.elect_leaders(0, {"no-such-topic": [0]})


def test_reassignments_with_kafka_python(kafka_python: KafkaAdminClient, new_topic: NewTopic) -> None:
    partition = KafkaPythonPartition(new_topic(), 0)
    broker = kafka_python.describe_cluster()["brokers"][0]["broker_id"]
    for replicas, error in (
        ([broker], None),
        ([broker + 7], kafka_errors.InvalidReplicationAssignmentError),
        (None, kafka_errors.NoReassignmentInProgressError),
    ):
        assert kafka_python.alter_partition_reassignments({partition: replicas}) == {partition: error}
    assert kafka_python.list_partition_reassignments() == {}


def test_features_with_kafka_python(kafka_python: KafkaAdminClient) -> None:
    groups = kafka_python.describe_features()["group.version"]
    assert (groups["supported"], groups["finalized"]) == ((0, 1), (1, 1))
    kafka_python.update_features({"group.version": (UpdateFeatureType.SAFE_DOWNGRADE, 0)}, validate_only=True)
    with pytest.raises(kafka_errors.InvalidUpdateVersionError):
        kafka_python.update_features({"group.version": 2})


def test_quorum_with_kafka_python(kafka_python: KafkaAdminClient) -> None:
    partition = kafka_python.describe_metadata_quorum()["topics"][0]["partitions"][0]
    assert partition["leader_id"] == partition["current_voters"][0]["replica_id"]
    assert 0 < partition["high_watermark"] <= partition["current_voters"][0]["log_end_offset"]


def test_producers_with_kafka_python(kafka_python: KafkaAdminClient, new_topic: NewTopic, bootstrap: str) -> None:
    name = new_topic()
    ConfluentDriver(bootstrap).produce(name, [Sent(value=b"a"), Sent(value=b"b")], idempotent=True)
    partition = KafkaPythonPartition(name, 0)
    (producer,) = kafka_python.describe_producers([partition])[partition].active_producers
    assert (producer.last_sequence, producer.producer_epoch) == (1, 0)


def test_config_resources_with_kafka_python(kafka_python: KafkaAdminClient, new_topic: NewTopic, user: str) -> None:
    name = new_topic()
    group = ConfigResource("GROUP", user, configs={"consumer.session.timeout.ms": "50000"})
    kafka_python.alter_configs([group])
    wait_until(lambda: user in str(kafka_python.list_config_resources(["GROUP"])), "the group is listed")
    assert name in str(kafka_python.list_config_resources())
    kafka_python.reset_configs([ConfigResource("GROUP", user, configs=["consumer.session.timeout.ms"])])
    wait_until(lambda: user not in str(kafka_python.list_config_resources(["GROUP"])), "the group is not listed")


def test_log_dirs_with_kafka_python(kafka_python: KafkaAdminClient, new_topic: NewTopic) -> None:
    name = new_topic()
    broker = kafka_python.describe_cluster()["brokers"][0]["broker_id"]
    moved = kafka_python.alter_replica_log_dirs({(name, 0, broker): "/no/such/folder"})
    assert "LogDirNotFoundError" in str(moved)
