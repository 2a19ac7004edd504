"""Owns preparing and checking topics on a broker: create, delete, count what arrived. Any Kafka broker."""

from __future__ import annotations

import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

ADMIN_TIMEOUT_S = 180.0
RETRY_S = 0.02


class Topics:
    """An admin client on one broker."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "socket.timeout.ms": int(ADMIN_TIMEOUT_S * 1000)}
        self._admin = AdminClient(settings)

    def create(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """Create a topic and return when every partition has a leader that takes requests."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
        options = {"operation_timeout": ADMIN_TIMEOUT_S, "request_timeout": ADMIN_TIMEOUT_S}
        self._admin.create_topics([topic], **options)[name].result()
        deadline = time.monotonic() + ADMIN_TIMEOUT_S
        while not self._is_led(name, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} has no leaders after {ADMIN_TIMEOUT_S:.0f} s")
            time.sleep(RETRY_S)

    def _is_led(self, name: str, partitions: int) -> bool:
        found = self._admin.list_topics(name, timeout=ADMIN_TIMEOUT_S).topics[name]
        led = [partition for partition in found.partitions.values() if partition.leader >= 0]
        if found.error or len(led) != partitions:
            return False
        try:
            self.record_count(name, partitions)
        except KafkaException:
            return False
        return True

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name], operation_timeout=ADMIN_TIMEOUT_S)[name].result()

    def record_count(self, name: str, partitions: int) -> int:
        """Records in the topic by its end offsets (nothing here ever deletes from the front)."""
        wanted = {TopicPartition(name, index): OffsetSpec.latest() for index in range(partitions)}
        futures = self._admin.list_offsets(wanted, request_timeout=ADMIN_TIMEOUT_S)
        return sum(future.result().offset for future in futures.values())
