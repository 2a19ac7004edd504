"""Members of groups as tasks of one event loop, by the hundred: raw requests, and a ledger of who owns what.

In: a broker's address, a topic, chance. Out: violations, of which there must be none, and where everybody ended up.
Each member is a connection of its own, behaves as a consumer must, and now and then leaves, crashes or comes back.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from runnel.client.address import parse_addresses
from runnel.client.connection import Connection
from runnel.client.consumer_protocol import decode_assignment
from runnel.client.errors import ClientError
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

REPLY_SECONDS = 120.0
BEAT_SECONDS = 0.4
SESSION_MS = 6_000
REBALANCE_MS = 20_000


class Ledger:
    """Who owns which partition, as the members see it."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.generations: defaultdict[int, dict[int, str]] = defaultdict(dict)
        self.owners: dict[int, ConsumerMember] = {}
        self.crashes = self.departures = 0

    def classic(self, generation: int, member_id: str, partitions: Iterable[int]) -> None:
        """In one generation a partition has one owner."""
        for partition in partitions:
            other = self.generations[generation].setdefault(partition, member_id)
            if other != member_id:
                self.violations.append(f"generation {generation}: partition {partition} of {other} and {member_id}")

    def got(self, member: ConsumerMember, partitions: Iterable[int]) -> None:
        """Nobody gets what a living member has not given up. Who was silent for a session may have been fenced."""
        for partition in partitions:
            other = self.owners.get(partition)
            if other is not None and other is not member and other.silent_ms() < SESSION_MS:
                self.violations.append(f"partition {partition} of {other.member_id} went to {member.member_id}")
            self.owners[partition] = member

    def gave_up(self, member: ConsumerMember, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if self.owners.get(partition) is member:
                del self.owners[partition]


class Member:
    """What both kinds of member have in common: one connection, a life with chances, an end."""

    def __init__(self, address: str, group: str, topic: str, ledger: Ledger, chance: random.Random) -> None:
        self._address = parse_addresses(address)[0]
        self._connection: Connection | None = None
        self.group = group
        self.topic = topic
        self.ledger = ledger
        self.chance = chance
        self.member_id = ""
        self.partitions: frozenset[int] = frozenset()
        self.is_settled = False
        self.restless = True
        """Whether it still leaves and crashes; when the storm is over, it stays."""

    async def call(self, api_key: ApiKey, body: dict[str, Any], version_max: int | None = None) -> Any:
        if self._connection is None or not self._connection.is_open:
            self._connection = await Connection.open(self._address, client_id="storm", timeout_s=REPLY_SECONDS)
        return await self._connection.call(api_key, body, version_max=version_max)

    async def hang_up(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        self._connection = None

    async def live(self, over: asyncio.Event) -> None:
        """Join, beat, and be unlucky, until the test ends it all; then leave."""
        while not over.is_set():
            try:
                await self.step()
            except ClientError as error:
                self.ledger.violations.append(f"{self.member_id}: {error}")
                return
            if self.restless and self.is_settled and self.chance.random() < 0.1:
                await self.be_unlucky()
            await _pause(over, BEAT_SECONDS)
        await self.leave()
        await self.hang_up()

    async def be_unlucky(self) -> None:
        if self.chance.random() < 0.4:
            self.ledger.crashes += 1
            self.forget()  # nobody is told
            await self.hang_up()
        else:
            self.ledger.departures += 1
            await self.leave()

    def forget(self) -> None:
        self.member_id, self.partitions, self.is_settled = "", frozenset(), False

    async def step(self) -> None:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; the leader deals partitions out in turn."""

    def __init__(self, *common: Any, partition_count: int) -> None:
        super().__init__(*common)
        self._partition_count = partition_count
        self.generation = -1

    async def step(self) -> None:
        if not self.is_settled:
            await self._join()
            return
        body = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        reply = await self.call(ApiKey.HEARTBEAT, body)
        if reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif reply.error_code:
            self.is_settled = False

    async def _join(self) -> None:
        body = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": _subscription(self.topic)}],
        }
        joined = await self.call(ApiKey.JOIN_GROUP, body)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if joined.error_code:
            self.forget()
            return
        self.member_id, self.generation = joined.member_id, joined.generation_id
        await self._sync([row.member_id for row in joined.members] if joined.leader == joined.member_id else [])

    async def _sync(self, members: Sequence[str]) -> None:
        shares = {
            member_id: range(index, self._partition_count, len(members)) for index, member_id in enumerate(members)
        }
        rows = [{"member_id": name, "assignment": _assignment(self.topic, share)} for name, share in shares.items()]
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": rows,
        }
        synced = await self.call(ApiKey.SYNC_GROUP, body)
        if synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        if synced.error_code:
            return
        assigned = decode_assignment(bytes(synced.assignment)) or ()
        self.partitions = frozenset(target.partition for target in assigned)
        self.ledger.classic(self.generation, self.member_id, self.partitions)
        self.is_settled = True

    async def leave(self) -> None:
        if self.member_id:
            members = [{"member_id": self.member_id, "group_instance_id": None}]
            body = {"group_id": self.group, "member_id": self.member_id, "members": members}
            await self.call(ApiKey.LEAVE_GROUP, body)
        self.forget()


class ConsumerMember(Member):
    """ConsumerGroupHeartbeat: takes what it is given, gives up what it is told to, and says so with the next beat."""

    def __init__(self, *common: Any) -> None:
        super().__init__(*common)
        self.epoch = 0
        self._heard_at = time.monotonic()

    def silent_ms(self) -> float:
        return (time.monotonic() - self._heard_at) * 1000

    async def step(self) -> None:
        joins = self.epoch == 0
        if joins:
            self.member_id = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        body: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": self._reported() if not joins else [],
        }
        reply = await self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)
        self._heard_at = time.monotonic()
        if reply.error_code:
            self.forget()
            return
        before, self.epoch = self.epoch, reply.member_epoch
        if reply.assignment is not None:
            self._take({index for row in reply.assignment.topic_partitions for index in row.partitions})
            self._topic_ids = [row.topic_id for row in reply.assignment.topic_partitions] or self._topic_ids
        self.is_settled = before == self.epoch

    _topic_ids: Sequence[uuid.UUID] = ()

    def _reported(self) -> list[dict[str, Any]]:
        return [{"topic_id": self._topic_ids[0], "partitions": sorted(self.partitions)}] if self.partitions else []

    def _take(self, assigned: set[int]) -> None:
        self.ledger.gave_up(self, self.partitions - assigned)
        self.ledger.got(self, assigned - self.partitions)
        self.partitions = frozenset(assigned)

    def forget(self) -> None:
        self.ledger.gave_up(self, self.partitions)
        self.epoch = 0
        super().forget()

    async def leave(self) -> None:
        if self.epoch:
            body = {"group_id": self.group, "member_id": self.member_id, "member_epoch": -1}
            self.ledger.gave_up(self, self.partitions)
            await self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)
        self.forget()


async def _pause(over: asyncio.Event, seconds: float) -> None:
    """Between two heartbeats: that is the protocol's own pace, and the end interrupts it."""
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _subscription(topic: str) -> bytes:
    return struct.pack(">hi", 0, 1) + _text(topic) + struct.pack(">i", -1)


def _assignment(topic: str, partitions: Iterable[int]) -> bytes:
    numbers = list(partitions)
    listed = _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return struct.pack(">hi", 0, 1) + listed + struct.pack(">i", -1)
