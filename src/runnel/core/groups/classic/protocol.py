"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and what time brings, for classic groups."""

from collections.abc import Sequence
from typing import Any

from runnel.core.groups.classic.group import ClassicGroup, GroupState
from runnel.core.groups.classic.joining import Joining
from runnel.core.groups.classic.rebalancing import Rebalancing
from runnel.core.groups.deadlines import Deadline, Due
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import UNKNOWN_MEMBER, Join, JoinReply, LeaveReply, Leaving, Sync, SyncReply, Turn
from runnel.wire.errors import ErrorCode, Refusal


class ClassicProtocol:
    __slots__ = ("_joining", "_store", "rebalancing")

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self.rebalancing = Rebalancing(store)
        self._joining = Joining(self.rebalancing)

    # --- requests ---------------------------------------------------------------------------------------------

    def join(self, join: Join, token: Any, turn: Turn, now_ms: int) -> JoinReply | None:
        """None: the request waits, and a later turn answers its token (or this one already does)."""
        groups, before = self._store.groups, self._store.groups.get(join.group_id)
        if isinstance(before, ClassicGroup):
            return self._joining.join(before, join, token, turn, now_ms)
        if join.member_id != UNKNOWN_MEMBER:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if before is not None:  # an empty consumer group: the first to join decides on the protocol
            turn.records += before.removal_records()
        group = groups[join.group_id] = ClassicGroup(join.group_id, now_ms)
        turn.records.append(group.saved())
        try:
            return self._joining.join(group, join, token, turn, now_ms)
        except Refusal:  # nothing is kept of a group whose first member was refused
            turn.records.clear()
            del groups[join.group_id]
            if before is not None:
                groups[join.group_id] = before
            raise

    def sync(self, group: ClassicGroup, sync: Sync, token: Any, turn: Turn, now_ms: int) -> SyncReply | None:
        """None: as for `join`."""
        member = group.check_member(sync.member_id, sync.instance_id)
        if sync.generation != group.generation:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION)
        if (sync.protocol_type or group.protocol_type) != group.protocol_type:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if (sync.protocol or group.protocol) != group.protocol:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.PREPARING:
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        if group.state not in (GroupState.COMPLETING, GroupState.STABLE):
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        group.unsynced.discard(member.member_id)
        if group.state is GroupState.STABLE:
            self.rebalancing.heard_of(group, member, now_ms)
            return self.rebalancing.sync_reply(group, member)
        self.rebalancing.answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), turn)
        member.sync_token = token
        if member.member_id == group.leader:
            self.rebalancing.assign(group, dict(sync.assignments), turn, now_ms)
        return None

    def heartbeat(
        self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> ErrorCode:
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.rebalancing.heard_of(group, member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def leave(self, group: ClassicGroup, leaving: Sequence[Leaving], turn: Turn, now_ms: int) -> LeaveReply:
        gone: dict[str, None] = {}
        codes = [self._leave_one(group, one, gone) for one in leaving]
        was_pending = any(member_id not in group.members for member_id in gone)
        self.rebalancing.drop(group, [member_id for member_id in gone if member_id in group.members], turn, now_ms)
        if was_pending:
            self.rebalancing.complete_if_all_joined(group, turn, now_ms)
        return LeaveReply(ErrorCode.NONE, list(zip(leaving, codes, strict=True)))

    @staticmethod
    def _leave_one(group: ClassicGroup, leaving: Leaving, gone: dict[str, None]) -> ErrorCode:
        """Note who leaves. An administrator removes a static member by its instance alone (KIP-345)."""
        member_id = leaving.member_id
        if leaving.instance_id is None and member_id in group.pending:
            group.pending.discard(member_id)
            gone[member_id] = None
            return ErrorCode.NONE
        if leaving.instance_id is not None and member_id == UNKNOWN_MEMBER:
            member_id = group.static_members.get(leaving.instance_id, UNKNOWN_MEMBER)
        try:
            group.check_member(member_id, leaving.instance_id)
        except Refusal as refusal:
            return refusal.code
        if member_id in gone:
            return ErrorCode.UNKNOWN_MEMBER_ID
        gone[member_id] = None
        return ErrorCode.NONE

    # --- time -------------------------------------------------------------------------------------------------

    def due(self, deadline: Deadline, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        if deadline.due is Due.JOIN and group.state is GroupState.PREPARING:
            self.rebalancing.join_time_is_up(group, turn, now_ms)
        elif deadline.due is Due.SYNC and group.unsynced:
            self.rebalancing.sync_time_is_up(group, turn, now_ms)
        elif deadline.due is Due.PENDING and deadline.member_id in group.pending:
            group.pending.discard(deadline.member_id)
            self.rebalancing.complete_if_all_joined(group, turn, now_ms)
        elif deadline.due is Due.SESSION:
            self._session_due(deadline, group, turn, now_ms)

    def _session_due(self, deadline: Deadline, group: ClassicGroup, turn: Turn, now_ms: int) -> None:
        member = group.members.get(deadline.member_id)
        if member is None:
            return
        if member.is_awaiting and not member.is_new:  # whoever waits for us is alive
            self.rebalancing.heard_of(group, member, now_ms)
        else:
            self.rebalancing.drop(group, [member.member_id], turn, now_ms)

    def loaded(self, group: ClassicGroup, now_ms: int) -> None:
        """Sessions of restored members begin anew. A group without a leader still has to rebalance (`migration`)."""
        for member in group.members.values():
            self.rebalancing.heard_of(group, member, now_ms)
        if group.members and group.leader is None:
            self.rebalancing.rebalance(group, Turn(), now_ms)  # nobody waits yet: there is nothing to log or answer
