"""kafka-python 3: threads, infers the broker's version from the advertised ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import RebalanceInProgressError

from clients.drivers import NOT_KAFKAS, Committed, Received, Sent
from clients.drivers.kafka_python_admin import KafkaPythonAdmin
from harness.conditions import wait_until

CALL_SECONDS = 60.0
POLL_MS = 300
GROUP_POLL_MS = 1000  # a poll that ends half-way through a rebalance makes this client start over
STRATEGIES = {"eager": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}


class KafkaPythonDriver:
    name = "kafka-python"
    codes_unknown: ClassVar[dict[int, int]] = {}

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @cached_property
    def admin(self) -> KafkaPythonAdmin:
        return KafkaPythonAdmin(self.bootstrap)

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        producer = self._producer(options)
        try:
            futures = [self._send(producer, topic, sent) for sent in messages]
            producer.flush(CALL_SECONDS)
            offsets = [future.get(CALL_SECONDS).offset for future in futures]
        finally:
            producer.close(CALL_SECONDS)
        return offsets if options.get("acks") != 0 else []

    def _producer(self, options: dict[str, Any]) -> KafkaProducer:
        compression = options.get("compression", "none")
        return KafkaProducer(
            bootstrap_servers=options.get("bootstrap", self.bootstrap),
            client_id=options.get("client_id", "kafka-python-driver"),
            acks=options.get("acks", "all"),
            compression_type=None if compression == "none" else compression,
            enable_idempotence=options.get("idempotent", False),
            max_request_size=options.get("request_bytes_max", 1_048_576),
            batch_size=options.get("batch_bytes", 16_384),
            linger_ms=options.get("linger_ms", 5),
            retry_backoff_ms=20,
            reconnect_backoff_ms=10,
            delivery_timeout_ms=60_000,
        )

    def _send(self, producer: KafkaProducer, topic: str, sent: Sent) -> Any:
        return producer.send(
            topic,
            value=sent.value,
            key=sent.key,
            partition=sent.partition,
            timestamp_ms=sent.timestamp_ms,
            headers=list(sent.headers) or None,
        )

    def throttle_ms(self, topic: str, messages: Sequence[Sent], client_id: str) -> float:
        producer = self._producer({"client_id": client_id, "batch_bytes": 200_000})
        try:
            for sent in messages:
                self._send(producer, topic, sent)
            producer.flush(CALL_SECONDS)
            seen = [group["throttle-time-max"] for group in producer.metrics().values() if "throttle-time-max" in group]
            return float(max(seen))
        finally:
            producer.close(CALL_SECONDS)

    def _reader(self, topic: str, settings: Mapping[str, Any]) -> KafkaPythonReader:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=8 << 20,
            check_crcs=True,
            **settings,
        )
        return KafkaPythonReader(consumer, topic)

    def reader(self, topic: str, partitions: int = 1, *, reset: str = "earliest") -> KafkaPythonReader:
        made = self._reader(topic, {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": reset})
        made.assign(range(partitions))
        return made

    def member(self, group: str, topic: str, **options: Any) -> KafkaPythonReader:
        settings = {
            "group_id": group,
            "group_instance_id": options.get("instance"),
            "client_id": options.get("client_id", "kafka-python-driver"),
            "auto_offset_reset": "earliest",
            "enable_auto_commit": options.get("auto_commit", False),
            "heartbeat_interval_ms": 100,
            "partition_assignment_strategy": [STRATEGIES[options.get("strategy", "eager")]],
        }
        made = self._reader(topic, settings)
        made.subscribe()
        return made

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        made = self._reader(topic, {"group_id": None, "enable_auto_commit": False, "auto_offset_reset": "none"})
        found: list[Received] = []
        try:
            made.assign([partition])
            made.seek(partition, start)
            wait_until(lambda: made.take(found, count), f"{count} records of {topic}-{partition}")
        finally:
            made.close()
        return found

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None)
        try:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None)
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

    def error_code(self, error: BaseException) -> int:
        return int(getattr(error, "errno", NOT_KAFKAS))

    def close(self) -> None:
        if "admin" in self.__dict__:
            self.admin.close()


class KafkaPythonReader(ConsumerRebalanceListener):
    def __init__(self, consumer: KafkaConsumer, topic: str) -> None:
        self._poll_ms = POLL_MS
        self.rebalances = 0
        self.revoked: set[int] = set()
        self._early: list[Received] = []  # came while a commit waited for a rebalance
        self._consumer = consumer
        self._topic = topic

    def assign(self, partitions: Sequence[int]) -> None:
        self._consumer.assign([self._place(index) for index in partitions])

    def subscribe(self) -> None:
        # Without this it may join before it knows the topic, assign nothing, and not notice for a long time.
        self._consumer.partitions_for_topic(self._topic)
        self._consumer.subscribe([self._topic], listener=self)
        self._poll_ms = GROUP_POLL_MS

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.revoked |= {place.partition for place in revoked}

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.rebalances += 1

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._topic, partition)

    def poll(self) -> list[Received]:
        found, self._early = self._early, []
        for records in self._consumer.poll(self._poll_ms).values():
            found += [_received(record) for record in records]
        return found

    def take(self, found: list[Received], count: int) -> bool:
        for records in self._consumer.poll(POLL_MS, max_records=count - len(found)).values():
            found.extend(_received(record) for record in records)
        return len(found) >= count

    def assigned(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def seek(self, partition: int, place: int | str) -> None:
        if place == "earliest":
            self._consumer.seek_to_beginning(self._place(partition))
        elif place == "latest":
            self._consumer.seek_to_end(self._place(partition))
        else:
            self._consumer.seek(self._place(partition), place)

    def position(self, partition: int) -> int:
        return int(self._consumer.position(self._place(partition)))

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._place(partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._place(partition))

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        wanted = {self._place(index): OffsetAndMetadata(one.offset, one.metadata, -1) for index, one in offsets.items()}
        wait_until(lambda: self._try_to_commit(wanted), "a commit outside of rebalances")

    def _try_to_commit(self, wanted: dict[TopicPartition, OffsetAndMetadata]) -> bool:
        """The client refuses while it knows of a rebalance, and says to poll and to try again."""
        try:
            self._consumer.commit(wanted)
        except RebalanceInProgressError:
            self._early = self.poll()
            return False
        return True

    def committed(self, partition: int) -> Committed | None:
        found = self._consumer.committed(self._place(partition), metadata=True)
        return None if found is None else Committed(found.offset, found.metadata)

    def close(self) -> None:
        self._consumer.close()


def _received(record: Any) -> Received:
    return Received(
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type == 1,
        record.topic,
        record.partition,
    )


DRIVER = KafkaPythonDriver
