"""Owns what a workload is handed: the broker kind, the clients, the sizes, and where its figures go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

from benchmarks.clients.java_perf import JavaPerf
from benchmarks.clients.rdkafka import Rdkafka
from benchmarks.peers import Peer, RunningBroker, scratch_folder
from benchmarks.results import Results, Row
from benchmarks.sizes import Sizes
from benchmarks.topics import Topics

_topic_numbers = count(1)


class Clients:
    """The load clients, each made when first needed (they compile or fetch things)."""

    @cached_property
    def rdkafka(self) -> Rdkafka:
        return Rdkafka()

    @cached_property
    def java(self) -> JavaPerf:
        return JavaPerf()


@dataclass(slots=True)
class Bench:
    """One broker kind's turn. `tell` shows what is being done now."""

    peer: Peer
    sizes: Sizes
    clients: Clients
    results: Results
    data_root: Path
    tell: Callable[[str], None]

    def record(self, row: Row, value: float) -> None:
        self.results.record(row, self.peer.name, value)

    @contextlib.contextmanager
    def prepared_folder(self) -> Iterator[Path]:
        """An empty data folder, formatted if this broker wants that."""
        with scratch_folder(self.data_root, self.peer.name) as folder:
            self.peer.prepare(folder)
            yield folder

    @contextlib.contextmanager
    def running_broker(self, settings: Mapping[str, str] | None = None) -> Iterator[RunningBroker]:
        """A broker that answers, on an empty data folder; both are gone afterwards."""
        with self.prepared_folder() as folder, self.peer.start(folder, settings) as broker:
            broker.wait_until_answering()
            yield broker


@contextlib.contextmanager
def fresh_topic(
    broker: RunningBroker, partitions: int = 1, config: dict[str, str] | None = None
) -> Iterator[tuple[Topics, str]]:
    """A new topic, deleted afterwards so that its bytes need not reach the disk."""
    topics, name = Topics(broker.bootstrap), f"bench-{next(_topic_numbers)}"
    topics.create(name, partitions, config)
    yield topics, name
    topics.delete(name)
