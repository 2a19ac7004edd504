"""Members of a consumer group that still speak the classic protocol: JoinGroup, SyncGroup and Heartbeat as they know
them, answered from the group's target. Nobody waits for anybody, and no member assigns.

A member that has to change something is told REBALANCE_IN_PROGRESS. It rejoins, says in its embedded subscription what
it still has, and gets what it may have now with SyncGroup, in the generation that is its member epoch.
"""

from runnel.core.groups.consumer.advance import advance
from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.membership import check_room, joining_member, known_member
from runnel.core.groups.consumer.reconciliation import Reported
from runnel.core.groups.consumer.timing import Timing
from runnel.core.groups.embedded import Subscription, read_subscription, version_of, write_assignment
from runnel.core.groups.migration import Migration
from runnel.core.groups.records import ClassicSide, CurrentSaved, MemberSaved, MemberState
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import (
    CONSUMER,
    UNKNOWN_MEMBER,
    ClusterView,
    Join,
    JoinReply,
    MigrationPolicy,
    Sync,
    SyncReply,
    Turn,
)
from runnel.wire.errors import ErrorCode, Malformed, Refusal


class ClassicMembers:
    __slots__ = ("_migration", "_store", "_timing")

    def __init__(self, store: GroupStore, timing: Timing, migration: Migration) -> None:
        self._store = store
        self._timing = timing
        self._migration = migration

    # --- JoinGroup --------------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, join: Join, turn: Turn, now_ms: int) -> JoinReply:
        limits = self._store.limits.consumer
        if limits.migration_policy is MigrationPolicy.DISABLED:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "classic members may not join consumer groups here")
        check_room(group, join.member_id, limits.members_max)
        _check_protocols(group, join)
        is_new = join.member_id == UNKNOWN_MEMBER
        if is_new and join.member_id_required:
            return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id)
        member_id = join.new_member_id if is_new else join.member_id
        subscription = _subscription(join)
        draft = Draft(group)
        if join.instance_id is not None and not is_new:
            before = known_member(group, member_id, join.instance_id)
        else:
            before = joining_member(draft, member_id, join.instance_id, classic=True)
        reported = _reported(subscription, self._store.cluster)
        has = advance(self._store, draft, _updated(before, join, subscription), reported, now_ms)
        if _consumers(group) and not _consumers(draft) and self._migration.goes_back(draft, frozenset()):
            self._migration.downgrade(group, draft, frozenset(), turn, now_ms)  # it replaced the last one, itself
        else:
            turn.records += draft.records
            self._timing.joined(draft.members[member_id], now_ms)
        group.topics_seen = self._store.cluster.topics
        return JoinReply(ErrorCode.NONE, member_id, has.epoch, CONSUMER, join.protocols[0][0])

    # --- SyncGroup and Heartbeat ------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, sync: Sync, now_ms: int) -> SyncReply:
        member, side = _classic_member(group, sync.member_id, sync.instance_id)
        current = group.current_of(member.member_id)
        if sync.generation != current.epoch:
            raise Refusal(ErrorCode.ILLEGAL_GENERATION)
        if sync.protocol_type not in (None, CONSUMER) or sync.protocol not in (None, side.protocols[0][0]):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if current.epoch < group.epoch and current.state is not MemberState.UNREVOKED:
            self._timing.await_join(member, now_ms)
            raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
        self._timing.synced(member, now_ms)
        name, metadata = side.protocols[0]
        assignment = write_assignment(_by_name(current, self._store.cluster), version_of(metadata))
        return SyncReply(ErrorCode.NONE, assignment, CONSUMER, name)

    def heartbeat(
        self, group: ConsumerGroup, generation: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> ErrorCode:
        member, _ = _classic_member(group, member_id, instance_id)
        current = group.current_of(member_id)
        if generation != current.epoch:
            return ErrorCode.ILLEGAL_GENERATION
        self._timing.heard_of(member, now_ms)
        if not _must_rejoin(group, current):
            return ErrorCode.NONE
        self._timing.await_join(member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS


def _consumers(group: ConsumerGroup) -> bool:
    return any(member.classic is None for member in group.members.values())


def _check_protocols(group: ConsumerGroup, join: Join) -> None:
    """A classic member must speak a protocol that all classic members do: they may have to go on among themselves."""
    classic = [{name for name, _ in m.classic.protocols} for m in group.members.values() if m.classic is not None]
    names = {name for name, _ in join.protocols}
    if join.protocol_type != CONSUMER or not names.intersection(*classic):
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the other members speak other protocols")


def _subscription(join: Join) -> Subscription:
    try:
        return read_subscription(join.protocols[0][1])
    except Malformed as error:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _updated(member: MemberSaved, join: Join, subscription: Subscription) -> MemberSaved:
    return member._replace(
        instance_id=member.instance_id if join.instance_id is None else join.instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        assignor=None,
        classic=ClassicSide(join.session_timeout_ms, tuple(join.protocols)),
    )


def _reported(subscription: Subscription, cluster: ClusterView) -> Reported:
    """What the member still has. Eager members have given everything up before they join."""
    return {
        cluster.topics[name].topic_id: partitions
        for name, partitions in subscription.owned.items()
        if name in cluster.topics
    }


def _by_name(current: CurrentSaved, cluster: ClusterView) -> dict[str, list[int]]:
    return {
        cluster.names[topic_id]: sorted(partitions)
        for topic_id, partitions in current.assigned.items()
        if topic_id in cluster.names
    }


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[MemberSaved, ClassicSide]:
    member = known_member(group, member_id, instance_id)
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} speaks the consumer protocol")
    return member, member.classic


def _must_rejoin(group: ConsumerGroup, current: CurrentSaved) -> bool:
    """It is behind, has to give something up, or what it waits for is free."""
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED:
        return True
    if current.state is not MemberState.UNRELEASED:
        return False
    target = group.target_of(current.member_id)
    missing = [(t, p) for t, ps in target.items() for p in ps if p not in current.assigned.get(t, {})]
    return all(group.owner_of(*place) is None for place in missing)
