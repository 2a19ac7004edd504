"""The rounds of a group: prepare a rebalance, complete the joins, hand out assignments, lose members.

The rules are Kafka's classic coordinator's. Each method changes the group, and notes in the turn what has to be
logged and which parked requests have their answer.
"""

from runnel.core.groups.classic.group import ClassicGroup, GroupState, Member
from runnel.core.groups.deadlines import Due
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import GroupLimits, JoinReply, SyncReply, Turn
from runnel.wire.errors import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member has no id to send heartbeats with until its join is answered; it is kept this long (as in Kafka)."""


class Rebalancing:
    __slots__ = ("_store", "deadlines")

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self.deadlines = store.deadlines

    @property
    def limits(self) -> GroupLimits:
        return self._store.limits

    # --- answering --------------------------------------------------------------------------------------------

    @staticmethod
    def answer_join(member: Member, reply: JoinReply, turn: Turn) -> None:
        if member.join_token is not None:
            turn.answers.append((member.join_token, reply))
            member.join_token = None

    @staticmethod
    def answer_sync(member: Member, reply: SyncReply, turn: Turn) -> None:
        if member.sync_token is not None:
            turn.answers.append((member.sync_token, reply))
            member.sync_token = None

    def park_join(self, member: Member, token: object, turn: Turn) -> None:
        """One join per member waits; an earlier one comes from a connection that was given up."""
        self.answer_join(member, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), turn)
        member.join_token = token

    @staticmethod
    def join_reply(group: ClassicGroup, member: Member) -> JoinReply:
        """The current generation as this member may see it: only the leader learns who else is there."""
        is_leader = member.member_id == group.leader
        return JoinReply(
            ErrorCode.NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or "",
            members=member_rows(group) if is_leader else (),
        )

    @staticmethod
    def sync_reply(group: ClassicGroup, member: Member) -> SyncReply:
        return SyncReply(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)

    def heard_of(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        self.deadlines.set(Due.SESSION, group.group_id, member.member_id, now_ms + member.session_timeout_ms)

    # --- a rebalance ------------------------------------------------------------------------------------------

    def rebalance(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        """Begin one if the group is in no position to be joined, else see whether everybody is there."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING, GroupState.EMPTY):
            self._prepare(group, turn, now_ms)
        else:
            self.complete_if_all_joined(group, turn, now_ms)

    def _prepare(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        if group.state is GroupState.COMPLETING:
            self._drop_assignments(group, turn, now_ms)
        group.is_first_rebalance = group.state is GroupState.EMPTY
        group.members_added = False
        group.unsynced.clear()
        self.deadlines.cancel(Due.SYNC, group.group_id)
        group.become(GroupState.PREPARING, now_ms)
        if not group.is_first_rebalance:
            self._wait_for_joins(group, group.rebalance_timeout_ms, now_ms)
            self.complete_if_all_joined(group, turn, now_ms)
            return
        delay_ms = self.limits.initial_delay_ms
        group.join_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms > 0:
            self._wait_for_joins(group, delay_ms, now_ms)
        else:
            self.complete_joins(group, turn, now_ms)

    def _wait_for_joins(self, group: ClassicGroup, timeout_ms: int, now_ms: int) -> None:
        self.deadlines.set(Due.JOIN, group.group_id, "", now_ms + timeout_ms)

    def _drop_assignments(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.sync_token is not None:
                self.answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), turn)
                self.heard_of(group, member, now_ms)

    def complete_if_all_joined(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        waiting_for_more = group.is_first_rebalance  # the initial delay decides then
        if group.state is GroupState.PREPARING and not waiting_for_more and group.all_joined():
            self.complete_joins(group, turn, now_ms)

    def join_time_is_up(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        delay_ms = min(self.limits.initial_delay_ms, group.join_remaining_ms)
        if group.is_first_rebalance and group.members_added and delay_ms > 0:
            group.members_added = False
            group.join_remaining_ms -= delay_ms
            self._wait_for_joins(group, delay_ms, now_ms)
        else:
            self.complete_joins(group, turn, now_ms)

    def complete_joins(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        """Whoever has joined makes the next generation; dynamic members that have not are out."""
        absent = [m for m in group.members.values() if m.join_token is None and m.instance_id is None]
        for member in absent:
            group.remove(member.member_id)
        if group.members and not group.elect_leader():
            # Only static members are left and none of them is back: wait for another round (KIP-345).
            self._wait_for_joins(group, group.rebalance_timeout_ms, now_ms)
            return
        self.deadlines.cancel(Due.JOIN, group.group_id)
        group.is_first_rebalance = False
        group.generation = _following(group.generation)
        if group.members:
            self._begin_generation(group, turn, now_ms)
        else:
            self._be_empty(group, turn, now_ms)

    def _be_empty(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        group.protocol = None
        group.leader = None
        group.become(GroupState.EMPTY, now_ms)
        turn.records.append(group.saved())

    def _begin_generation(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        group.protocol = group.select_protocol()
        group.become(GroupState.COMPLETING, now_ms)
        for member in group.members.values():
            member.is_new = False
            member.assignment = b""
            self.answer_join(member, self.join_reply(group, member), turn)
            self.heard_of(group, member, now_ms)
            group.unsynced.add(member.member_id)
        self.deadlines.set(Due.SYNC, group.group_id, "", now_ms + group.rebalance_timeout_ms)

    def sync_time_is_up(self, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        """Members that joined and did not ask for their assignment are out, whatever their heartbeats say."""
        late = list(group.unsynced)
        group.unsynced.clear()
        for member_id in late:
            self._drop(group, member_id, turn)
        if late:
            self.rebalance(group, turn, now_ms)

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], turn: Turn, now_ms: int) -> None:
        """The leader has spoken: the generation is logged and everybody who waits gets their part."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.become(GroupState.STABLE, now_ms)
        turn.records.append(group.saved())
        for member in group.members.values():
            if member.sync_token is not None:
                self.answer_sync(member, self.sync_reply(group, member), turn)
                self.heard_of(group, member, now_ms)

    # --- losing members ---------------------------------------------------------------------------------------

    def _drop(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        member = group.remove(member_id)
        if member is not None:
            self.answer_join(member, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID), turn)
            self.answer_sync(member, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID), turn)

    def drop(self, group: ClassicGroup, member_ids: list[str], turn: Turn, now_ms: int) -> None:
        """These members are gone; the others share their work anew."""
        for member_id in member_ids:
            self._drop(group, member_id, turn)
        if member_ids and group.state in (GroupState.STABLE, GroupState.COMPLETING, GroupState.PREPARING):
            self.rebalance(group, turn, now_ms)


def member_rows(group: ClassicGroup) -> list[tuple[str, str | None, bytes]]:
    return [(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values()]


def _following(generation: int) -> int:
    return generation + 1 if generation < 2**31 - 1 else 1
