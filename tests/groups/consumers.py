"""librdkafka consumers for these tests: settings, polling until a condition, and what was produced for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from harness.conditions import wait_until

POLL_SECONDS = 0.05


def produce(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    """`count` records to each partition, numbered."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for number in range(count):
        for partition in range(partitions):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(60) == 0


@contextmanager
def consumer(bootstrap: str, group: str, **settings: Any) -> Iterator[Consumer]:
    values = {key.replace("_", "."): value for key, value in settings.items()}
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 10_000,
            **values,
        }
    )
    try:
        yield made
    finally:
        made.close()


class Watched:
    """A subscribed consumer and what it was told and given."""

    def __init__(self, member: Consumer, *topics: str) -> None:
        self.member = member
        self.rebalances = 0
        self.revoked: list[int] = []
        self.values: list[tuple[int, int]] = []
        member.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += [partition.partition for partition in partitions]

    def poll(self) -> None:
        message = self.member.poll(POLL_SECONDS)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.values.append((message.partition(), message.offset()))
        elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
            raise AssertionError(str(error))

    @property
    def partitions(self) -> list[int]:
        return sorted(partition.partition for partition in self.member.assignment())


def poll_until(check: Callable[[], bool], what: str, *watched: Watched) -> None:
    def step() -> bool:
        for one in watched:
            one.poll()
        return check()

    wait_until(step, what)
