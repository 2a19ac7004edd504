"""JoinGroup: new members, dynamic (KIP-394) and static (KIP-345), and members that come again."""

from typing import Any

from runnel.core.groups.classic.group import ClassicGroup, GroupState, Member, new_member
from runnel.core.groups.classic.rebalancing import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancing, member_rows
from runnel.core.groups.deadlines import Due
from runnel.core.groups.values import (
    NAME_CHARACTERS_MAX,
    UNKNOWN_MEMBER,
    GroupLimits,
    Join,
    JoinReply,
    SyncReply,
    Turn,
)
from runnel.wire.errors import ErrorCode, Refusal


def check_join(join: Join, limits: GroupLimits) -> None:
    if not join.group_id:
        raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not limits.session_timeout_ms_min <= join.session_timeout_ms <= limits.session_timeout_ms_max:
        raise Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"session timeouts are {limits.session_timeout_ms_min} to {limits.session_timeout_ms_max} ms",
        )
    names = (join.group_id, join.instance_id or "", join.client_id, join.protocol_type, join.member_id)
    if any(len(name) > NAME_CHARACTERS_MAX for name in (*names, *(name for name, _ in join.protocols))):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"a name is longer than {NAME_CHARACTERS_MAX} characters")


class Joining:
    """One join after the other, on groups that exist."""

    __slots__ = ("_rebalancing",)

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing

    def join(self, group: ClassicGroup, join: Join, token: Any, turn: Turn, now_ms: int) -> JoinReply | None:
        """The reply, or None where the request waits under its token. Refusal for a client's mistake."""
        if not self._has_room(group, join.member_id):
            self._rebalancing.drop(group, [join.member_id] if join.member_id in group.members else [], turn, now_ms)
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.group_id} is full")
        if not group.supports(join.protocol_type, [name for name, _ in join.protocols]):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the other members speak other protocols")
        if join.member_id == UNKNOWN_MEMBER:
            return self._join_new(group, join, token, turn, now_ms)
        if join.member_id in group.pending:
            if join.instance_id is not None:
                raise Refusal(ErrorCode.INVALID_REQUEST, "a pending member has no instance id")
            self._add(group, join, join.member_id, token, turn, now_ms)
            return None
        member = group.check_member(join.member_id, join.instance_id)
        return self._join_again(group, member, join, token, turn, now_ms)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        members_max = self._rebalancing.limits.members_max
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING:
            if member is not None and member.join_token is not None:
                return True
            return group.awaiting_join_count < members_max
        return member is not None or len(group.members) < members_max

    # --- members without an id --------------------------------------------------------------------------------

    def _join_new(self, group: ClassicGroup, join: Join, token: Any, turn: Turn, now_ms: int) -> JoinReply | None:
        if join.instance_id is not None and join.instance_id in group.static_members:
            return self._replace_static(group, join, join.instance_id, token, turn, now_ms)
        if join.instance_id is None and join.member_id_required:
            group.pending.add(join.new_member_id)
            at_ms = now_ms + join.session_timeout_ms
            self._rebalancing.deadlines.set(Due.PENDING, group.group_id, join.new_member_id, at_ms)
            return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id)
        self._add(group, join, join.new_member_id, token, turn, now_ms)
        return None

    def _add(self, group: ClassicGroup, join: Join, member_id: str, token: Any, turn: Turn, now_ms: int) -> None:
        member = new_member(join, member_id, token)
        group.members_added = group.members_added or group.state is GroupState.PREPARING
        group.add(member, join.protocol_type)
        at_ms = now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        self._rebalancing.deadlines.set(Due.SESSION, group.group_id, member_id, at_ms)
        self._rebalancing.rebalance(group, turn, now_ms)

    def _replace_static(
        self, group: ClassicGroup, join: Join, instance_id: str, token: Any, turn: Turn, now_ms: int
    ) -> JoinReply | None:
        """An instance is back after a restart: its old id is fenced, and a stable group need not rebalance."""
        rebalancing, leader_before = self._rebalancing, group.leader
        member = group.rename_static(instance_id, join.new_member_id)
        rebalancing.answer_join(member, JoinReply(ErrorCode.FENCED_INSTANCE_ID), turn)
        rebalancing.answer_sync(member, SyncReply(ErrorCode.FENCED_INSTANCE_ID), turn)
        self._update(group, member, join, now_ms)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
            turn.records.append(group.saved())
            return _same_generation(group, member, join.skips_assignment, leader_before or "")
        member.join_token = token
        if group.state is GroupState.PREPARING:
            rebalancing.complete_if_all_joined(group, turn, now_ms)
        else:
            rebalancing.rebalance(group, turn, now_ms)
        return None

    def _update(self, group: ClassicGroup, member: Member, join: Join, now_ms: int) -> None:
        member.protocols = tuple(join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.client_id, member.client_host = join.client_id, join.client_host
        self._rebalancing.heard_of(group, member, now_ms)

    # --- members with an id -----------------------------------------------------------------------------------

    def _join_again(
        self, group: ClassicGroup, member: Member, join: Join, token: Any, turn: Turn, now_ms: int
    ) -> JoinReply | None:
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        unchanged = tuple(member.protocols) == tuple(join.protocols)
        leads = member.member_id == group.leader
        completing = group.state is GroupState.COMPLETING
        if unchanged and (completing or (group.state is GroupState.STABLE and not leads)):
            # Its answer was lost. A leader that asks again in a stable group wants a rebalance.
            self._rebalancing.heard_of(group, member, now_ms)
            return self._rebalancing.join_reply(group, member)
        self._update(group, member, join, now_ms)
        self._rebalancing.answer_sync(member, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS), turn)
        self._rebalancing.park_join(member, token, turn)
        self._rebalancing.rebalance(group, turn, now_ms)
        return None


def _same_generation(group: ClassicGroup, member: Member, skips_assignment: bool, leader_before: str) -> JoinReply:
    """The reply to a static member that came back. An old client is told the leader's former id, so that it does not
    compute an assignment (KIP-345); a newer one is told to skip it (KIP-814)."""
    leads = member.member_id == group.leader
    shown = skips_assignment and leads
    return JoinReply(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        (group.leader or "") if skips_assignment else leader_before,
        skip_assignment=shown,
        members=member_rows(group) if shown else (),
    )
