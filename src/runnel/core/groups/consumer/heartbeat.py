"""ConsumerGroupHeartbeat: what a request may say, who sends it, and the reply. Leaving is in `leaving`.

A heartbeat of a member that has what it should have, and says nothing new, is answered without a record.
"""

from runnel.core.groups.consumer.advance import advance
from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.membership import check_epoch, check_room, joining_member, known_member
from runnel.core.groups.consumer.settings import assignment_interval_ms, heartbeat_interval_ms
from runnel.core.groups.consumer.timing import Timing
from runnel.core.groups.consumer.values import (
    JOINS,
    LEAVES_FOR_NOW,
    Heartbeat,
    HeartbeatReply,
    Resolution,
    partitions_of,
)
from runnel.core.groups.records import CurrentSaved, MemberSaved
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import NAME_CHARACTERS_MAX, Turn
from runnel.wire.errors import ErrorCode, Refusal


def check_heartbeat(beat: Heartbeat, assignors: tuple[str, ...], *, client_names_members: bool) -> None:
    """Refusal for a request that says what none may say."""
    if not beat.member_id and (client_names_members or beat.epoch != JOINS):
        raise _invalid("MemberId can't be empty.")
    named = (("GroupId", beat.group_id), ("InstanceId", beat.instance_id), ("RackId", beat.rack_id))
    for field, value in named:
        if value == "":
            raise _invalid(f"{field} can't be empty.")
    if beat.epoch == JOINS:
        _check_join(beat)
    elif beat.epoch == LEAVES_FOR_NOW and beat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif beat.epoch < LEAVES_FOR_NOW:
        raise _invalid("MemberEpoch is invalid.")
    if beat.assignor is not None and beat.assignor not in assignors:
        message = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        raise Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    names = (beat.member_id, beat.group_id, beat.instance_id or "", beat.client_id, beat.rack_id or "")
    if any(len(name) > NAME_CHARACTERS_MAX for name in names):
        raise _invalid(f"A name is longer than {NAME_CHARACTERS_MAX} characters.")


def _check_join(beat: Heartbeat) -> None:
    if beat.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if beat.owned is None or beat.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if beat.topics is None and beat.regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


class Heartbeats:
    __slots__ = ("_store", "_timing")

    def __init__(self, store: GroupStore, timing: Timing) -> None:
        self._store = store
        self._timing = timing

    def beat(
        self, group: ConsumerGroup, beat: Heartbeat, resolution: Resolution | None, turn: Turn, now_ms: int
    ) -> HeartbeatReply:
        """A member joins or is alive. The group may be one that will exist when the turn is replayed."""
        member_id = beat.member_id or beat.new_member_id
        limits = self._store.limits.consumer
        check_room(group, member_id, limits.members_max)
        if beat.epoch != JOINS:
            before = known_member(group, member_id, beat.instance_id)
            check_epoch(group.current_of(member_id), beat.epoch, beat.owned)
            if resolution is None and self._is_at_rest(group, before, beat):
                self._timing.heard_of(before, now_ms)
                return self._reply(beat, group.current_of(member_id), group.current_of(member_id))
        return self._advance(group, member_id, beat, resolution, turn, now_ms)

    def _is_at_rest(self, group: ConsumerGroup, member: MemberSaved, beat: Heartbeat) -> bool:
        return (
            group.epoch == group.target_epoch
            and group.topics_seen is self._store.cluster.topics
            and group.is_reconciled(member.member_id)
            and _updated(member, beat) == member
        )

    def _advance(
        self,
        group: ConsumerGroup,
        member_id: str,
        beat: Heartbeat,
        resolution: Resolution | None,
        turn: Turn,
        now_ms: int,
    ) -> HeartbeatReply:
        store, draft = self._store, Draft(group)
        joins = beat.epoch == JOINS
        before = (
            joining_member(draft, member_id, beat.instance_id, classic=False) if joins else group.members[member_id]
        )
        had = draft.current_of(member_id)
        has = advance(
            draft,
            _updated(before, beat),
            beat.owned,
            resolution,
            store.cluster,
            store.limits.consumer,
            assignment_interval_ms(store, group.group_id),
            now_ms,
        )
        turn.records += draft.records
        group.topics_seen = store.cluster.topics
        if resolution is not None:
            group.regexes_seen = resolution.topics
        self._timing.after_step(draft.members[member_id], had, has, now_ms)
        return self._reply(beat._replace(member_id=member_id), had, has)

    def _reply(self, beat: Heartbeat, had: CurrentSaved, has: CurrentSaved) -> HeartbeatReply:
        """The assignment is told to whoever says everything, and whenever it changes."""
        told = beat.epoch == JOINS or beat.is_full or had.assigned != has.assigned
        return HeartbeatReply(
            member_id=beat.member_id,
            epoch=has.epoch,
            heartbeat_interval_ms=heartbeat_interval_ms(self._store, beat.group_id),
            assignment=partitions_of(has.assigned) if told else None,
        )


def _updated(member: MemberSaved, beat: Heartbeat) -> MemberSaved:
    """The member with what the request says. It speaks the consumer protocol now, whatever it did before."""
    return member._replace(
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=member.topics if beat.topics is None else tuple(sorted(set(beat.topics))),
        regex=member.regex if beat.regex is None else beat.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if beat.rebalance_timeout_ms == -1
        else beat.rebalance_timeout_ms,
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        classic=None,
    )
