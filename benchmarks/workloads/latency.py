"""Owns the rows about time from send to receive at a fixed rate, without fsync and with it."""

from __future__ import annotations

from benchmarks.bench import Bench, fresh_topic
from benchmarks.peers import Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.workloads.kinds import SharedWorkload

PERCENTILES = {"p50": "p50_ms", "p99": "p99_ms", "p99.9": "p999_ms"}
RATE_SHARE_MIN = 0.98  # a client that could not keep the rate measured something else
LINGER_MS = 1  # as the OpenMessaging benchmark sets it: the clients' default of 5 ms would hide the broker


class Latency(SharedWorkload):
    """One process sends at the rate, stamps each record with when it was due, and reads them back."""

    def __init__(self, durability: Durability, cases: tuple[tuple[int, str], ...]) -> None:
        synced = durability is Durability.SYNCED
        self.durability, self.cases = durability, cases
        self.name = "latency-synced" if synced else "latency"
        self.about = f"end-to-end percentiles at a fixed rate, {durability.value}"
        self.section = f"{'B' if synced else 'A'}: {durability.value}: end-to-end latency at a fixed rate"

    def run(self, bench: Bench, broker: RunningBroker) -> None:
        for size_bytes, acks in self.cases:
            config = bench.peer.topic_config(self.durability, acks)
            with fresh_topic(broker, 1, config) as (_, topic):
                self._run_case(bench, broker, topic, size_bytes, acks)

    def _run_case(self, bench: Bench, broker: RunningBroker, topic: str, size_bytes: int, acks: str) -> None:
        shape = f"{bench.sizes.latency_rate} msg/s of {size_bytes} B, acks={acks}"
        for run in range(bench.sizes.runs + 1):
            bench.tell(f"{self.name}: {shape}" + (" (warm-up)" if run == 0 else ""))
            result = measure_latency(bench, broker, topic, size_bytes, acks)
            if run > 0:
                for name, key in PERCENTILES.items():
                    bench.record(Row(self.section, f"{shape}: {name}", "ms", True), result[key])


def measure_latency(bench: Bench, broker: RunningBroker, topic: str, size_bytes: int, acks: str) -> dict[str, float]:
    """Percentiles of one paced run on partition 0."""
    sizes = bench.sizes
    producer = {"linger.ms": LINGER_MS, "acks": acks}
    if acks == "all":
        producer["enable.idempotence"] = "true"
    load = {"size": size_bytes, "rate": sizes.latency_rate, "seconds": sizes.latency_s}
    result = bench.clients.rdkafka.run(
        "latency",
        bootstrap=broker.bootstrap,
        topic=topic,
        warmup_s=sizes.latency_warmup_s,
        producer=producer,
        **load,
    )
    if result["records_per_s"] < sizes.latency_rate * RATE_SHARE_MIN:
        bench.results.failures.append(
            f"{bench.peer.label}: latency measured at {result['records_per_s']:.0f} msg/s, below the rate"
        )
    return result


LATENCY_WORKLOADS = (
    Latency(Durability.WRITTEN, ((100, "1"), (1024, "all"))),
    Latency(Durability.SYNCED, ((1024, "all"),)),
)
