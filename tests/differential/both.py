"""Kafka and Runnel side by side: one request to both, and what is different in the replies.

In: requests with names. Out: the replies, and in `found` every difference that no row of the table accepts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from differential.accepted import ACCEPTED
from differential.compare import Difference, differences
from differential.judging import Judge
from differential.names import Name
from differential.normal import normal
from differential.sides import MAIN, REPLY_SECONDS, Outcome, Side
from harness.conditions import wait_until
from harness.kafka import running_small_kafka
from harness.process import BrokerProcess, watched

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",  # ours; Kafka's 3 s would only make the test slow
    "group.min.session.timeout.ms": "200",
    "group.consumer.assignment.interval.ms": "0",  # ours too; Kafka's second would make epochs a matter of time
    "num.partitions": "2",
    "log.retention.ms": "-1",  # the records of these tests are old
    "offsets.topic.num.partitions": "3",
}
"""Of both brokers; everything else has its default."""
SETTLE_SECONDS = 2.0
SHOWN_MAX = 20
FIND_COORDINATOR, HEARTBEAT, CREATE_TOPICS, METADATA, LIST_OFFSETS, DESCRIBE_CLUSTER = 10, 12, 19, 3, 2, 60
INIT_PRODUCER_ID = 22
UNKNOWN_MEMBER_ID = 25
NO_TRANSACTION = {"transactional_id": None, "transaction_timeout_ms": 60_000}


class Pair(NamedTuple):
    """The two replies in plain values, not normalised; an `Outcome` where there was none."""

    kafka: Any
    runnel: Any


class Finding(NamedTuple):
    api_key: int
    version: int
    body: Mapping[str, Any]
    difference: Difference

    def __str__(self) -> str:
        return f"API {self.api_key} v{self.version} {self.difference}\n      asked {dict(self.body)}"


class Both:
    def __init__(self, kafka: Side, runnel: Side) -> None:
        self.kafka, self.runnel = kafka, runnel
        self.judge = Judge(ACCEPTED)
        self.found: list[Finding] = []
        self.shared: set[str] = set()
        self.played: set[str] = set()
        self.ranges: dict[int, tuple[int, int]] = {}
        for side in self.sides:
            self._get_ready(side)

    @contextmanager
    def watched(self, play: str) -> Iterator[None]:
        """Fails with every difference that was met inside."""
        self.found.clear()
        yield
        self.played.add(play)
        if self.found:
            raise AssertionError(
                f"{len(self.found)} differences, such as\n" + "\n".join(map(str, self.found[:SHOWN_MAX]))
            )

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.kafka, self.runnel

    def _get_ready(self, side: Side) -> None:
        side.cluster_id = side.ask(DESCRIBE_CLUSTER, 0, {})["cluster_id"]
        rows = side.ask(18, 0, {})["api_keys"]
        self.ranges = {row["api_key"]: (row["min_version"], row["max_version"]) for row in rows}
        # Kafka makes __consumer_offsets when it is first asked for a coordinator.
        wait_until(lambda: _coordinates(side), f"the group coordinator of {side}")
        wait_until(lambda: side.ask(INIT_PRODUCER_ID, 4, NO_TRANSACTION)["error_code"] == 0, f"producer ids of {side}")

    # --- asking -----------------------------------------------------------------------------------------------

    def ask(
        self,
        api_key: int,
        version: int,
        body: Mapping[str, Any],
        *,
        on: str = MAIN,
        settle: bool = False,
        patience_s: float = REPLY_SECONDS,
    ) -> Pair:
        """Ask both and compare. `settle`: Kafka's broker follows its controller with a delay, so a question is put
        again while the answers differ. `patience_s`: after how long no answer is an answer."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            pair = self._ask_once(api_key, version, body, on, patience_s)
            left = self._unaccepted(api_key, version, body, pair)
            if not left or not settle or time.monotonic() > deadline:
                self.found += left
                return pair

    def _ask_once(self, api_key: int, version: int, body: Mapping[str, Any], on: str, patience_s: float) -> Pair:
        for side in self.sides:
            side.send(api_key, version, body, on)
        return Pair(*(side.receive(api_key, version, on, patience_s) for side in self.sides))

    def send(self, api_key: int, version: int, body: Mapping[str, Any], *, on: str) -> None:
        """For requests that wait: `receive` compares the answers later."""
        for side in self.sides:
            side.send(api_key, version, body, on)

    def receive(self, api_key: int, version: int, body: Mapping[str, Any], *, on: str) -> Pair:
        pair = Pair(*(side.receive(api_key, version, on) for side in self.sides))
        self.found += self._unaccepted(api_key, version, body, pair)
        return pair

    def receive_named(
        self, api_key: int, version: int, body: Mapping[str, Any], *, on: str, learn: Callable[[Pair], object]
    ) -> Pair:
        """The same, where the replies hold a value that must have its name before they can be compared."""
        pair = Pair(*(side.receive(api_key, version, on) for side in self.sides))
        learn(pair)
        self.found += self._unaccepted(api_key, version, body, pair)
        return pair

    def wait_for(self, look: Callable[[Side], bool]) -> None:
        """Until it is so on both sides."""
        for side in self.sides:
            wait_until(lambda side=side: look(side), f"what {side} should come to")  # type: ignore[misc]

    def _unaccepted(self, api_key: int, version: int, body: Mapping[str, Any], pair: Pair) -> list[Finding]:
        theirs, ours = (
            {"connection": reply.value}
            if isinstance(reply, Outcome)
            else {"connection": "open", **normal(side, api_key, reply)}
            for side, reply in zip(self.sides, pair, strict=True)
        )
        left = self.judge.unaccepted(api_key, version, body, differences(theirs, ours))
        return [Finding(api_key, version, body, difference) for difference in left]

    def learn(self, kind: str, name: str, pair: Pair, value_of: Callable[[Any], Any]) -> Name:
        """Name a value that each broker made up."""
        made = Name(kind, name)
        for side, reply in zip(self.sides, pair, strict=True):
            side.names.learn(made, value_of(reply))
        return made

    def hang_up(self, connection: str) -> None:
        for side in self.sides:
            side.hang_up(connection)

    # --- topics -----------------------------------------------------------------------------------------------

    def topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Make a topic on both and wait until it can be used."""
        rows = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}
        pair = self.ask(CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 30_000})
        self.learn("topic", name, pair, lambda reply: reply["topics"][0]["topic_id"])
        self.wait_for_topic(name, partitions)
        return name

    def wait_for_topic(self, name: str, partitions: int) -> None:
        asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        body = {"replica_id": -1, "topics": [{"name": name, "partitions": asked}]}

        def is_led(side: Side) -> bool:
            rows = side.ask(LIST_OFFSETS, 7, body)["topics"][0]["partitions"]
            return all(row["error_code"] == 0 for row in rows)

        for side in self.sides:
            wait_until(lambda side=side: is_led(side), f"leaders of {name} on {side}")  # type: ignore[misc]


def _coordinates(side: Side) -> bool:
    side.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    beat = side.ask(HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "x"})
    return beat["error_code"] == UNKNOWN_MEMBER_ID


@contextmanager
def running_both(folder: Path) -> Iterator[Both]:
    """Both brokers on empty data; skips where there is no Kafka."""
    runnel = BrokerProcess(folder / "runnel", settings=SETTINGS)
    with running_small_kafka(folder / "kafka", SETTINGS) as kafka, watched(runnel):
        both = Both(Side("Kafka", kafka.bootstrap), Side("Runnel", runnel.address))
        try:
            yield both
        finally:
            for side in both.sides:
                side.close()
