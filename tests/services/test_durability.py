"""What an acknowledgement promises when the disk does not keep its promises."""

from __future__ import annotations

import errno

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from runnel import Broker
from runnel.testing.faults import FaultyFiles


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def deliver(broker: Broker, topic: str, acks: str, value: str = "x") -> KafkaError | None:
    """What one record's delivery report says; the client must not retry for it."""
    outcomes: list[KafkaError | None] = []

    def report(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "acks": acks,
            "message.send.max.retries": 0,
            "linger.ms": 0,
        }
    )
    producer.produce(topic, value, on_delivery=report)
    assert producer.flush(30) == 0
    return outcomes[0]


def test_a_failed_fsync_is_never_acknowledged_and_takes_the_log_offline(files: FaultyFiles) -> None:
    with Broker(files=files) as broker:
        broker.create_topic("sick")
        broker.create_topic("well")
        assert deliver(broker, "sick", "all") is None
        files.fail("sync", error=errno.EIO, path_contains="sick-0/000")
        for acks in ("all", "all", "1"):  # once for the failing sync, then because the log stays offline
            error = deliver(broker, "sick", acks)
            assert error is not None
            assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        assert deliver(broker, "well", "all") is None


def test_acks_1_does_not_wait_for_the_disk(files: FaultyFiles) -> None:
    with Broker(files=files) as broker:
        broker.create_topic("t")
        assert deliver(broker, "t", "1") is None  # opens the log, which syncs its new files
        files.fail("sync", error=errno.EIO, path_contains="t-0/000")
        assert deliver(broker, "t", "1") is None


@pytest.mark.parametrize("configs", [{"acks.all.flush": "false"}, {}])
def test_the_topic_decides_whether_acks_all_waits_for_the_disk(files: FaultyFiles, configs: dict[str, str]) -> None:
    with Broker(files=files) as broker:
        broker.create_topic("t", configs=configs)
        assert deliver(broker, "t", "1") is None
        files.fail("sync", error=errno.EIO, path_contains="t-0/000")
        assert (deliver(broker, "t", "all") is None) is bool(configs)


def test_flush_messages_makes_acks_1_wait_for_the_disk(files: FaultyFiles) -> None:
    with Broker(files=files) as broker:
        broker.create_topic("t", configs={"flush.messages": "2"})
        assert deliver(broker, "t", "1") is None
        files.fail("sync", error=errno.EIO, path_contains="t-0/000")
        error = deliver(broker, "t", "1")
        assert error is not None
        assert error.code() == KafkaError.KAFKA_STORAGE_ERROR


def test_a_full_disk_is_refused_and_recovers(files: FaultyFiles) -> None:
    with Broker(files=files) as broker:
        broker.create_topic("t")
        assert deliver(broker, "t", "all") is None
        files.fail("write", error=errno.ENOSPC, path_contains="t-0/000", times=1)
        error = deliver(broker, "t", "all")
        assert error is not None
        assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        files.heal()
        assert deliver(broker, "t", "all") is None


def test_a_metadata_log_that_cannot_be_synced_refuses_new_topics(files: FaultyFiles) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    with Broker(files=files) as broker:
        files.fail("sync", error=errno.EIO, path_contains="__cluster_metadata")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        with pytest.raises(KafkaException) as raised:
            admin.create_topics([NewTopic("t", 1)], request_timeout=30)["t"].result(30)
        assert raised.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        assert broker.topics() == []
