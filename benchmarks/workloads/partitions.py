"""Owns the rows about a broker with very many partitions: create, stop, start again, produce as before."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.clients import bare_socket
from benchmarks.peers import Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.sizes import Sizes
from benchmarks.topics import Topics
from benchmarks.warmup import warm_up
from benchmarks.workloads.kinds import OwnWorkload

SECTION = "Many partitions"
PROBE_TOPIC = "few"
SIZE_BYTES = 100


class ManyPartitions(OwnWorkload):
    """Produce beside few partitions, then beside many after a clean restart, with the same warm-up."""

    name = "partitions"
    about = "create many partitions, restart, first ack, cost of a produce"

    def repeats(self, sizes: Sizes) -> int:
        return 1

    def run(self, bench: Bench) -> None:
        total = bench.sizes.partitions
        with bench.prepared_folder() as folder:
            with bench.peer.start(folder) as broker:
                broker.wait_until_answering()
                self._before(bench, broker)
                bench.tell(f"partitions: stopping with {total}")
                bench.record(Row(SECTION, f"clean stop with {total} partitions", "s", True), broker.stop())
            with bench.peer.start(folder) as broker:
                bench.tell(f"partitions: starting with {total}")
                first_ack_s = broker.wait_for_first_ack(PROBE_TOPIC)
                row = Row(SECTION, f"start to first ack with {total} partitions, after a clean stop", "s", True)
                bench.record(row, first_ack_s)
                self._after(bench, broker)

    def _before(self, bench: Bench, broker: RunningBroker) -> None:
        sizes, topics = bench.sizes, Topics(broker.bootstrap)
        topics.create(PROBE_TOPIC, 1, bench.peer.topic_config(Durability.WRITTEN, "1"))
        self._cost_of_produce(bench, broker, "few partitions")
        began_s = time.perf_counter()
        for begun in range(0, sizes.partitions, sizes.partitions_per_topic):
            bench.tell(f"partitions: creating, {begun} so far")
            topics.create(f"many-{begun}", min(sizes.partitions_per_topic, sizes.partitions - begun))
        took_s = time.perf_counter() - began_s
        bench.record(Row(SECTION, f"create {sizes.partitions} partitions", "s", True), took_s)

    def _after(self, bench: Bench, broker: RunningBroker) -> None:
        total = bench.sizes.partitions
        bench.record(Row(SECTION, f"RSS with {total} partitions", "MB", True), broker.resident_bytes() / 1e6)
        self._cost_of_produce(bench, broker, f"{total} partitions")

    def _cost_of_produce(self, bench: Bench, broker: RunningBroker, beside: str) -> None:
        warm_up(bench, broker)
        bench.tell(f"partitions: produce beside {beside}")
        for run in range(bench.sizes.runs + 1):
            cpu_before_s = broker.cpu_seconds()
            found = bare_socket.single_record_requests(
                broker.bootstrap,
                PROBE_TOPIC,
                value_bytes=SIZE_BYTES,
                window=1,
                seconds=bench.sizes.single_s,
            )
            cpu_us = (broker.cpu_seconds() - cpu_before_s) * 1e6 / found.requests
            if run > 0:
                speed = Row(SECTION, f"single-record requests, {beside}", "requests/s", False)
                bench.record(speed, found.requests_per_s)
                cost = Row(SECTION, f"single-record requests, {beside}: broker CPU", "µs/request", True)
                bench.record(cost, cpu_us)
