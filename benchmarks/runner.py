"""Owns the order of a run: which broker runs which workload when, never two brokers at once, taking turns.

A workload that fails on one broker is noted and the rest goes on, so that one bug does not hide every figure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench, Clients
from benchmarks.clients.bare_socket import BrokerNotReady
from benchmarks.clients.rdkafka import ClientFailed
from benchmarks.kafka_jars import KafkaUnavailable
from benchmarks.peers import BrokerFailed, Peer, RunningBroker
from benchmarks.results import Results
from benchmarks.sizes import Sizes
from benchmarks.topics import TopicFailed
from benchmarks.warmup import warm_up
from benchmarks.workloads.kinds import OwnWorkload, SharedWorkload, Workload
from benchmarks.workloads.registry import WORKLOADS
from benchmarks.workloads.startup import LOADED_MEMORY

SHARED_COUNT = sum(isinstance(workload, SharedWorkload) for workload in WORKLOADS)
EXPECTED_FAILURES = (
    BrokerFailed,
    ClientFailed,
    BrokerNotReady,
    TopicFailed,
    KafkaUnavailable,
    TimeoutError,
    OSError,
)


class Runner:
    """One run of some workloads on some brokers."""

    def __init__(
        self,
        peers: list[Peer],
        sizes: Sizes,
        data_root: Path,
        tell: Callable[[str], None],
        done: Callable[[], None],
    ) -> None:
        self.results = Results()
        self._tell, self._done, self._sizes = tell, done, sizes
        self._benches = [Bench(peer, sizes, Clients(), self.results, data_root, lambda _: None) for peer in peers]

    def steps(self, workloads: tuple[Workload, ...]) -> int:
        """How many times `done` will be called."""
        own = sum(w.repeats(self._sizes) for w in workloads if isinstance(w, OwnWorkload))
        shared = sum(self._sizes.rounds for w in workloads if isinstance(w, SharedWorkload))
        return (own + shared) * len(self._benches)

    def run(self, workloads: tuple[Workload, ...]) -> Results:
        shared = [workload for workload in workloads if isinstance(workload, SharedWorkload)]
        for workload in workloads:
            if isinstance(workload, OwnWorkload):
                self._run_own(workload)
            elif workload is shared[0]:
                self._run_shared(shared)
        return self.results

    def _run_own(self, workload: OwnWorkload) -> None:
        for repeat in range(workload.repeats(self._sizes)):
            for bench in self._turn(f"{workload.name} {repeat + 1}"):
                with self._noting_failure(bench, workload):
                    workload.run(bench)
                self._done()

    def _run_shared(self, workloads: list[SharedWorkload]) -> None:
        for round_number in range(self._sizes.rounds):
            for bench in self._turn(f"round {round_number + 1} of {self._sizes.rounds}"):
                self._run_round(bench, workloads)

    def _run_round(self, bench: Bench, workloads: list[SharedWorkload]) -> None:
        """All shared workloads on one broker; a broker that died is replaced for those that are left."""
        waiting = list(workloads)
        while waiting:
            try:
                with bench.running_broker() as broker:
                    warm_up(bench, broker)
                    self._run_until_it_dies(bench, broker, waiting)
                    # Each section belongs to one choice of rows, so that a partial run never replaces it by less.
                    if not waiting and len(workloads) == SHARED_COUNT:
                        bench.record(LOADED_MEMORY, broker.resident_bytes() / 1e6)
            except EXPECTED_FAILURES as problem:
                self._note(bench, "broker", problem)
                if waiting:
                    waiting.pop(0)
                    self._done()

    def _run_until_it_dies(self, bench: Bench, broker: RunningBroker, waiting: list[SharedWorkload]) -> None:
        while waiting:
            broker.check_alive()
            with self._noting_failure(bench, waiting[0]):
                waiting[0].run(bench, broker)
            waiting.pop(0)
            self._done()

    def _turn(self, what: str) -> Iterator[Bench]:
        for bench in self._benches:
            yield replace(bench, tell=partial(self._tell_of, f"{bench.peer.label}: {what}"))

    def _tell_of(self, turn: str, text: str) -> None:
        self._tell(f"{turn}: {text}")

    @contextlib.contextmanager
    def _noting_failure(self, bench: Bench, workload: Workload) -> Iterator[None]:
        bench.tell(workload.name)
        try:
            yield
        except EXPECTED_FAILURES as problem:
            self._note(bench, workload.name, problem)

    def _note(self, bench: Bench, what: str, problem: Exception) -> None:
        self.results.failures.append(f"{bench.peer.label}: {what}: {problem}")
