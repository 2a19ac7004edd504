"""ConsumerGroupHeartbeat: what a request may say, who sends it, and the reply. Leaving is in `leaving`.

A heartbeat of a member that has what it should have, and says nothing new, is answered without a record.
"""

from runnel.core.groups.consumer.acknowledgements import Acknowledgements
from runnel.core.groups.consumer.advance import advance
from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.membership import check_epoch, check_room, joining_member, known_member
from runnel.core.groups.consumer.settings import heartbeat_interval_ms
from runnel.core.groups.consumer.timing import Timing
from runnel.core.groups.consumer.values import (
    JOINS,
    LEAVES,
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

SUBSCRIPTION_CHARACTERS_MAX = 1_000_000
"""The names go into one record; Kafka's may have 1 MiB."""


def check_heartbeat(beat: Heartbeat, assignors: tuple[str, ...], *, client_names_members: bool) -> None:
    """Refusal for a request that says what none may say."""
    if not beat.member_id and (client_names_members or beat.epoch > JOINS or beat.epoch == LEAVES):
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
    if beat.topics is not None and sum(map(len, beat.topics)) > SUBSCRIPTION_CHARACTERS_MAX:
        raise _invalid(f"The subscribed names have more than {SUBSCRIPTION_CHARACTERS_MAX} characters.")


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
    __slots__ = ("_acknowledgements", "_store", "_timing")

    def __init__(self, store: GroupStore, timing: Timing, acknowledgements: Acknowledgements) -> None:
        self._store = store
        self._timing = timing
        self._acknowledgements = acknowledgements

    def beat(
        self, group: ConsumerGroup, beat: Heartbeat, resolution: Resolution | None, turn: Turn, now_ms: int
    ) -> HeartbeatReply:
        """A member joins or is alive. The group may be one that will exist when the turn is replayed."""
        member_id = beat.member_id or beat.new_member_id
        check_room(group, member_id, self._store.limits.consumer.members_max)
        if beat.epoch == JOINS:
            return self._join(group, beat._replace(member_id=member_id), resolution, turn, now_ms)
        member = known_member(group, member_id, beat.instance_id)
        current = group.current_of(member_id)
        check_epoch(current, beat.epoch, beat.owned)
        if beat.owned is not None:
            self._acknowledgements.reported(group.group_id, member_id, beat.owned)
        if resolution is None and self._is_at_rest(group, member, beat):
            self._timing.heard_of(member, now_ms)
            return self._reply(beat, current, current)
        return self._advance(group, Draft(group), member, beat, resolution, turn, now_ms)

    def _is_at_rest(self, group: ConsumerGroup, member: MemberSaved, beat: Heartbeat) -> bool:
        return (
            group.epoch == group.target_epoch
            and group.topics_seen is self._store.cluster.topics
            and group.is_reconciled(member.member_id)
            and _updated(member, beat) == member
        )

    def _join(
        self, group: ConsumerGroup, beat: Heartbeat, resolution: Resolution | None, turn: Turn, now_ms: int
    ) -> HeartbeatReply:
        """Whoever joins begins with nothing."""
        draft = Draft(group)
        member = joining_member(draft, beat.member_id, beat.instance_id, classic=False)
        self._acknowledgements.forget(group.group_id, beat.member_id)
        return self._advance(group, draft, member, beat, resolution, turn, now_ms)

    def _advance(
        self,
        group: ConsumerGroup,
        draft: Draft,
        member: MemberSaved,
        beat: Heartbeat,
        resolution: Resolution | None,
        turn: Turn,
        now_ms: int,
    ) -> HeartbeatReply:
        store, member = self._store, _updated(member, beat)
        had = draft.current_of(member.member_id)
        caught_up = beat.epoch == JOINS or not (beat.is_full and self._is_behind(member))
        has = advance(store, draft, member, beat.owned, now_ms, resolution=resolution, caught_up=caught_up)
        turn.records += draft.records
        group.topics_seen = store.cluster.topics
        if resolution is not None:
            group.regexes_seen, group.regexes_seen_ms = resolution.topics, now_ms
        self._timing.after_step(member, had, has, now_ms)
        if not caught_up and has.epoch != draft.target_epoch:
            self._timing.await_step(member, now_ms)
        self._acknowledgements.told(had, has)
        return self._reply(beat, had, has)

    def _is_behind(self, member: MemberSaved) -> bool:
        return self._acknowledgements.awaits(member.group_id, member.member_id, self._store.cluster.names)

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
