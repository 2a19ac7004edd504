"""Owns the rows about many quiet connections: their memory, and what a busy client feels beside them."""

from __future__ import annotations

import time

from benchmarks.bench import Bench, fresh_topic
from benchmarks.clients import idle_connections
from benchmarks.peers import Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.sizes import Sizes
from benchmarks.warmup import warm_up
from benchmarks.workloads.kinds import OwnWorkload
from benchmarks.workloads.latency import measure_latency

SECTION = "Idle connections"
SIZE_BYTES = 100


class IdleConnections(OwnWorkload):
    """A fresh broker, one busy client at the fixed rate; then the same beside connections held open."""

    name = "connections"
    about = "RSS per idle connection and p99 of a busy client beside them"

    def repeats(self, sizes: Sizes) -> int:
        return 1

    def run(self, bench: Bench) -> None:
        config = bench.peer.topic_config(Durability.WRITTEN, "1")
        with bench.running_broker() as broker, fresh_topic(broker, 1, config) as (_, topic):
            warm_up(bench, broker)
            bench.tell("connections: busy client (warm-up)")
            measure_latency(bench, broker, topic, SIZE_BYTES, "1")
            self._busy_client(bench, broker, topic, 0)
            # One baseline for all steps: memory freed by an earlier step stays with the process and is used again.
            baseline_bytes = broker.resident_bytes()
            for count in bench.sizes.connection_steps:
                self._with_idle(bench, broker, topic, count, baseline_bytes)

    def _with_idle(self, bench: Bench, broker: RunningBroker, topic: str, count: int, baseline_bytes: int) -> None:
        bench.tell(f"connections: opening {count}")
        began_s = time.perf_counter()
        with idle_connections.held(broker.bootstrap, count):
            opened_s = time.perf_counter() - began_s
            each_bytes = (broker.resident_bytes() - baseline_bytes) / count
            bench.record(Row(SECTION, f"{count} opened and answered in", "s", True), opened_s)
            bench.record(Row(SECTION, f"RSS per connection, {count} idle", "KB", True), each_bytes / 1000)
            bench.record(Row(SECTION, f"broker RSS with {count} idle", "MB", True), broker.resident_bytes() / 1e6)
            self._busy_client(bench, broker, topic, count)

    def _busy_client(self, bench: Bench, broker: RunningBroker, topic: str, idle: int) -> None:
        rate = bench.sizes.latency_rate
        bench.tell(f"connections: busy client beside {idle}")
        for _ in range(2):
            result = measure_latency(bench, broker, topic, SIZE_BYTES, "1")
            row = Row(SECTION, f"p99 of a client at {rate} msg/s beside {idle} idle", "ms", True)
            bench.record(row, result["p99_ms"])
