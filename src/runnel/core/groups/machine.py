"""The group machine: the classic coordinator of the groups on one partition of `__consumer_offsets`.

Decide → log → replay. Offsets and group deletions change only by `replay`. Who is a member of what, and who waits, is
soft state as in Kafka: it changes while deciding, is logged when a generation is complete or a group is empty, and is
restored from there. If a turn's records cannot be logged, the machine must be thrown away and loaded from the log.
Time and new member ids are arguments. Parked requests are tokens of the caller's choice.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from runnel.core.groups.deadlines import Due, Entry
from runnel.core.groups.group import Group, GroupState, Member
from runnel.core.groups.joining import NAME_CHARACTERS_MAX, Joining, check_join
from runnel.core.groups.offsets import check_commit, commit_offsets, delete_offsets, expire, removal_records
from runnel.core.groups.rebalancing import Rebalancing
from runnel.core.groups.records import (
    GroupRecord,
    GroupRemoved,
    GroupSaved,
    OffsetCommitted,
    OffsetRemoved,
)
from runnel.core.groups.values import (
    UNKNOWN_MEMBER,
    Commit,
    DescribedMember,
    GroupDescription,
    GroupLimits,
    GroupListing,
    Join,
    JoinReply,
    LeaveReply,
    Leaving,
    Offsets,
    Sync,
    SyncReply,
    Turn,
)
from runnel.wire.errors import ErrorCode, Refusal

NO_OFFSETS: Offsets = {}


class GroupMachine:
    __slots__ = ("_expiry_ms", "_joining", "_rebalancing", "groups", "limits")

    def __init__(self, limits: GroupLimits | None = None) -> None:
        self.limits = limits or GroupLimits()
        self.groups: dict[str, Group] = {}
        self._rebalancing = Rebalancing(self.limits)
        self._joining = Joining(self._rebalancing)
        self._expiry_ms = -1

    # --- members ----------------------------------------------------------------------------------------------

    def join(self, join: Join, token: Any, now_ms: int) -> Turn:
        """A reply of None: the request waits, and a later turn answers its token (or this one already does)."""
        turn = Turn()
        is_new_group = join.group_id not in self.groups
        try:
            check_join(join, self.limits)
            group = self._group_to_join(join, turn, now_ms)
            turn.reply = self._joining.join(group, join, token, turn, now_ms)
        except Refusal as refusal:
            member_id = UNKNOWN_MEMBER if refusal.code is ErrorCode.GROUP_MAX_SIZE_REACHED else join.member_id
            turn.reply = JoinReply(refusal.code, member_id)
            if is_new_group:  # nothing is kept of a group whose first member was refused
                self.groups.pop(join.group_id, None)
                turn.records.clear()
        return turn

    def _group_to_join(self, join: Join, turn: Turn, now_ms: int) -> Group:
        group = self.groups.get(join.group_id)
        if group is None:
            if join.member_id != UNKNOWN_MEMBER:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
            group = self.groups[join.group_id] = Group(join.group_id, now_ms)
            turn.records.append(group.saved())
        return group

    def sync(self, sync: Sync, token: Any, now_ms: int) -> Turn:
        turn = Turn()
        try:
            turn.reply = self._sync(sync, token, turn, now_ms)
        except Refusal as refusal:
            turn.reply = SyncReply(refusal.code)
        return turn

    def _sync(self, sync: Sync, token: Any, turn: Turn, now_ms: int) -> SyncReply | None:
        group = self._known(sync.group_id)
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
            self._rebalancing.heard_of(group, member, now_ms)
            return self._rebalancing.sync_reply(group, member)
        self._rebalancing.answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), turn)
        member.sync_token = token
        if member.member_id == group.leader:
            self._rebalancing.assign(group, dict(sync.assignments), turn, now_ms)
        return None

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> ErrorCode:
        try:
            group = self._known(group_id)
            member = group.check_member(member_id, instance_id)
        except Refusal as refusal:
            return refusal.code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._rebalancing.heard_of(group, member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def leave(self, group_id: str, leaving: Sequence[Leaving], now_ms: int) -> Turn:
        turn = Turn()
        group = self.groups.get(group_id)
        if group is None:
            unknown = [(one, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving]
            turn.reply = LeaveReply(ErrorCode.NONE, unknown) if group_id else LeaveReply(ErrorCode.INVALID_GROUP_ID)
            return turn
        gone: dict[str, None] = {}
        codes = [self._leave_one(group, one, gone) for one in leaving]
        was_pending = any(member_id not in group.members for member_id in gone)
        self._rebalancing.drop(group, [member_id for member_id in gone if member_id in group.members], turn, now_ms)
        if was_pending:
            self._rebalancing.complete_if_all_joined(group, turn, now_ms)
        turn.reply = LeaveReply(ErrorCode.NONE, list(zip(leaving, codes, strict=True)))
        return turn

    @staticmethod
    def _leave_one(group: Group, leaving: Leaving, gone: dict[str, None]) -> ErrorCode:
        """Note who leaves. An administrator removes a static member by its instance alone (KIP-345)."""
        member_id = leaving.member_id
        if leaving.instance_id is None and group.pending.pop(member_id, None) is not None:
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

    def _known(self, group_id: str) -> Group:
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")
        return group

    # --- offsets ----------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, now_ms: int) -> Turn:
        """The reply is one code per offset."""
        turn = Turn()
        try:
            member = self._committing(commit)
        except Refusal as refusal:
            turn.reply = [refusal.code] * len(commit.offsets)
            return turn
        if member is not None:
            self._rebalancing.heard_of(self.groups[commit.group_id], member, now_ms)
        turn.reply = commit_offsets(commit, self.limits, turn, now_ms)
        return turn

    def _committing(self, commit: Commit) -> Member | None:
        group = self.groups.get(commit.group_id)
        if group is not None:
            return check_commit(group, commit)
        if commit.generation >= 0:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"there is no group {commit.group_id}")
        if len(commit.group_id) > NAME_CHARACTERS_MAX:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is too long")
        return None  # the first offset of a consumer that manages its partitions itself makes the group

    def offsets_of(self, group_id: str) -> Offsets:
        """Every committed offset by topic and partition. Not to be changed."""
        group = self.groups.get(group_id)
        return NO_OFFSETS if group is None else group.offsets

    def delete_offsets(self, group_id: str, wanted: Sequence[tuple[str, int]]) -> Turn:
        """The reply is one code per partition. Refusal for the request as a whole."""
        turn = Turn()
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        turn.reply = delete_offsets(group, wanted, turn)
        return turn

    def forget(self, is_gone: Callable[[OffsetCommitted], bool]) -> Turn:
        """Drop the offsets of topics that no longer exist."""
        turn = Turn()
        for group in self.groups.values():
            gone = [offset for offset in group.offsets.values() if is_gone(offset)]
            turn.records += (OffsetRemoved(o.group_id, o.topic, o.partition) for o in gone)
        return turn

    # --- groups -----------------------------------------------------------------------------------------------

    def delete(self, group_id: str) -> Turn:
        """The reply is a code."""
        turn = Turn(reply=ErrorCode.NONE)
        group = self.groups.get(group_id)
        if group is None:
            turn.reply = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            turn.reply = ErrorCode.NON_EMPTY_GROUP
        else:
            turn.records += removal_records(group)
        return turn

    def describe(self, group_id: str) -> GroupDescription | None:
        group = self.groups.get(group_id)
        if group is None:
            return None
        stable = group.state is GroupState.STABLE
        members = [_described(member, group.protocol if stable else None) for member in group.members.values()]
        protocol = (group.protocol or "") if stable else ""
        return GroupDescription(group_id, group.state.value, group.protocol_type or "", protocol, members)

    def listing(self, states: Collection[str] = ()) -> list[GroupListing]:
        """All groups, or those in one of these states (lower case)."""
        return [
            GroupListing(group.group_id, group.protocol_type or "", group.state.value)
            for group in self.groups.values()
            if not states or group.state.value.lower() in states
        ]

    # --- time -------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to look at; None: never."""
        due_ms = self._rebalancing.deadlines.next_ms()
        if not self.groups:
            return due_ms
        return self._expiry_ms if due_ms is None else min(due_ms, self._expiry_ms)

    def tick(self, now_ms: int) -> Turn:
        """Everything that is due by now."""
        turn = Turn()
        while (entry := self._rebalancing.deadlines.pop_due(now_ms)) is not None:
            group = self.groups.get(entry.group_id)
            if group is not None:
                self._due(entry, group, turn, now_ms)
        if now_ms >= self._expiry_ms:
            if self._expiry_ms >= 0:
                expire(self.groups.values(), self.limits, turn, now_ms)
            self._expiry_ms = now_ms + self.limits.expiry_interval_ms
        return turn

    def _due(self, entry: Entry, group: Group, turn: Turn, now_ms: int) -> None:
        if entry.due is Due.JOIN and group.join_deadline_ms == entry.at_ms and group.state is GroupState.PREPARING:
            self._rebalancing.join_time_is_up(group, turn, now_ms)
        elif entry.due is Due.SYNC and group.sync_deadline_ms == entry.at_ms and group.unsynced:
            self._rebalancing.sync_time_is_up(group, turn, now_ms)
        elif entry.due is Due.PENDING and group.pending.get(entry.member_id) == entry.at_ms:
            del group.pending[entry.member_id]
            self._rebalancing.complete_if_all_joined(group, turn, now_ms)
        elif entry.due is Due.SESSION:
            self._session_due(entry, group, turn, now_ms)

    def _session_due(self, entry: Entry, group: Group, turn: Turn, now_ms: int) -> None:
        member = group.members.get(entry.member_id)
        if member is None or member.scheduled_ms != entry.at_ms:
            return
        member.scheduled_ms = -1
        if member.is_awaiting and not member.is_new:  # whoever waits for us is alive
            self._rebalancing.heard_of(group, member, now_ms)
        elif member.deadline_ms > now_ms:
            self._rebalancing.deadlines.session(group, member, member.deadline_ms)
        else:
            self._rebalancing.drop(group, [member.member_id], turn, now_ms)

    # --- replay -----------------------------------------------------------------------------------------------

    def replay(self, records: Iterable[GroupRecord]) -> None:
        """Apply the logged records of a turn of this machine: its soft state is ahead of them already."""
        for record in records:
            if not isinstance(record, GroupSaved):
                self._replay_one(record)

    def load(self, records: Iterable[GroupRecord]) -> None:
        """Apply records of an earlier life."""
        for record in records:
            if isinstance(record, GroupSaved):
                self._group(record.group_id, record.state_ms).restore(record)
            else:
                self._replay_one(record)

    def _replay_one(self, record: GroupRecord) -> None:
        if isinstance(record, OffsetCommitted):
            group = self._group(record.group_id, record.commit_ms)
            group.offsets[record.topic, record.partition] = record
        elif isinstance(record, OffsetRemoved):
            known = self.groups.get(record.group_id)
            if known is not None:
                known.offsets.pop((record.topic, record.partition), None)
        elif isinstance(record, GroupRemoved):
            self.groups.pop(record.group_id, None)

    def _group(self, group_id: str, now_ms: int) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, now_ms)
        return group

    def loaded(self, now_ms: int) -> None:
        """The log is read: the sessions of the restored members begin anew."""
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalancing.heard_of(group, member, now_ms)
        self._expiry_ms = now_ms + self.limits.expiry_interval_ms


def _described(member: Member, protocol: str | None) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(protocol) if protocol is not None else b"",
        member.assignment,
    )
