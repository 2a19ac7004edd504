"""Owns the rows about consumer groups: from joining to the first record, and committing offsets."""

from __future__ import annotations

from itertools import count

from benchmarks.bench import Bench, fresh_topic
from benchmarks.clients.commits import commit_rates
from benchmarks.clients.group_members import first_records
from benchmarks.peers import Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.sizes import Sizes
from benchmarks.warmup import warm_up
from benchmarks.workloads.kinds import OwnWorkload

JOIN_SECTION = "Groups: all members subscribe at once, librdkafka on its defaults, 100 partitions"
COMMIT_SECTION = "Groups: offset commits over bare sockets, one in flight on each connection"
PARTITIONS = 100
RECORDS_PER_PARTITION = 20
SIZE_BYTES = 100
# Kafka lets an empty group wait 3 s for more members; Runnel's default is 0 already.
DELAYS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("classic, defaults", "classic", {}),
    ("classic, group.initial.rebalance.delay.ms=0 on both", "classic", {"group.initial.rebalance.delay.ms": "0"}),
    ("consumer protocol (KIP-848)", "consumer", {}),
)
# Runnel answers a commit after an fsync; Kafka does with this setting.
COMMIT_PROMISES: tuple[tuple[str, dict[str, str]], ...] = (
    ("each on its defaults (only Runnel syncs)", {}),
    ("fsync before the answer on both", {"log.flush.interval.messages": "1"}),
)

_group_numbers = count(1)


class JoinToRecord(OwnWorkload):
    """A topic that holds records; 1, 10 and 100 members of a new group; when does the first get one, when every?"""

    name = "groups"
    about = "first join to first record for 1, 10 and 100 members"

    def repeats(self, sizes: Sizes) -> int:
        return 1

    def run(self, bench: Bench) -> None:
        for what, protocol, settings in DELAYS:
            with bench.running_broker(settings) as broker, fresh_topic(broker, PARTITIONS) as (_, topic):
                warm_up(bench, broker)
                load = {"topic": topic, "count": PARTITIONS * RECORDS_PER_PARTITION, "size": SIZE_BYTES}
                # Without this setting librdkafka sends a whole batch to one partition.
                spread = {"sticky.partitioning.linger.ms": 0}
                bench.clients.rdkafka.run(
                    "produce", bootstrap=broker.bootstrap, partitions=PARTITIONS, producer=spread, **load
                )
                for members in bench.sizes.group_members:
                    self._measure(bench, broker, topic, what, protocol, members)

    def _measure(self, bench: Bench, broker: RunningBroker, topic: str, what: str, protocol: str, members: int) -> None:
        for run in range(bench.sizes.runs + 1):
            bench.tell(f"{self.name}: {what}, {members}" + (" (warm-up)" if run == 0 else ""))
            group = f"group-{next(_group_numbers)}"
            found = first_records(broker.bootstrap, topic, group, protocol, members)
            if run > 0:
                each = "1 member" if members == 1 else f"{members} members, the last one"
                bench.record(Row(JOIN_SECTION, f"{what}: {each}", "s", True), found["every_s"])
                if members > 1:
                    row = Row(JOIN_SECTION, f"{what}: {members} members, the first of them", "s", True)
                    bench.record(row, found["first_s"])


class Commits(OwnWorkload):
    """Commits of one partition each, from one client and from many of the same group."""

    name = "commits"
    about = "offset commits/s, their p99 and the broker's CPU for each"

    def repeats(self, sizes: Sizes) -> int:
        return sizes.rounds

    def run(self, bench: Bench) -> None:
        for what, settings in COMMIT_PROMISES:
            with bench.running_broker(settings) as broker:
                warm_up(bench, broker)
                with fresh_topic(broker, PARTITIONS, bench.peer.topic_config(Durability.WRITTEN, "1")) as (_, topic):
                    for connections in (1, bench.sizes.commit_connections):
                        self._measure(bench, broker, topic, what, connections)

    def _measure(self, bench: Bench, broker: RunningBroker, topic: str, promise: str, connections: int) -> None:
        what = f"{promise}: {connections} connection{'s' if connections > 1 else ''}"
        for run in range(bench.sizes.runs + 1):
            bench.tell(f"{self.name}: {what}" + (" (warm-up)" if run == 0 else ""))
            cpu_before_s = broker.cpu_seconds()
            found = commit_rates(
                broker.bootstrap, topic, "committing", connections=connections, seconds=bench.sizes.commit_s
            )
            cpu_us = (broker.cpu_seconds() - cpu_before_s) * 1e6 / found.requests
            if run > 0:
                bench.record(Row(COMMIT_SECTION, what, "commits/s", False), found.requests_per_s)
                bench.record(Row(COMMIT_SECTION, f"{what}: p99", "ms", True), found.p99_ms)
                bench.record(Row(COMMIT_SECTION, f"{what}: broker CPU", "µs/commit", True), cpu_us)
