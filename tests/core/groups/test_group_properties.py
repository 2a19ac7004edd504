"""Members that behave at random, crashes included: what must hold whatever they do."""

from __future__ import annotations

from typing import Any

from group_cluster import Coordinator
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runnel.core.groups import GroupSaved, JoinReply, Leaving, NewOffset, SyncReply
from runnel.wire.errors import ErrorCode

SLOTS = st.integers(0, 4)
PARKED_MS_MAX = 700_000
"""A new member's five minutes, a rebalance timeout and a session, twice over: by then every join has its answer."""


class Client:
    """One consumer as far as the coordinator can see it."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.joined: JoinReply | None = None


class GroupsAtRandom(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.groups = Coordinator()
        self.clients = [Client(None), Client(None), Client(None), Client("one"), Client("two")]
        self.parked: dict[int, int] = {}
        self.assigned: dict[tuple[int, bytes], str] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.generation = 0

    def _collect(self) -> None:
        for client in self.clients:
            reply = self._take(client, "join_token")
            if isinstance(reply, JoinReply):
                self._joined(client, reply)
            reply = self._take(client, "sync_token")
            if isinstance(reply, SyncReply) and reply.code is ErrorCode.NONE and client.joined is not None:
                self._synced(client, client.joined, reply.assignment)
        self.parked = {token: since for token, since in self.parked.items() if token not in self.groups.answers}

    def _take(self, client: Client, name: str) -> Any:
        token = getattr(client, name)
        if token is None or token not in self.groups.answers:
            return None
        setattr(client, name, None)
        return self.groups.answers[token]

    def _joined(self, client: Client, reply: JoinReply) -> None:
        if reply.code is ErrorCode.NONE:
            client.member_id, client.joined = reply.member_id, reply
        elif reply.code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
        elif reply.code is not ErrorCode.REBALANCE_IN_PROGRESS:
            client.member_id, client.joined = "", None

    def _synced(self, client: Client, joined: JoinReply, assignment: bytes) -> None:
        """Parts of one generation are disjoint: nobody gets what another one got."""
        if assignment:
            owner = client.instance_id or client.member_id
            assert self.assigned.setdefault((joined.generation, assignment), owner) == owner

    # --- what clients do --------------------------------------------------------------------------------------

    @rule(slot=SLOTS, required=st.booleans())
    def join(self, slot: int, required: bool) -> None:
        client = self.clients[slot]
        required = required and client.instance_id is None
        token, reply = self.groups.start_join(client.member_id, client.instance_id, member_id_required=required)
        client.join_token = token
        if reply is None:
            self.parked[token] = self.groups.now_ms

    @rule(slot=SLOTS)
    def sync(self, slot: int) -> None:
        client = self.clients[slot]
        if client.joined is not None:
            generation = client.joined.generation
            rows = {row[0]: f"{generation} {row[1] or row[0]}".encode() for row in client.joined.members}
            client.sync_token = self.groups.start_sync(client.joined, rows, instance_id=client.instance_id)

    @rule(slot=SLOTS)
    def heartbeat(self, slot: int) -> None:
        client = self.clients[slot]
        if client.joined is not None:
            self.groups.heartbeat(client.joined, client.instance_id)

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        self.groups.leave(Leaving(client.member_id, client.instance_id))
        client.member_id, client.joined = "", None

    @rule(slot=SLOTS)
    def forget_everything(self, slot: int) -> None:
        """The client's process dies and comes back."""
        self.clients[slot] = Client(self.clients[slot].instance_id)

    @rule(slot=SLOTS, partition=st.integers(0, 3), offset=st.integers(0, 1000))
    def commit(self, slot: int, partition: int, offset: int) -> None:
        client = self.clients[slot]
        new = NewOffset("t", partition, offset)
        codes = self.groups.commit(new, joined=client.joined, instance_id=client.instance_id)
        if codes == [ErrorCode.NONE]:
            self.offsets["t", partition] = offset

    @rule(milliseconds=st.sampled_from([1, 3_000, 11_000, 61_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.groups.advance(milliseconds)
        if not self.groups.machine.groups:  # an empty group without offsets expired
            assert self.offsets == {}

    @rule()
    def crash(self) -> None:
        self.groups.restart()
        # A generation that was never logged is forgotten; its number, and what was assigned in it, may come again.
        saved = [r for r in self.groups.records() if isinstance(r, GroupSaved)]
        last = saved[-1].generation if saved else 0
        self.assigned = {key: owner for key, owner in self.assigned.items() if key[0] <= last}
        self.generation = 0
        self.parked.clear()
        for client in self.clients:
            client.join_token = client.sync_token = None

    # --- what must hold ---------------------------------------------------------------------------------------

    @invariant()
    def generations_do_not_go_back(self) -> None:
        self._collect()
        group = self.groups.machine.groups.get("g")
        now = group.generation if group is not None else 0
        assert now >= self.generation or group is None or now == 0
        self.generation = now

    @invariant()
    def offsets_are_those_that_were_acknowledged(self) -> None:
        assert self.groups.committed() == self.offsets

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        assert all(self.groups.now_ms - since <= PARKED_MS_MAX for since in self.parked.values())

    def teardown(self) -> None:
        self.groups.advance(PARKED_MS_MAX)
        self._collect()
        assert not self.parked, "a join was never answered"
        self.groups.advance(PARKED_MS_MAX)
        group = self.groups.machine.groups.get("g")
        assert group is None or not group.members, "silent members are still there"


GroupsAtRandom.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestGroupsAtRandom = GroupsAtRandom.TestCase
