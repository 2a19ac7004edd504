"""Producers that keep a ledger of what they sent and what was acknowledged, and the judge of what the broker kept.

In: a broker's address and a topic. Out: a Verdict with every acknowledged record looked up at its offset.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message, Producer

from harness.conditions import wait_until
from harness.raw import RawConnection
from harness.topics import read_all

PADDING = b"." * 2000
IN_FLIGHT_MAX = 60
ROUND_RECORDS_MAX = 600


@dataclass(slots=True)
class Ledger:
    """One producer on one partition: what it sent, and at which offsets the broker said it is."""

    topic: str
    partition: int
    name: str
    idempotent: bool
    sent: int = 0
    acked: dict[int, int] = field(default_factory=dict)  # number -> offset
    failed: list[str] = field(default_factory=list)


class LoadProducer:
    """A librdkafka producer in a thread of its own, sending numbered records until it is told to stop."""

    def __init__(self, bootstrap: str, ledger: Ledger, *, acks: str) -> None:
        self.ledger = ledger
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "enable.idempotence": ledger.idempotent,
            "message.timeout.ms": 300_000,  # an outage is never a reason to give a record up
            "retries": 1_000_000,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "linger.ms": 2,
            "batch.num.messages": 20,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }
        if not ledger.idempotent:
            settings["max.in.flight.requests.per.connection"] = 1  # or retries would reorder, by Kafka's own rules
        self._producer = Producer(settings)
        self.allowed = 0  # how many records may be sent; raised by `allow`
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=ledger.name, daemon=True)

    def start(self) -> None:
        self.allow()
        self._thread.start()

    def allow(self, more: int = ROUND_RECORDS_MAX) -> None:
        """One more round. Without a bound the fast producers would fill the disk while the slow ones reconnect."""
        self.allowed = self.ledger.sent + more

    def _run(self) -> None:
        while not self._stop.is_set():
            while len(self._producer) < IN_FLIGHT_MAX and self.ledger.sent < self.allowed:
                self._send()
            self._producer.poll(0.01)

    def _send(self) -> None:
        ledger = self.ledger
        number = ledger.sent
        ledger.sent += 1

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                ledger.failed.append(f"{number}: {error}")
            else:
                ledger.acked[number] = message.offset()

        value = b"%s:%d:" % (ledger.name.encode(), number) + PADDING
        self._producer.produce(ledger.topic, value, partition=ledger.partition, on_delivery=delivered)

    def finish(self, deadline_seconds: float = 120.0) -> None:
        """Stop sending and wait until everything sent has its answer."""
        self._stop.set()
        self._thread.join(deadline_seconds)
        wait_until(lambda: self._producer.flush(1.0) == 0, f"answers for {self.ledger.name}", deadline_seconds)


@dataclass(slots=True)
class Verdict:
    """What the log holds against what was promised."""

    acked: int = 0
    lost: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def is_good(self) -> bool:
        return not (self.lost or self.moved or self.duplicates or self.reordered or self.gaps or self.failed)

    def __str__(self) -> str:
        lists = ("lost", "moved", "duplicates", "reordered", "gaps", "failed")
        shown = {name: getattr(self, name) for name in lists}
        counts = ", ".join(f"{len(found)} {name}" for name, found in shown.items())
        firsts = "; ".join(f"{name}: {found[:3]}" for name, found in shown.items() if found)
        return f"{self.acked} acked, {counts}{'; ' if firsts else ''}{firsts}"


def judge(bootstrap: str, ledgers: list[Ledger]) -> Verdict:
    verdict = Verdict()
    for (topic, partition), group in itertools.groupby(
        sorted(ledgers, key=lambda one: (one.topic, one.partition)), key=lambda one: (one.topic, one.partition)
    ):
        log = read_all(bootstrap, topic, partition, keep=lambda message: (message.offset(), message.value()[:40]))
        for expected, (offset, _) in enumerate(log):
            if offset != expected:
                verdict.gaps.append(f"{topic}-{partition}: offset {offset} where {expected} belongs")
                break
        for ledger in group:
            _judge_one(ledger, log, verdict)
    return verdict


def _judge_one(ledger: Ledger, log: list[tuple[int, bytes]], verdict: Verdict) -> None:
    verdict.acked += len(ledger.acked)
    verdict.failed += [f"{ledger.name} {failure}" for failure in ledger.failed]
    places: dict[int, list[int]] = {}
    highest = -1
    prefix = ledger.name.encode() + b":"
    for offset, value in log:
        if not value.startswith(prefix):
            continue
        number = int(value.split(b":", 2)[1])
        known = places.setdefault(number, [])
        if not known:
            if number < highest:
                verdict.reordered.append(f"{ledger.name}: {number} after {highest} at offset {offset}")
            highest = max(highest, number)
        elif ledger.idempotent:
            verdict.duplicates.append(f"{ledger.name}: {number} at {known} and {offset}")
        known.append(offset)
    for number, offset in ledger.acked.items():
        if number not in places:
            verdict.lost.append(f"{ledger.name}: {number}, acked at offset {offset}")
        elif offset >= 0 and offset not in places[number]:
            # librdkafka has no offset (below 0) for a retry that the broker knew already
            verdict.moved.append(f"{ledger.name}: {number} acked at {offset}, found at {places[number]}")


class Watch(ABC):
    """Asks for offsets all the time, through every outage; they may never go back."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.highest: dict[tuple[str, int], int] = {}
        self.went_back: list[str] = []
        self.asked = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with RawConnection(self._bootstrap, timeout_seconds=5.0) as connection:
                    while not self._stop.wait(0.005):
                        self._ask(connection)
            except OSError:
                self._stop.wait(0.02)  # the broker is away

    @abstractmethod
    def _ask(self, connection: RawConnection) -> None:
        """One request; every answer goes to `_note`."""

    def _note(self, place: tuple[str, int], error_code: int, offset: int) -> None:
        self.asked += 1
        before = self.highest.get(place, -1)
        if error_code != 0:
            self.went_back.append(f"{place}: error {error_code}")
        elif offset < before:
            self.went_back.append(f"{place}: {offset} after {before}")
        else:
            self.highest[place] = offset


class WatermarkWatch(Watch):
    """The ends of partitions."""

    def __init__(self, bootstrap: str, places: list[tuple[str, int]]) -> None:
        super().__init__(bootstrap)
        self._places = places

    def _ask(self, connection: RawConnection) -> None:
        topics: dict[str, list[dict[str, int]]] = {}
        for topic, partition in self._places:
            topics.setdefault(topic, []).append({"partition_index": partition, "timestamp": -1})
        asked = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
        reply = connection.request(2, 5, {"replica_id": -1, "topics": asked})
        for topic in reply.topics:
            for answer in topic.partitions:
                self._note((topic.name, answer.partition_index), int(answer.error_code), answer.offset)
