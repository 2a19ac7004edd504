"""Owns the rows about one record per request: requests/s, their latency and what they cost the broker."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench, fresh_topic
from benchmarks.clients import bare_socket
from benchmarks.peers import Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.workloads.kinds import SharedWorkload

SECTION = "A: no fsync on either: single-record requests, acks=1, 100 B, one connection"
WINDOW = 16
SIZE_BYTES = 100


class SingleRecord(SharedWorkload):
    """A bare socket shows the broker alone; librdkafka without batching shows what an application gets."""

    name = "single-record"
    about = "requests/s without batching, one and several in flight"

    def run(self, bench: Bench, broker: RunningBroker) -> None:
        config = bench.peer.topic_config(Durability.WRITTEN, "1")
        with fresh_topic(broker, 1, config) as (_, topic):
            for window in (1, WINDOW):
                flight = f"{window} in flight"
                self._measure(bench, broker, f"bare socket, {flight}", _bare(bench, broker, topic, window))
                self._measure(bench, broker, f"librdkafka, {flight}", _rdkafka(bench, broker, topic, window))

    def _measure(self, bench: Bench, broker: RunningBroker, what: str, work: Callable[[], dict[str, float]]) -> None:
        for run in range(bench.sizes.runs + 1):
            bench.tell(f"{self.name}: {what}" + (" (warm-up)" if run == 0 else ""))
            cpu_before_s = broker.cpu_seconds()
            result = work()
            cpu_us = (broker.cpu_seconds() - cpu_before_s) * 1e6 / result["records"]
            if run > 0:
                bench.record(Row(SECTION, what, "requests/s", False), result["records_per_s"])
                bench.record(Row(SECTION, f"{what}: p99", "ms", True), result["p99_ms"])
                bench.record(Row(SECTION, f"{what}: broker CPU", "µs/request", True), cpu_us)


def _bare(bench: Bench, broker: RunningBroker, topic: str, window: int) -> Callable[[], dict[str, float]]:
    def work() -> dict[str, float]:
        found = bare_socket.single_record_requests(
            broker.bootstrap, topic, value_bytes=SIZE_BYTES, window=window, seconds=bench.sizes.single_s
        )
        return {"records": found.requests, "records_per_s": found.requests_per_s, "p99_ms": found.p99_ms}

    return work


def _rdkafka(bench: Bench, broker: RunningBroker, topic: str, window: int) -> Callable[[], dict[str, float]]:
    producer = {
        "acks": "1",
        "linger.ms": 0,
        "batch.num.messages": 1,
        "max.in.flight.requests.per.connection": window,
    }
    load = {"topic": topic, "window": window, "seconds": bench.sizes.single_s, "size": SIZE_BYTES}
    return lambda: bench.clients.rdkafka.run("single", bootstrap=broker.bootstrap, producer=producer, **load)
