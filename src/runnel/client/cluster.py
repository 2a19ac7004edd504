"""The cluster as one peer: bootstrap, metadata, one connection per broker, routing to leaders, bounded
retries.

In: bootstrap addresses and requests. Out: replies from the right broker. What can be tried again is
tried again until `timeout_s` has passed; then the last error is raised.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from runnel.client.address import Address, parse_addresses
from runnel.client.connection import Connection
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import ClusterView, TopicPartition, TopicView, read_cluster
from runnel.client.security import Settings
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 1.0
# A topic created a moment ago may not have reached the broker that is asked; longer than this it is a typo.
UNKNOWN_TOPIC_PATIENCE_S = 0.3

# A broker answers one connection's requests in order, so what waits there (fetches) gets a connection of its own.
REQUESTS = "requests"
FETCHES = "fetches"
Line: TypeAlias = tuple[Address, str]

Value = TypeVar("Value")
Result = TypeVar("Result")
PartitionReplies = Mapping[TopicPartition, tuple[int, Result]]


class Patience:
    """Waits between attempts: a little longer each time, and never beyond the deadline."""

    def __init__(self, limit_s: float) -> None:
        self._deadline_s = asyncio.get_running_loop().time() + limit_s
        self._pause_s = PAUSE_FIRST_S

    async def wait_or_raise(self, error: ClientError) -> None:
        left_s = self._deadline_s - asyncio.get_running_loop().time()
        if not error.retriable or left_s <= 0:
            raise error
        await asyncio.sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)


class Cluster:
    """Use as `async with Cluster("host:9092") as cluster`. Safe for any number of tasks of one event loop."""

    def __init__(
        self, bootstrap: str, *, client_id: str = "runnel", timeout_s: float = 10.0, security: Settings | None = None
    ) -> None:
        self.bootstrap = parse_addresses(bootstrap)
        self.timeout_s = timeout_s
        self.view = ClusterView(None, -1, {}, {})
        self._client_id = client_id
        self._security = security
        self._connections: dict[Line, Connection] = {}
        self._dialling: defaultdict[Line, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Cluster:
        try:
            await self.refresh(())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))

    # Connections ------------------------------------------------------------------------------------------

    async def dial(self, address: Address, purpose: str = REQUESTS) -> Connection:
        """The connection to an address; however many ask at once, it is dialled once."""
        line = (address, purpose)
        async with self._dialling[line]:
            connection = self._connections.get(line)
            if connection is None or not connection.is_open:
                connection = await Connection.open(
                    address, client_id=self._client_id, timeout_s=self.timeout_s, security=self._security
                )
                self._connections[line] = connection
            return connection

    async def connect(self, node_id: int | None = None, purpose: str = REQUESTS) -> Connection:
        """To one broker, by its advertised address; or, without a node id, to any broker that answers."""
        if node_id is None:
            return await self._connect_any()
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise ClientError(
                f"broker {node_id} is not in the cluster, which has {', '.join(map(str, sorted(self.view.brokers)))}",
                code=ErrorCode.BROKER_NOT_AVAILABLE,
            )
        try:
            return await self.dial(broker.address, purpose)
        except ClientError as error:
            if broker.address in self.bootstrap:
                raise
            raise ClientError(
                f"broker {node_id} advertises {broker.address}, and from here that fails: {error.message} "
                "(`runnel doctor` explains)",
                code=error.code,
            ) from error

    async def _connect_any(self) -> Connection:
        for (_, purpose), connection in self._connections.items():
            if connection.is_open and purpose == REQUESTS:
                return connection
        failures: list[ClientError] = []
        for address in (*self.bootstrap, *(broker.address for broker in self.view.brokers.values())):
            try:
                return await self.dial(address)
            except ClientError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        reasons = "; ".join(dict.fromkeys(failure.message for failure in failures))
        raise ClientError(f"no broker can be reached: {reasons}", code=ErrorCode.NETWORK_EXCEPTION)

    # Metadata ---------------------------------------------------------------------------------------------

    async def refresh(self, topics: Collection[str] | None, *, allow_create: bool = False) -> ClusterView:
        """Ask for the named topics (None: all of them), and remember what is answered."""
        names = None if topics is None else [{"name": name} for name in topics]
        body = {"topics": names, "allow_auto_topic_creation": allow_create}
        connection = await self._connect_any()
        answer = read_cluster(await connection.call(ApiKey.METADATA, body))
        merged = answer.topics if topics is None else {**self.view.topics, **answer.topics}
        self.view = ClusterView(answer.cluster_id, answer.controller_id, answer.brokers, merged)
        return answer

    async def topic(self, name: str, *, create: bool = False) -> TopicView:
        """One topic that exists. With `create`, the broker is asked to create what is missing."""
        patience, unknown_patience = Patience(self.timeout_s), Patience(UNKNOWN_TOPIC_PATIENCE_S)
        while True:
            answer = (await self.refresh((name,), allow_create=create)).topics[name]
            if answer.error_code == 0 and answer.partitions:
                return answer
            error = refused(answer.error_code or ErrorCode.LEADER_NOT_AVAILABLE, f"topic '{name}'")
            unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create
            await (unknown_patience if unknown else patience).wait_or_raise(error)

    async def leader(self, target: TopicPartition, *, fresh: bool = False) -> int:
        """The node that leads a partition now."""
        topic = self.view.topics.get(target.topic)
        if topic is None or fresh or topic.error_code:
            topic = await self.topic(target.topic)
        for partition in topic.partitions:
            if partition.index == target.partition:
                if partition.is_offline:
                    raise refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {target}")
                return partition.leader_id
        raise ClientError(f"topic '{target.topic}' has no partition {target.partition}: {_range_of(topic)}")

    # Calls ------------------------------------------------------------------------------------------------

    async def call(
        self,
        api_key: ApiKey,
        body: Mapping[str, Any],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
    ) -> Struct:
        """One request, tried again on another connection when the network failed."""
        patience = Patience(self.timeout_s)
        while True:
            try:
                connection = await self.connect(node_id)
                wait_s = body.get("timeout_ms", 0) / 1000
                return await connection.call(api_key, body, version_max=version_max, wait_s=wait_s)
            except ClientError as error:
                await patience.wait_or_raise(error)

    async def call_controller(self, api_key: ApiKey, body: Mapping[str, Any]) -> Struct:
        controller_id = self.view.controller_id
        known = controller_id in self.view.brokers
        return await self.call(api_key, body, node_id=controller_id if known else None)

    async def by_leader(
        self, targets: Iterable[TopicPartition], *, fresh: bool = False
    ) -> dict[int, list[TopicPartition]]:
        """Group partitions by the node that leads them."""
        groups: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        refreshed: set[str] = set()
        for target in targets:
            node_id = await self.leader(target, fresh=fresh and target.topic not in refreshed)
            refreshed.add(target.topic)
            groups[node_id].append(target)
        return groups

    async def ask_leaders(
        self,
        wanted: Mapping[TopicPartition, Value],
        ask: Callable[[int, Mapping[TopicPartition, Value]], Awaitable[PartitionReplies[Result]]],
    ) -> dict[TopicPartition, Result]:
        """Ask each partition's leader; ask again, with fresh metadata, what failed for a passing reason."""
        results: dict[TopicPartition, Result] = {}
        patience = Patience(self.timeout_s)
        fresh = False
        while missing := {target: value for target, value in wanted.items() if target not in results}:
            try:
                groups = await self.by_leader(missing, fresh=fresh)
                asked = [ask(node, {target: missing[target] for target in group}) for node, group in groups.items()]
                failure: ClientError | None = None
                for replies in await asyncio.gather(*asked):
                    for target, (code, result) in replies.items():
                        if code == 0:
                            results[target] = result
                        else:
                            failure = failure or refused(code, f"partition {target}")
            except ClientError as error:
                failure = error
            if failure is not None:
                await patience.wait_or_raise(failure)
            elif len(results) < len(wanted):
                await patience.wait_or_raise(_silent(wanted.keys() - results.keys()))
            fresh = True
        return results


def _range_of(topic: TopicView) -> str:
    count = len(topic.partitions)
    return "it has partition 0 only" if count == 1 else f"it has partitions 0 to {count - 1}"


def _silent(targets: Collection[TopicPartition]) -> ClientError:
    names = ", ".join(sorted(map(str, targets)))
    return ClientError(f"the broker's answer leaves out {names}", retriable=True)
