"""Members that go: on their own, for a while (static ones), removed by an administrator, or because they fell silent.

The group begins an epoch without them. When the last member that speaks the consumer protocol goes and classic ones
stay, the group goes back to the classic protocol (`migration`).
"""

from collections.abc import Sequence

from runnel.core.groups.consumer.acknowledgements import Acknowledgements
from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.membership import known_member, remove_member
from runnel.core.groups.consumer.subscriptions import begin_epoch, forget_regex
from runnel.core.groups.consumer.timing import Timing
from runnel.core.groups.consumer.values import LEAVES_FOR_NOW, Heartbeat, HeartbeatReply
from runnel.core.groups.deadlines import Deadline, Due
from runnel.core.groups.migration import Migration
from runnel.core.groups.records import MemberState
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import UNKNOWN_MEMBER, LeaveReply, Leaving, Turn
from runnel.wire.errors import ErrorCode, Refusal


class Departures:
    __slots__ = ("_acknowledgements", "_migration", "_store", "_timing")

    def __init__(
        self, store: GroupStore, timing: Timing, acknowledgements: Acknowledgements, migration: Migration
    ) -> None:
        self._store = store
        self._timing = timing
        self._acknowledgements = acknowledgements
        self._migration = migration

    def leave(self, group: ConsumerGroup, beat: Heartbeat, turn: Turn, now_ms: int) -> HeartbeatReply:
        """ConsumerGroupHeartbeat with an epoch below zero."""
        member = known_member(group, beat.member_id, beat.instance_id)
        if beat.epoch == LEAVES_FOR_NOW:
            self._pause(group, member.member_id, turn)
        else:
            self.remove(group, [member.member_id], turn, now_ms)
        return HeartbeatReply(member_id=member.member_id, epoch=beat.epoch)

    def _pause(self, group: ConsumerGroup, member_id: str, turn: Turn) -> None:
        """A static member will be back within its session: it keeps its partitions, but for those it gave up."""
        self._timing.paused(group.group_id, member_id)
        current = group.current_of(member_id)
        assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in current.assigned.items()}
        turn.records.append(
            current._replace(epoch=LEAVES_FOR_NOW, state=MemberState.STABLE, assigned=assigned, revoking={})
        )

    def leave_group(self, group: ConsumerGroup, leaving: Sequence[Leaving], turn: Turn, now_ms: int) -> LeaveReply:
        """LeaveGroup: of classic members, or of an administrator, who names a static member by its instance alone."""
        gone: dict[str, None] = {}
        codes = [_leave_one(group, one, gone) for one in leaving]
        self.remove(group, list(gone), turn, now_ms)
        return LeaveReply(ErrorCode.NONE, list(zip(leaving, codes, strict=True)))

    def due(self, deadline: Deadline, group: ConsumerGroup, turn: Turn, now_ms: int) -> None:
        """Silent for a session, or slow for a rebalance timeout: the member is out. That its id was once given out by a
        classic group, and had to be used in time, does not matter any more."""
        if deadline.due is not Due.PENDING and deadline.member_id in group.members:
            self.remove(group, [deadline.member_id], turn, now_ms)

    def remove(self, group: ConsumerGroup, member_ids: Sequence[str], turn: Turn, now_ms: int) -> None:
        if not member_ids:
            return
        for member_id in member_ids:
            self._timing.forget(group.group_id, member_id)
            self._acknowledgements.forget(group.group_id, member_id)
        if self._migration.goes_back(group, frozenset(member_ids)):
            self._migration.downgrade(group, group, frozenset(member_ids), turn, now_ms)
            return
        draft = Draft(group)
        for member_id in member_ids:
            regex = draft.members[member_id].regex
            remove_member(draft, member_id)
            forget_regex(draft, regex)
        begin_epoch(draft, self._store.cluster, changed=True)
        turn.records += draft.records


def _leave_one(group: ConsumerGroup, leaving: Leaving, gone: dict[str, None]) -> ErrorCode:
    member_id = leaving.member_id
    if leaving.instance_id is not None and member_id == UNKNOWN_MEMBER:
        member_id = group.static_members.get(leaving.instance_id, UNKNOWN_MEMBER)
    try:
        known_member(group, member_id, leaving.instance_id)
    except Refusal as refusal:
        return refusal.code
    if member_id in gone:
        return ErrorCode.UNKNOWN_MEMBER_ID
    gone[member_id] = None
    return ErrorCode.NONE
