"""confluent-kafka, that is librdkafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from clients.drivers import Received, Sent
from harness.conditions import wait_until

CALL_SECONDS = 60.0
PLACES = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}


class ConfluentDriver:
    name = "confluent"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        producer = Producer(self._producer_settings(options))
        delivered: dict[int, int] = {}
        failures: list[Any] = []
        for index, sent in enumerate(messages):
            self._send(producer, topic, index, sent, delivered, failures)
        remaining = producer.flush(CALL_SECONDS)
        if failures:
            raise KafkaException(failures[0])
        if remaining:
            raise AssertionError(f"{remaining} records were never answered")
        return [delivered[index] for index in range(len(messages))]

    def _send(
        self,
        producer: Producer,
        topic: str,
        index: int,
        sent: Sent,
        delivered: dict[int, int],
        failures: list[Any],
    ) -> None:
        def on_delivery(error: Any, message: Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                delivered[index] = message.offset()

        extra = {"timestamp": sent.timestamp_ms} if sent.timestamp_ms is not None else {}
        producer.produce(
            topic,
            value=sent.value,
            key=sent.key,
            partition=sent.partition,
            headers=list(sent.headers) or None,
            on_delivery=on_delivery,
            **extra,
        )
        producer.poll(0)

    def _producer_settings(self, options: dict[str, Any]) -> dict[str, Any]:
        return {
            "bootstrap.servers": options.get("bootstrap", self.bootstrap),
            "acks": options.get("acks", "all"),
            "compression.type": options.get("compression", "none"),
            "enable.idempotence": options.get("idempotent", False),
            "message.max.bytes": options.get("request_bytes_max", 1_000_000),
            "batch.size": options.get("batch_bytes", 1_000_000),
            "linger.ms": 5,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
        }

    def _consumer(self) -> Consumer:
        # librdkafka insists on a group id; with assign() and no commits it stays unused.
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.wait.max.ms": 100,
            }
        )

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        offset = PLACES[start] if isinstance(start, str) else start
        consumer = self._consumer()
        found: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            wait_until(lambda: self._take(consumer, found, count), f"{count} records of {topic}-{partition}")
        finally:
            consumer.close()
        return found

    def _take(self, consumer: Consumer, found: list[Received], count: int) -> bool:
        for message in consumer.consume(count - len(found), timeout=0.5):
            if message.error():
                raise KafkaException(message.error())
            found.append(_received(message))
        return len(found) >= count

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=CALL_SECONDS)
            return low, high
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = self._consumer()
        try:
            asked = [TopicPartition(topic, partition, timestamp_ms)]
            found = consumer.offsets_for_times(asked, timeout=CALL_SECONDS)[0]
            if found.error:
                raise KafkaException(found.error)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()

    def partition_count(self, topic: str) -> int:
        producer = Producer({"bootstrap.servers": self.bootstrap, "allow.auto.create.topics": True})
        return len(producer.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions)


def _received(message: Message) -> Received:
    kind, timestamp_ms = message.timestamp()
    return Received(
        message.offset(),
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        timestamp_ms,
        kind == TIMESTAMP_LOG_APPEND_TIME,
    )


DRIVER = ConfluentDriver
