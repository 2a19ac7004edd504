"""Creating topics for tests and reading a partition back, through librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.conditions import wait_until
from harness.raw import RawConnection

REQUEST_SECONDS = 60.0
READ_SECONDS = 300.0


def create_topic(bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
    admin.create_topics([new], request_timeout=REQUEST_SECONDS)[name].result(REQUEST_SECONDS)
    # Apache Kafka answers before its metadata cache knows the topic; Runnel's create is complete when it answers.
    wait_until(lambda: _is_visible(admin, name, partitions), f"topic {name} in the metadata")
    with RawConnection(bootstrap) as connection:
        wait_until(lambda: _is_led(connection, name, partitions), f"leaders of {name}")


def _is_visible(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=REQUEST_SECONDS).topics[name]
    return found.error is None and len(found.partitions) == partitions


def _is_led(connection: RawConnection, name: str, partitions: int) -> bool:
    asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    reply = connection.request(2, 5, {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]})
    return all(partition.error_code == 0 for partition in reply.topics[0].partitions)


def read_all(
    bootstrap: str,
    topic: str,
    partition: int = 0,
    *,
    keep: Callable[[Message], Any] = lambda message: message,
) -> list[Any]:
    """Every record of the partition up to its end, in order; `keep` says what to remember of each."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    found: list[Any] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        wait_until(lambda: _drain(consumer, found, keep), f"the end of {topic}-{partition}", READ_SECONDS)
    finally:
        consumer.close()
    return found


def _drain(consumer: Consumer, found: list[Any], keep: Callable[[Message], Any]) -> bool:
    for message in consumer.consume(10_000, timeout=1.0):
        error = message.error()
        if error is None:
            found.append(keep(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            return True
        else:
            raise AssertionError(f"fetch failed: {error}")
    return False
