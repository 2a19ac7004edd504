"""Owns the rows about full speed: records/s and broker CPU per record, produced and consumed.

The cross product of sizes, partitions, codecs and acks would take hours; the cases below vary one thing at a
time from the plain one and end at the richest. Each case fills one topic, then reads all of it back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.bench import Bench, fresh_topic
from benchmarks.clients.rdkafka import ClientFailed
from benchmarks.peers import Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.workloads.kinds import SharedWorkload


@dataclass(frozen=True, slots=True)
class Case:
    """One shape of load; `consumed` also reads it back."""

    size_bytes: int
    partitions: int
    codec: str
    acks: str
    consumed: bool

    def shape(self) -> str:
        size = f"{self.size_bytes} B" if self.size_bytes < 1024 else f"{self.size_bytes // 1024} KiB"
        return f"{size}, {self.partitions} partition{'s' if self.partitions > 1 else ''}, {self.codec}"


JAVA_CASES = (
    Case(100, 1, "none", "1", True),
    Case(100, 1, "none", "all", False),
    Case(100, 12, "lz4", "all", True),
    Case(1024, 1, "none", "1", True),
    Case(1024, 12, "none", "all", True),
    Case(1024, 12, "lz4", "all", True),
)
RDKAFKA_CASES = (
    Case(100, 1, "none", "1", True),
    Case(100, 1, "none", "all", False),
    Case(100, 12, "none", "1", False),
    Case(100, 12, "lz4", "all", True),
    Case(1024, 1, "none", "1", True),
    Case(1024, 1, "none", "all", False),
    Case(1024, 12, "none", "all", True),
    Case(1024, 12, "lz4", "all", True),
)
SYNCED_CASES = (
    Case(100, 1, "none", "all", False),
    Case(1024, 1, "none", "1", False),
    Case(1024, 1, "none", "all", False),
    Case(1024, 12, "none", "all", False),
)


class Throughput(SharedWorkload):
    """All cases of one client at one durability."""

    client: str

    def __init__(self, durability: Durability, cases: tuple[Case, ...]) -> None:
        synced = durability is Durability.SYNCED
        self.durability, self.cases = durability, cases
        self.name = f"{self.client}-synced" if synced else self.client
        self.about = f"throughput and CPU per record, {self.client} client, {durability.value}"
        table = "B: fsync before the ack on both" if synced else "A: no fsync on either"
        self.speed_section = f"{table}: throughput, {self.client} client"
        self.cost_section = f"{table}: broker CPU per record, {self.client} client"

    @abstractmethod
    def produce(self, bench: Bench, broker: RunningBroker, topic: str, case: Case, run: int) -> float:
        """One run of `records(case)` records; returns records/s."""

    @abstractmethod
    def consume(self, bench: Bench, broker: RunningBroker, topic: str, case: Case, count: int) -> float:
        """Read `count` records, which is all there are; returns records/s."""

    def records(self, bench: Bench, case: Case) -> int:
        return bench.sizes.records(case.size_bytes, synced=self.durability is Durability.SYNCED)

    def run(self, bench: Bench, broker: RunningBroker) -> None:
        for case in self.cases:
            self._run_case(bench, broker, case)

    def _run_case(self, bench: Bench, broker: RunningBroker, case: Case) -> None:
        each, runs = self.records(bench, case), bench.sizes.runs + 1
        config = bench.peer.topic_config(self.durability, case.acks)
        with fresh_topic(broker, case.partitions, config) as (topics, topic):
            produce_us = self._measure(
                bench, broker, f"produce {case.shape()}, acks={case.acks}", each,
                lambda run: self.produce(bench, broker, topic, case, run),
            )  # fmt: skip
            arrived = topics.record_count(topic, case.partitions)
            if arrived != each * runs:
                raise ClientFailed(f"{topic}: {arrived} records in the log, {each * runs} were acknowledged")
            if not case.consumed:
                return
            consume_us = self._measure(
                bench, broker, f"consume {case.shape()}", each * runs,
                lambda _: self.consume(bench, broker, topic, case, each * runs),
            )  # fmt: skip
        both = Row(self.cost_section, f"produce + consume {case.shape()}, acks={case.acks}", "µs/record", True)
        bench.record(both, produce_us + consume_us)

    def _measure(
        self, bench: Bench, broker: RunningBroker, what: str, records: int, work: Callable[[int], float]
    ) -> float:
        """Run `work` once to warm up and then the measured runs; returns the median CPU µs per record."""
        speed, cost = (
            Row(self.speed_section, what, "records/s", False),
            Row(self.cost_section, what, "µs/record", True),
        )
        costs_us: list[float] = []
        for run in range(bench.sizes.runs + 1):
            bench.tell(f"{self.name}: {what}" + (" (warm-up)" if run == 0 else f" ({run}/{bench.sizes.runs})"))
            cpu_before_s = broker.cpu_seconds()
            records_per_s = work(run)
            cpu_us = (broker.cpu_seconds() - cpu_before_s) * 1e6 / records
            if run > 0:
                bench.record(speed, records_per_s)
                bench.record(cost, cpu_us)
                costs_us.append(cpu_us)
        return median(costs_us)


class JavaThroughput(Throughput):
    """Kafka's producer and consumer perf tests on the client's defaults (idempotent with acks=all)."""

    client = "java"

    def produce(self, bench: Bench, broker: RunningBroker, topic: str, case: Case, run: int) -> float:
        settings = {"acks": case.acks, "compression.type": case.codec}
        count = self.records(bench, case)
        return bench.clients.java.produce(
            broker.bootstrap, topic, count=count, size_bytes=case.size_bytes, settings=settings
        )

    def consume(self, bench: Bench, broker: RunningBroker, topic: str, case: Case, count: int) -> float:
        return bench.clients.java.consume(broker.bootstrap, topic, count=count)


class RdkafkaThroughput(Throughput):
    """librdkafka on its defaults, idempotent with acks=all as Java's is; order and content are checked."""

    client = "librdkafka"

    def produce(self, bench: Bench, broker: RunningBroker, topic: str, case: Case, run: int) -> float:
        settings = {"acks": case.acks, "compression.type": case.codec}
        if case.acks == "all":
            settings["enable.idempotence"] = "true"
        count = self.records(bench, case)
        load = {"topic": topic, "partitions": case.partitions, "count": count, "size": case.size_bytes}
        result = bench.clients.rdkafka.run(
            "produce", bootstrap=broker.bootstrap, first=run * count, producer=settings, **load
        )
        return float(result["records_per_s"])

    def consume(self, bench: Bench, broker: RunningBroker, topic: str, case: Case, count: int) -> float:
        load = {"topic": topic, "partitions": case.partitions, "count": count, "size": case.size_bytes}
        result = bench.clients.rdkafka.run("consume", bootstrap=broker.bootstrap, **load)
        return float(result["records_per_s"])


THROUGHPUT_WORKLOADS = (
    JavaThroughput(Durability.WRITTEN, JAVA_CASES),
    RdkafkaThroughput(Durability.WRITTEN, RDKAFKA_CASES),
    JavaThroughput(Durability.SYNCED, SYNCED_CASES),
    RdkafkaThroughput(Durability.SYNCED, SYNCED_CASES),
)
