"""The cluster as one peer: bootstrap, metadata, a connection per broker, routing to leaders, bounded retries.

In: `BrokerSettings`, requests. Out: replies from the right broker. What can be tried again is tried again, with fresh
metadata, until `patience_s` has passed; then the last error is raised.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from runnel.client.address import Address, parse_addresses
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import ClusterView, PartitionView, TopicPartition, read_cluster
from runnel.spark.brokers.connection import Connection
from runnel.spark.kafka_options import BrokerSettings
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

PAUSE_FIRST_S = 0.02
PAUSE_MAX_S = 1.0
QUIET_S = 5.0
"""Whoever waits for longer is told what for: the last error may come a minute later."""

log = logging.getLogger("runnel.spark")

Value = TypeVar("Value")
Result = TypeVar("Result")


class Patience:
    """Waits between attempts: a little longer each time, and never beyond the deadline."""

    def __init__(self, limit_s: float) -> None:
        began_s = time.monotonic()
        self._deadline_s = began_s + limit_s
        self._quiet_until_s = began_s + QUIET_S
        self._pause_s = PAUSE_FIRST_S

    def wait_or_raise(self, error: ClientError) -> None:
        if not error.retriable or not self.wait():
            raise error
        now_s = time.monotonic()
        if self._quiet_until_s <= now_s < self._deadline_s:
            self._quiet_until_s = math.inf
            log.warning("%s (trying for %.0f s more)", error.message, self._deadline_s - now_s)

    def wait(self) -> bool:
        """Whether there was time left to wait."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        return True

    def extend(self, seconds: float) -> None:
        """By time in which nothing could be tried."""
        self._deadline_s += seconds


class Cluster:
    """For one thread at a time. Use as a context manager, or `close` it."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.view = ClusterView(None, -1, {}, {})
        self._bootstrap = parse_addresses(settings.bootstrap)
        self._connections: dict[Address, Connection] = {}
        self._has_lost = False

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._has_lost = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def is_unbroken(self) -> bool:
        """Whether every connection that was ever made is open; to be asked while no reply is due."""
        # Something to read where nothing is due is the end of a connection.
        is_open = all(connection.is_open and not connection.has_reply() for connection in self._connections.values())
        return is_open and not self._has_lost

    def connect(self, node_id: int | None = None) -> Connection:
        """To one broker, by its advertised address; or, without a node id, to any broker that answers."""
        if node_id is None:
            return self._connect_any()
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise ClientError(f"broker {node_id} is not in the cluster", code=ErrorCode.LEADER_NOT_AVAILABLE)
        return self._dial(broker.address)

    def _dial(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            self._has_lost = self._has_lost or connection is not None
            connection = self._connections[address] = Connection(address, self.settings)
        return connection

    def _connect_any(self) -> Connection:
        failures: list[ClientError] = []
        # A host that has vanished costs a timeout: what is open comes first, what was closed last.
        is_open = [address for address, connection in self._connections.items() if connection.is_open]
        advertised = [broker.address for broker in self.view.brokers.values()]
        for address in dict.fromkeys((*is_open, *self._bootstrap, *advertised, *self._connections)):
            try:
                return self._dial(address)
            except ClientError as error:
                failures.append(error)
        reasons = "; ".join(dict.fromkeys(failure.message for failure in failures))
        retriable = all(failure.retriable for failure in failures)
        raise ClientError(reasons, code=ErrorCode.NETWORK_EXCEPTION if retriable else None)

    def call(self, api_key: ApiKey, body: Mapping[str, Any], *, patience_s: float | None = None) -> Struct:
        """One request, tried again on another connection when the network failed."""
        patience = Patience(self.settings.patience_s if patience_s is None else patience_s)
        while True:
            try:
                return self.connect().call(api_key, body)
            except ClientError as error:
                patience.wait_or_raise(error)

    def refresh(
        self, topics: Collection[str] | None, *, create: bool = False, patience_s: float | None = None
    ) -> ClusterView:
        """Ask for the named topics (None: all of them), and remember what is answered.

        With `create`, a broker that is set to create topics on demand does so, as for any producer.
        """
        names = None if topics is None else [{"name": name} for name in topics]
        body = {"topics": names, "allow_auto_topic_creation": create}
        answer = read_cluster(self.call(ApiKey.METADATA, body, patience_s=patience_s))
        merged = answer.topics if topics is None else {**self.view.topics, **answer.topics}
        self.view = ClusterView(answer.cluster_id, answer.controller_id, answer.brokers, merged)
        return answer

    def partition(self, target: TopicPartition) -> PartitionView:
        """A partition as last seen; a leader that is missing there is an error to be tried again."""
        topic = self.view.topics.get(target.topic)
        if topic is None or topic.error_code:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            raise refused(code, f"topic '{target.topic}'")
        # They are in order, and of thousands each is looked for at every trigger.
        at = bisect_left(topic.partitions, target.partition, key=attrgetter("index"))
        for partition in topic.partitions[at : at + 1]:
            if partition.index == target.partition:
                if partition.is_offline:
                    raise refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {target}")
                return partition
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {target}")

    def by_leader(self, targets: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        groups: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for target in targets:
            groups[self.partition(target).leader_id].append(target)
        return groups

    def ask_leaders(
        self,
        wanted: Mapping[TopicPartition, Value],
        ask: Callable[[int, Mapping[TopicPartition, Value]], Mapping[TopicPartition, tuple[int, Result]]],
        *,
        patience_s: float | None = None,
    ) -> dict[TopicPartition, Result]:
        """Ask each partition's leader; ask again, with fresh metadata, what failed for a passing reason."""
        results: dict[TopicPartition, Result] = {}
        patience = Patience(self.settings.patience_s if patience_s is None else patience_s)
        while missing := {target: value for target, value in wanted.items() if target not in results}:
            failure: ClientError | None = None
            try:
                for node_id, group in self.by_leader(missing).items():
                    for target, (code, result) in ask(node_id, {target: missing[target] for target in group}).items():
                        if code == 0:
                            results[target] = result
                        else:
                            failure = failure or refused(code, f"partition {target}")
            except ClientError as error:
                failure = error
            if failure is not None:
                patience.wait_or_raise(failure)
                self.refresh(sorted({target.topic for target in missing}))
            elif results.keys() < wanted.keys():
                raise ClientError(
                    f"the broker's answer leaves out {', '.join(map(str, missing.keys() - results.keys()))}"
                )
        return results
