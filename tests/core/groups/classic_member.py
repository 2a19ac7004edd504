"""A classic member, eager or cooperative, as it behaves in groups of either protocol: rejoins when it is told to, says
what it has, and takes what SyncGroup gives it. Where it leads, it assigns round robin."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any

from consumer_cluster import Cluster

from runnel.core.groups import JoinReply, Leaving, SyncReply
from runnel.core.groups.embedded import read_assignment, read_subscription, write_assignment
from runnel.wire.errors import ErrorCode
from runnel.wire.primitives import legacy_string

Owned = dict[str, tuple[int, ...]]


def subscription(topics: Sequence[str], owned: Owned | None = None, version: int = 3, rack: str | None = None) -> bytes:
    parts = [pack(">hi", version, len(topics)), *map(legacy_string, topics), pack(">i", -1)]
    if version >= 1:
        parts.append(pack(">i", len(owned or {})))
        for topic, numbers in (owned or {}).items():
            parts += (legacy_string(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers))
    if version >= 2:
        parts.append(pack(">i", -1))
    if version >= 3:
        parts.append(legacy_string(rack))
    return b"".join(parts)


class ClassicConsumer:
    """Requests that wait are answered by later turns: `collect` looks for the answers."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str] = ("t",),
        *,
        cooperative: bool = True,
        instance_id: str | None = None,
    ) -> None:
        self.cluster = cluster
        self.topics = topics
        self.cooperative = cooperative
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = {}
        self.must_rejoin = True
        self.join_token: int | None = None
        self.sync_token: int | None = None

    @property
    def protocol(self) -> str:
        return "cooperative-sticky" if self.cooperative else "range"

    @property
    def partitions(self) -> list[int]:
        return sorted(number for numbers in self.owned.values() for number in numbers)

    # --- one step ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Whatever is next: an answer, a join, a heartbeat."""
        self.collect()
        if self.join_token is not None or self.sync_token is not None:
            return
        if self.must_rejoin:
            self.start_join()
        else:
            self._beat()

    def start_join(self) -> None:
        if not self.cooperative:
            self.owned = {}  # eager: everything is given up first
        metadata = subscription(self.topics, self.owned, 3 if self.cooperative else 1)
        self.join_token, _ = self.cluster.start_join(
            self.member_id,
            self.instance_id,
            protocols=((self.protocol, metadata),),
            client_id="classic",
            member_id_required=self.instance_id is None,
        )
        self.collect()

    def collect(self) -> None:
        if self.join_token is not None and self.join_token in self.cluster.answers:
            reply = self.cluster.answers[self.join_token]
            self.join_token = None
            self._joined(reply)
        if self.sync_token is not None and self.sync_token in self.cluster.answers:
            reply = self.cluster.answers[self.sync_token]
            self.sync_token = None
            self._synced(reply)

    def _joined(self, reply: JoinReply) -> None:
        if reply.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self.start_join()
        elif reply.code is ErrorCode.NONE:
            self.member_id, self.generation = reply.member_id, reply.generation
            leads = reply.leader == reply.member_id and not reply.skip_assignment
            self._start_sync(reply, self._assign(reply) if leads else {})
        else:
            self._fail(reply.code)

    def _start_sync(self, joined: JoinReply, assignments: dict[str, bytes]) -> None:
        self.sync_token = self.cluster.start_sync(joined, assignments, instance_id=self.instance_id)
        self.collect()

    def _assign(self, joined: JoinReply) -> dict[str, bytes]:
        """Round robin over the members that want a topic; a cooperative leader holds back what another still has."""
        wanted = {member_id: read_subscription(metadata) for member_id, _, metadata in joined.members}
        owners = {(t, p): m for m, s in wanted.items() for t, ps in s.owned.items() for p in ps}
        given: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in wanted}
        for topic, found in sorted(self.cluster.topics.items()):
            readers = sorted(member_id for member_id, s in wanted.items() if topic in s.topics)
            for number in range(len(found.partitions) if readers else 0):
                reader = readers[number % len(readers)]
                if not self.cooperative or owners.get((topic, number), reader) == reader:
                    given[reader].setdefault(topic, []).append(number)
        return {member_id: write_assignment(topics, 3) for member_id, topics in given.items()}

    def _synced(self, reply: SyncReply) -> None:
        if reply.code is not ErrorCode.NONE:
            self._fail(reply.code)
            return
        given = read_assignment(reply.assignment)
        lost = {(t, p) for t, ps in self.owned.items() for p in ps} - {(t, p) for t, ps in given.items() for p in ps}
        self.owned = given
        self.must_rejoin = self.cooperative and bool(lost)  # KIP-429: what was given up is assigned in another round

    def _beat(self) -> None:
        code = self.cluster.machine.heartbeat(
            "g", self.generation, self.member_id, self.instance_id, self.cluster.now_ms
        )
        if code is not ErrorCode.NONE:
            self._fail(code)

    def _fail(self, code: ErrorCode) -> None:
        self.must_rejoin = True
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return
        self.owned = {}  # lost
        self.generation = -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    def leave(self) -> Any:
        self.owned = {}
        return self.cluster.leave(Leaving(self.member_id, self.instance_id))


def run(*members: Any, rounds: int = 30) -> None:
    """Everybody takes one step after the other."""
    for _ in range(rounds):
        for member in members:
            member.step() if isinstance(member, ClassicConsumer) else member.beat()
