"""Owns how much each workload does: the full run that is published, and a small one to try the harness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """One scale of the whole suite."""

    rounds: int  # each round starts Kafka, then Runnel, anew
    runs: int  # measured runs per workload and round, after one that is discarded
    warmup_s: float  # of single-record requests, twice, on every fresh broker whose speed is measured
    records_100b: int
    records_1kib: int
    synced_records_100b: int
    synced_records_1kib: int
    latency_rate: int
    latency_s: float
    latency_warmup_s: float
    single_s: float
    startups: int
    idle_wait_s: float
    connection_steps: tuple[int, ...]
    partitions: int
    partitions_per_topic: int
    group_members: tuple[int, ...]
    commit_connections: int
    commit_s: float
    compaction_records: int  # in each dirty partition

    def records(self, size_bytes: int, *, synced: bool) -> int:
        if synced:
            return self.synced_records_100b if size_bytes < 1000 else self.synced_records_1kib
        return self.records_100b if size_bytes < 1000 else self.records_1kib


FULL = Sizes(
    rounds=2,
    runs=2,
    warmup_s=4,
    records_100b=1_000_000,
    records_1kib=300_000,
    synced_records_100b=100_000,
    synced_records_1kib=20_000,
    latency_rate=20_000,
    latency_s=4,
    latency_warmup_s=1,
    single_s=1.5,
    startups=5,
    idle_wait_s=5,
    connection_steps=(1_000, 10_000),
    partitions=10_000,
    partitions_per_topic=1_000,
    group_members=(1, 10, 100),
    commit_connections=50,
    commit_s=3,
    compaction_records=1_000_000,
)

QUICK = Sizes(
    rounds=1,
    runs=1,
    warmup_s=0.5,
    records_100b=100_000,
    records_1kib=20_000,
    synced_records_100b=10_000,
    synced_records_1kib=2_000,
    latency_rate=5_000,
    latency_s=2,
    latency_warmup_s=0.5,
    single_s=0.5,
    startups=1,
    idle_wait_s=1,
    connection_steps=(100, 500),
    partitions=100,
    partitions_per_topic=50,
    group_members=(1, 10),
    commit_connections=10,
    commit_s=0.5,
    compaction_records=50_000,
)
