"""Owns the two kinds of workload: those that share a warm broker, and those about a broker's own life."""

from __future__ import annotations

from abc import ABC, abstractmethod

from benchmarks.bench import Bench
from benchmarks.peers import RunningBroker
from benchmarks.sizes import Sizes


class SharedWorkload(ABC):
    """Runs once per round on a broker that other workloads use too; it discards its own first run."""

    name: str
    about: str

    @abstractmethod
    def run(self, bench: Bench, broker: RunningBroker) -> None: ...


class OwnWorkload(ABC):
    """Starts and stops the broker itself; repeated as often as it says, the brokers taking turns."""

    name: str
    about: str

    @abstractmethod
    def repeats(self, sizes: Sizes) -> int: ...

    @abstractmethod
    def run(self, bench: Bench) -> None: ...


Workload = SharedWorkload | OwnWorkload
