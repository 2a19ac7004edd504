"""Owns the list of workloads and the names by which a run chooses some of them."""

from __future__ import annotations

from benchmarks.workloads.compaction import Compaction
from benchmarks.workloads.connections import IdleConnections
from benchmarks.workloads.groups import Commits, JoinToRecord
from benchmarks.workloads.kinds import Workload
from benchmarks.workloads.latency import LATENCY_WORKLOADS
from benchmarks.workloads.partitions import ManyPartitions
from benchmarks.workloads.single_record import SingleRecord
from benchmarks.workloads.startup import IdleMemory, Startup
from benchmarks.workloads.throughput import THROUGHPUT_WORKLOADS

WORKLOADS: tuple[Workload, ...] = (
    Startup(),
    IdleMemory(),
    *THROUGHPUT_WORKLOADS,
    *LATENCY_WORKLOADS,
    SingleRecord(),
    IdleConnections(),
    ManyPartitions(),
    JoinToRecord(),
    Commits(),
    Compaction(),
)


def chosen(names: list[str]) -> tuple[Workload, ...]:
    """The workloads with these names (all without any); an unknown name is the caller's mistake."""
    known = {workload.name for workload in WORKLOADS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown row {unknown[0]!r}; choose from {', '.join(sorted(known))}")
    return tuple(workload for workload in WORKLOADS if not names or workload.name in names)
