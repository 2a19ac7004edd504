"""Owns how much each workload does: the full run that is published, and a small one to try the harness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """One scale of the whole suite."""

    turns: int  # measured turns of each connector, after one that is discarded
    records: int  # of 100 B, for scans and streams
    records_1kib: int
    trigger_records: tuple[int, ...]  # maxOffsetsPerTrigger of the streams
    sink_records: int
    sink_records_1kib: int
    lake_records: int
    latency_triggers: tuple[str, ...]
    latency_rate: int
    latency_warmup_s: float
    latency_s: float
    growth: tuple[tuple[int, int], ...]  # records, and how many turns they get


FULL = Sizes(
    turns=3,
    records=3_000_000,
    records_1kib=500_000,
    trigger_records=(1_000_000, 250_000),
    sink_records=1_000_000,
    sink_records_1kib=200_000,
    lake_records=2_000_000,
    latency_triggers=("0 seconds", "1 second"),
    latency_rate=500,
    latency_warmup_s=3,
    latency_s=10,
    growth=((1_000_000, 3), (10_000_000, 3), (100_000_000, 1)),
)

QUICK = Sizes(
    turns=1,
    records=200_000,
    records_1kib=50_000,
    trigger_records=(100_000,),
    sink_records=100_000,
    sink_records_1kib=20_000,
    lake_records=100_000,
    latency_triggers=("0 seconds",),
    latency_rate=200,
    latency_warmup_s=1,
    latency_s=3,
    growth=((100_000, 1), (1_000_000, 1)),
)
