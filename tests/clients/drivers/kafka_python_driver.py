"""kafka-python 3: threads, infers the broker's version from the advertised ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from clients.drivers import Received, Sent, Unsupported
from harness.conditions import wait_until

CALL_SECONDS = 60.0


class KafkaPythonDriver:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        if any(value is None for sent in messages for _, value in sent.headers):
            raise Unsupported("kafka-python refuses null header values before they reach the broker")
        compression = options.get("compression", "none")
        producer = KafkaProducer(
            bootstrap_servers=options.get("bootstrap", self.bootstrap),
            acks=options.get("acks", "all"),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=options.get("idempotent", False),
            max_request_size=options.get("request_bytes_max", 1_048_576),
            batch_size=options.get("batch_bytes", 16_384),
            linger_ms=5,
            retry_backoff_ms=20,
            reconnect_backoff_ms=10,
            delivery_timeout_ms=60_000,
        )
        try:
            futures = [self._send(producer, topic, sent) for sent in messages]
            producer.flush(CALL_SECONDS)
            offsets = [future.get(CALL_SECONDS).offset for future in futures]
        finally:
            producer.close(CALL_SECONDS)
        return offsets if options.get("acks") != 0 else []

    def _send(self, producer: KafkaProducer, topic: str, sent: Sent) -> Any:
        return producer.send(
            topic,
            value=sent.value,
            key=sent.key,
            partition=sent.partition,
            timestamp_ms=sent.timestamp_ms,
            headers=list(sent.headers) or None,
        )

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=8 << 20,
            check_crcs=True,
        )

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        place = TopicPartition(topic, partition)
        found: list[Received] = []
        consumer = self._consumer()
        try:
            consumer.assign([place])
            if start == "earliest":
                consumer.seek_to_beginning(place)
            elif start == "latest":
                consumer.seek_to_end(place)
            else:
                consumer.seek(place, start)
            wait_until(lambda: self._take(consumer, found, count), f"{count} records of {topic}-{partition}")
        finally:
            consumer.close()
        return found

    def _take(self, consumer: KafkaConsumer, found: list[Received], count: int) -> bool:
        for records in consumer.poll(500, max_records=count - len(found)).values():
            found.extend(_received(record) for record in records)
        return len(found) >= count

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)
        consumer = self._consumer()
        try:
            found = consumer.offsets_for_times({place: timestamp_ms})[place]
            return None if found is None else int(found.offset)
        finally:
            consumer.close()

    def partition_count(self, topic: str) -> int:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        try:
            return len(producer.partitions_for(topic))
        finally:
            producer.close(CALL_SECONDS)


def _received(record: Any) -> Received:
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type == 1,
    )


DRIVER = KafkaPythonDriver
