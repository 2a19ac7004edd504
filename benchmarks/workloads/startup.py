"""Owns the rows about a broker that has just started: time to the first ack, memory when nothing happens."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.results import Row
from benchmarks.sizes import Sizes
from benchmarks.workloads.kinds import OwnWorkload

FIRST_ACK = Row("Start-up", "start to first ack, empty data dir", "s", True)
IDLE_MEMORY = Row("Idle memory", "idle RSS, one topic", "MB", True)
LOADED_MEMORY = Row("Memory after load", "RSS after every shared workload of one round", "MB", True)


class Startup(OwnWorkload):
    """Process start to the first acknowledged record, tried every 5 ms. Kafka's format step is free."""

    name = "startup"
    about = "start to first ack on an empty data dir"

    def repeats(self, sizes: Sizes) -> int:
        return sizes.startups

    def run(self, bench: Bench) -> None:
        with bench.prepared_folder() as folder, bench.peer.start(folder) as broker:
            bench.record(FIRST_ACK, broker.wait_for_first_ack("first"))


class IdleMemory(OwnWorkload):
    """Resident memory of a broker that holds one topic with one record and is left alone."""

    name = "idle-memory"
    about = "RSS with one topic and no clients"

    def repeats(self, sizes: Sizes) -> int:
        return min(2, sizes.startups)

    def run(self, bench: Bench) -> None:
        with bench.prepared_folder() as folder, bench.peer.start(folder) as broker:
            broker.wait_for_first_ack("first")
            time.sleep(bench.sizes.idle_wait_s)
            bench.record(IDLE_MEMORY, broker.resident_bytes() / 1e6)
