"""librdkafka through confluent-kafka: the newest API versions, enables features by what is advertised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from clients.drivers import NOT_KAFKAS, Committed, Received, Sent
from clients.drivers.confluent_admin import ConfluentAdmin
from harness.conditions import wait_until

CALL_SECONDS = 60.0
POLL_SECONDS = 0.1
PLACES = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
STRATEGIES = {
    "eager": {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 100},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 100},
    "consumer": {"group.protocol": "consumer"},
}


class ConfluentDriver:
    name = "confluent"
    codes_unknown: ClassVar[dict[int, int]] = {}

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @cached_property
    def admin(self) -> ConfluentAdmin:
        return ConfluentAdmin(self.bootstrap)

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
            "client.id": options.get("client_id", "confluent-driver"),
            "acks": options.get("acks", "all"),
            "compression.type": options.get("compression", "none"),
            "enable.idempotence": options.get("idempotent", False),
            "message.max.bytes": options.get("request_bytes_max", 1_000_000),
            "batch.size": options.get("batch_bytes", 1_000_000),
            "linger.ms": options.get("linger_ms", 5),
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
        }

    def throttle_ms(self, topic: str, messages: Sequence[Sent], client_id: str) -> float:
        told: list[float] = []
        settings = self._producer_settings({"client_id": client_id, "batch_bytes": 200_000})
        # librdkafka tells of throttling to a callback, which this binding calls with an event.
        producer = Producer({**settings, "throttle_cb": lambda event: told.append(event.throttle_time)})
        for sent in messages:
            producer.produce(topic, sent.value)
            producer.poll(0)
        if producer.flush(CALL_SECONDS):
            raise AssertionError("not every record was answered")
        wait_until(lambda: producer.poll(POLL_SECONDS) or told, "a throttle event", CALL_SECONDS)
        return max(told) * 1000

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        offset = PLACES[start] if isinstance(start, str) else start
        consumer = self._consumer({})
        found: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            wait_until(lambda: self._take(consumer, found, count), f"{count} records of {topic}-{partition}")
        finally:
            consumer.close()
        return found

    def _consumer(self, settings: Mapping[str, Any]) -> Consumer:
        # librdkafka insists on a group id; with assign() and no commits it stays unused.
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.wait.max.ms": 100,
                **settings,
            }
        )

    def _take(self, consumer: Consumer, found: list[Received], count: int) -> bool:
        for message in consumer.consume(count - len(found), timeout=0.5):
            if message.error():
                raise KafkaException(message.error())
            found.append(_received(message))
        return len(found) >= count

    def reader(self, topic: str, partitions: int = 1, *, reset: str = "earliest") -> ConfluentReader:
        consumer = self._consumer({"auto.offset.reset": reset})
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
        return ConfluentReader(consumer, topic)

    def member(self, group: str, topic: str, **options: Any) -> ConfluentReader:
        settings = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": options.get("auto_commit", False),
            "client.id": options.get("client_id", "confluent-driver"),
            "topic.metadata.refresh.interval.ms": 500,
            **STRATEGIES[options.get("strategy", "eager")],
        }
        if "instance" in options:
            settings["group.instance.id"] = options["instance"]
        made = ConfluentReader(self._consumer(settings), topic)
        # librdkafka takes what starts with ^ as a pattern.
        made.subscribe(f"^{topic}" if options.get("pattern") else topic)
        return made

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = self._consumer({})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=CALL_SECONDS)
            return low, high
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = self._consumer({})
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

    def error_code(self, error: BaseException) -> int:
        return error.args[0].code() if isinstance(error, KafkaException) else NOT_KAFKAS

    def close(self) -> None:
        """The admin client has no end of its own."""


class ConfluentReader:
    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.rebalances = 0
        self.revoked: set[int] = set()
        self._consumer = consumer
        self._topic = topic

    def subscribe(self, subscription: str) -> None:
        self._consumer.subscribe([subscription], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked |= {place.partition for place in partitions}

    def poll(self) -> list[Received]:
        found = []
        for message in self._consumer.consume(1000, timeout=POLL_SECONDS):
            error = message.error()
            if error is None:
                found.append(_received(message))
            elif not error.retriable() and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        return found

    def assigned(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def seek(self, partition: int, place: int | str) -> None:
        offset = PLACES[place] if isinstance(place, str) else place
        self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def position(self, partition: int) -> int:
        (found,) = self._consumer.position([TopicPartition(self._topic, partition)])
        return int(found.offset)

    def pause(self, partition: int) -> None:
        self._consumer.pause([TopicPartition(self._topic, partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([TopicPartition(self._topic, partition)])

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        wanted = [TopicPartition(self._topic, index, one.offset, one.metadata) for index, one in offsets.items()]
        for answer in self._consumer.commit(offsets=wanted, asynchronous=False):
            if answer.error is not None:
                raise KafkaException(answer.error)

    def committed(self, partition: int) -> Committed | None:
        (found,) = self._consumer.committed([TopicPartition(self._topic, partition)], timeout=CALL_SECONDS)
        return Committed(found.offset, found.metadata or "") if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.close()


def _received(message: Message) -> Received:
    kind, timestamp_ms = message.timestamp()
    return Received(
        message.offset(),
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        timestamp_ms,
        kind == TIMESTAMP_LOG_APPEND_TIME,
        message.topic(),
        message.partition(),
    )


DRIVER = ConfluentDriver
