"""The group machine: the coordinator of the groups on one partition of `__consumer_offsets`, of both protocols.

Decide → log → replay. Offsets and consumer groups change only by `replay`. Membership of classic groups is soft state
as in Kafka: it changes while deciding and is logged with each generation. If a turn's records cannot be logged, the
machine must be thrown away and loaded from the log. Time and new member ids are arguments. Parked requests are tokens
of the caller's choice. A turn must be replayed before the next call.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from runnel.core.groups.classic.description import describe as describe_classic
from runnel.core.groups.classic.group import ClassicGroup
from runnel.core.groups.classic.joining import check_join
from runnel.core.groups.classic.protocol import ClassicProtocol
from runnel.core.groups.consumer.commits import check_commit, check_fetch
from runnel.core.groups.consumer.description import describe as describe_consumer
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.heartbeat import check_heartbeat
from runnel.core.groups.consumer.protocol import ConsumerProtocol
from runnel.core.groups.consumer.subscriptions import stale_regexes
from runnel.core.groups.consumer.values import ConsumerGroupDescription, Heartbeat, HeartbeatReply, Resolution
from runnel.core.groups.migration import Migration
from runnel.core.groups.offsets import (
    check_classic_commit,
    commit_offsets,
    delete_offsets,
    expire,
    removal_records,
)
from runnel.core.groups.records import GroupRecord, OffsetCommitted, OffsetRemoved
from runnel.core.groups.store import Group, GroupStore
from runnel.core.groups.values import (
    CLASSIC,
    CONSUMER,
    NAME_CHARACTERS_MAX,
    UNKNOWN_MEMBER,
    ClusterView,
    Commit,
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


class GroupMachine:
    __slots__ = ("_classic", "_consumer", "_expiry_ms", "_store")

    def __init__(self, limits: GroupLimits | None = None) -> None:
        self._store = GroupStore(limits or GroupLimits())
        self._classic = ClassicProtocol(self._store)
        self._consumer = ConsumerProtocol(self._store, Migration(self._store, self._classic.rebalancing))
        self._expiry_ms = -1

    @property
    def groups(self) -> dict[str, Group]:
        return self._store.groups

    def follow(self, cluster: ClusterView, limits: GroupLimits) -> None:
        """The cluster and the settings are these now. Groups find out with their next request."""
        self._store.cluster = cluster
        self._store.limits = limits

    # --- members of consumer groups ---------------------------------------------------------------------------

    def consumer_heartbeat(
        self, beat: Heartbeat, resolution: Resolution | None, now_ms: int, *, client_names_members: bool = True
    ) -> Turn:
        """`client_names_members`: ConsumerGroupHeartbeat 1 and later. The reply never waits for others."""
        turn = Turn()
        try:
            limits = self._store.limits.consumer
            check_heartbeat(beat, limits.assignors, client_names_members=client_names_members)
            turn.reply = self._consumer.heartbeat(beat, resolution, turn, now_ms)
        except Refusal as refusal:
            turn = Turn(reply=HeartbeatReply(refusal.code, refusal.message))
        return turn

    def regexes_to_resolve(self, group_id: str, now_ms: int) -> list[str]:
        """The expressions of a group whose matches may have changed."""
        group = self._store.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return []
        return stale_regexes(group, self._store.cluster, now_ms - self._store.limits.consumer.regex_refresh_interval_ms)

    # --- members that speak the classic protocol --------------------------------------------------------------

    def join(self, join: Join, token: Any, now_ms: int) -> Turn:
        """A reply of None: the request waits, and a later turn answers its token (or this one already does)."""
        turn = Turn()
        group = self._store.groups.get(join.group_id)
        try:
            check_join(join, self._store.limits)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                turn.reply = self._consumer.classic_members.join(group, join, turn, now_ms)
            else:
                turn.reply = self._classic.join(join, token, turn, now_ms)
        except Refusal as refusal:
            is_told = refusal.code is not ErrorCode.GROUP_MAX_SIZE_REACHED and not isinstance(group, ConsumerGroup)
            turn.reply = JoinReply(refusal.code, join.member_id if is_told else UNKNOWN_MEMBER)
        return turn

    def sync(self, sync: Sync, token: Any, now_ms: int) -> Turn:
        turn = Turn()
        try:
            group = self._known(sync.group_id)
            if isinstance(group, ConsumerGroup):
                turn.reply = self._consumer.classic_members.sync(group, sync, now_ms)
            else:
                turn.reply = self._classic.sync(group, sync, token, turn, now_ms)
        except Refusal as refusal:
            turn.reply = SyncReply(refusal.code)
        return turn

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> ErrorCode:
        try:
            group = self._known(group_id)
            if isinstance(group, ConsumerGroup):
                members = self._consumer.classic_members
                return members.heartbeat(group, generation, member_id, instance_id, now_ms)
            return self._classic.heartbeat(group, generation, member_id, instance_id, now_ms)
        except Refusal as refusal:
            return refusal.code

    def leave(self, group_id: str, leaving: Sequence[Leaving], now_ms: int) -> Turn:
        turn = Turn()
        group = self._store.groups.get(group_id)
        if group is None:
            unknown = [(one, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving]
            turn.reply = LeaveReply(ErrorCode.NONE, unknown) if group_id else LeaveReply(ErrorCode.INVALID_GROUP_ID)
        elif isinstance(group, ConsumerGroup):
            turn.reply = self._consumer.departures.leave_group(group, leaving, turn, now_ms)
        else:
            turn.reply = self._classic.leave(group, leaving, turn, now_ms)
        return turn

    def _known(self, group_id: str) -> Group:
        if not group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self._store.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")
        return group

    def waiting(self) -> Iterator[Any]:
        """The tokens of all parked requests."""
        for group in self._store.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    yield from (token for token in (member.join_token, member.sync_token) if token is not None)

    # --- offsets ----------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, now_ms: int) -> Turn:
        """The reply is one code per offset."""
        turn = Turn()
        try:
            self._check_commit(commit, now_ms)
        except Refusal as refusal:
            turn.reply = [refusal.code] * len(commit.offsets)
        else:
            turn.reply = commit_offsets(commit, self._store.limits, turn, now_ms)
        return turn

    def _check_commit(self, commit: Commit, now_ms: int) -> None:
        group = self._store.groups.get(commit.group_id)
        if isinstance(group, ConsumerGroup):
            check_commit(group, commit)
        elif group is not None:
            member = check_classic_commit(group, commit)
            if member is not None:
                self._classic.rebalancing.heard_of(group, member, now_ms)
        elif commit.generation >= 0:
            code = ErrorCode.GROUP_ID_NOT_FOUND if commit.knows_epochs else ErrorCode.ILLEGAL_GENERATION
            raise Refusal(code, f"there is no group {commit.group_id}")
        elif len(commit.group_id) > NAME_CHARACTERS_MAX:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is too long")
        # else: the first offset of a consumer that manages its partitions itself makes the group

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Refusal where a member of a consumer group asks for offsets in another epoch than its own."""
        group = self._store.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            check_fetch(group, member_id, epoch)

    def offsets_of(self, group_id: str) -> Offsets:
        """Every committed offset by topic and partition. Not to be changed."""
        return self._store.offsets_of(group_id)

    def delete_offsets(self, group_id: str, wanted: Sequence[tuple[str, int]]) -> Turn:
        """The reply is one code per partition. Refusal for the request as a whole."""
        turn = Turn()
        group = self._store.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        turn.reply = delete_offsets(group, self.offsets_of(group_id), wanted, turn)
        return turn

    def forget(self, is_gone: Callable[[OffsetCommitted], bool]) -> Turn:
        """Drop the offsets of topics that no longer exist."""
        turn = Turn()
        for offsets in self._store.offsets.values():
            gone = [offset for offset in offsets.values() if is_gone(offset)]
            turn.records += (OffsetRemoved(o.group_id, o.topic, o.partition) for o in gone)
        return turn

    # --- groups -----------------------------------------------------------------------------------------------

    def delete(self, group_id: str) -> Turn:
        """The reply is a code."""
        turn = Turn(reply=ErrorCode.NONE)
        group = self._store.groups.get(group_id)
        if group is None:
            turn.reply = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            turn.reply = ErrorCode.NON_EMPTY_GROUP
        else:
            turn.records += removal_records(group, self.offsets_of(group_id))
        return turn

    def describe(self, group_id: str) -> GroupDescription:
        """A classic group. Refusal where there is none of that name."""
        group = self._store.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise _not_found(group_id, group, "a classic group")
        return describe_classic(group)

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescription:
        """A consumer group. Refusal where there is none of that name."""
        group = self._store.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_found(group_id, group, "a consumer group")
        return describe_consumer(group, self._store.limits.consumer)

    def listing(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """All groups, or those in one of these states and of one of these types (lower case)."""
        rows = [_listed(group) for group in self._store.groups.values()]
        return [
            row
            for row in rows
            if (not states or row.state.lower() in states) and (not types or row.group_type in types)
        ]

    # --- time -------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to look at; None: never."""
        due_ms = self._store.deadlines.next_ms()
        if not self._store.groups:
            return due_ms
        return self._expiry_ms if due_ms is None else min(due_ms, self._expiry_ms)

    def tick(self, now_ms: int) -> Turn:
        """What is due by now, up to the first decision that must be replayed before the next. Ask `next_deadline_ms`
        again afterwards."""
        turn = Turn()
        while not turn.records and (deadline := self._store.deadlines.pop_due(now_ms)) is not None:
            group = self._store.groups.get(deadline.group_id)
            if isinstance(group, ConsumerGroup):
                self._consumer.departures.due(deadline, group, turn, now_ms)
            elif group is not None:
                self._classic.due(deadline, group, turn, now_ms)
        if not turn.records and now_ms >= self._expiry_ms:
            if self._expiry_ms >= 0:
                expire(self._store, turn, now_ms)
            self._expiry_ms = now_ms + self._store.limits.expiry_interval_ms
        return turn

    # --- replay -----------------------------------------------------------------------------------------------

    def replay(self, records: Iterable[GroupRecord]) -> None:
        """Apply the logged records of a turn of this machine."""
        self._store.replay(records)

    def load(self, records: Iterable[GroupRecord]) -> None:
        """Apply records of an earlier life."""
        self._store.load(records)

    def loaded(self, now_ms: int) -> None:
        """The log is read: the sessions of the restored members begin anew."""
        self._store.complete()
        for group in self._store.groups.values():
            if isinstance(group, ConsumerGroup):
                self._consumer.timing.loaded(group, now_ms)
            else:
                self._classic.loaded(group, now_ms)
        self._expiry_ms = now_ms + self._store.limits.expiry_interval_ms


def _not_found(group_id: str, group: Group | None, wanted: str) -> Refusal:
    if not group_id:
        return Refusal(ErrorCode.INVALID_GROUP_ID)
    message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not {wanted}."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _listed(group: Group) -> GroupListing:
    if isinstance(group, ConsumerGroup):
        return GroupListing(group.group_id, CONSUMER, group.state.value, CONSUMER)
    return GroupListing(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
