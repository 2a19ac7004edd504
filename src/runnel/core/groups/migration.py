"""Groups with members that change their protocol (KIP-848): to the consumer protocol when the first member that speaks
it joins, and back when the last one goes and classic members stay.

Upwards, each classic member keeps what its last assignment gave it, in an epoch that is the last generation; the epoch
that the new member begins makes it rejoin. Downwards, each member keeps what it has, and the group begins a rebalance
unless everybody has what they should. It has no leader until then: that is how a group is known, after a crash, that
still has to rebalance.
"""

from collections.abc import Iterable
from uuid import UUID

from runnel.core.groups.classic.group import ClassicGroup, GroupState, Member
from runnel.core.groups.classic.rebalancing import Rebalancing
from runnel.core.groups.consumer.group import FIRST_EPOCH, ConsumerGroup, ConsumerState
from runnel.core.groups.consumer.subscriptions import metadata_hash
from runnel.core.groups.deadlines import Due
from runnel.core.groups.embedded import (
    Subscription,
    TopicPartitions,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from runnel.core.groups.records import (
    ClassicSide,
    ConsumerRecord,
    CurrentSaved,
    EpochSaved,
    GroupRemoved,
    MemberSaved,
    Partitions,
    TargetEpochSaved,
    TargetSaved,
)
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import CONSUMER, JoinReply, SyncReply, Turn
from runnel.wire.errors import ErrorCode, Malformed, Refusal


class Migration:
    __slots__ = ("_rebalancing", "_store")

    def __init__(self, store: GroupStore, rebalancing: Rebalancing) -> None:
        self._store = store
        self._rebalancing = rebalancing

    # --- upwards ----------------------------------------------------------------------------------------------

    def upgraded(self, group: ClassicGroup, turn: Turn) -> ConsumerGroup:
        """The consumer group that this one becomes, and the records that make it so. Refusal where it cannot."""
        self._check_upgrade(group)
        try:
            records = self._upgrade_records(group)
        except Malformed as error:
            raise _no_upgrade(group, "the embedded consumer protocol is malformed") from error
        upgraded = ConsumerGroup(group.group_id)
        for record in records:
            upgraded.replay(record)
        turn.records += (GroupRemoved(group.group_id), *records)
        return upgraded

    def _check_upgrade(self, group: ClassicGroup) -> None:
        limits = self._store.limits.consumer
        if not limits.migration_policy.upgrades:
            raise _no_upgrade(group, "online upgrade is disabled")
        if group.protocol_type != CONSUMER:
            raise _no_upgrade(group, "the group does not use the consumer embedded protocol")
        if len(group.members) > limits.members_max:
            raise _no_upgrade(group, "the group size exceeds the consumer group maximum size")

    def _upgrade_records(self, group: ClassicGroup) -> list[ConsumerRecord]:
        epoch = max(group.generation, FIRST_EPOCH)
        found = {member.member_id: _subscription_of(group, member) for member in group.members.values()}
        members = [_upgraded_member(group.group_id, m, found[m.member_id]) for m in group.members.values()]
        owned = {m.member_id: _partitions_of(m, found[m.member_id]) for m in group.members.values()}
        ids = {member_id: self._by_id(partitions) for member_id, partitions in owned.items()}
        names = {topic for subscription in found.values() for topic in subscription.topics}
        return [
            *members,
            EpochSaved(group.group_id, epoch, self._hash(names, ids.values())),
            *(TargetSaved(group.group_id, member_id, partitions) for member_id, partitions in ids.items()),
            TargetEpochSaved(group.group_id, epoch),
            *(
                CurrentSaved(
                    group.group_id,
                    member_id,
                    epoch,
                    epoch,
                    assigned={topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()},
                )
                for member_id, partitions in ids.items()
            ),
        ]

    def _hash(self, names: Iterable[str], assigned: Iterable[Partitions]) -> int:
        """None where the assignment is not complete, as in a rebalance: the next look at the topics begins an epoch."""
        topics = self._store.cluster.topics
        read = {topics[name].topic_id: len(topics[name].partitions) for name in names if name in topics}
        wanted = {(topic_id, number) for topic_id, count in read.items() for number in range(count)}
        given = [(t, number) for partitions in assigned for t, numbers in partitions.items() for number in numbers]
        is_complete = len(given) == len(wanted) and set(given) == wanted
        return metadata_hash(names, topics) if is_complete else 0

    def _by_id(self, partitions: TopicPartitions) -> dict[UUID, tuple[int, ...]]:
        topics = self._store.cluster.topics
        return {
            topics[name].topic_id: tuple(sorted(set(numbers)))
            for name, numbers in partitions.items()
            if name in topics and numbers
        }

    def part_with(self, group: ClassicGroup, turn: Turn) -> None:
        """Whoever waits in the classic group hears that it has to rejoin."""
        for member in group.members.values():
            rejoin = ErrorCode.REBALANCE_IN_PROGRESS
            self._rebalancing.answer_join(member, JoinReply(rejoin, member.member_id), turn)
            self._rebalancing.answer_sync(member, SyncReply(rejoin), turn)
        for due in (Due.JOIN, Due.SYNC):
            self._store.deadlines.cancel(due, group.group_id)

    # --- downwards --------------------------------------------------------------------------------------------

    def goes_back(self, group: ConsumerGroup, leaving: frozenset[str]) -> bool:
        """Whether only classic members stay, and may go on as a classic group."""
        staying = [member for member in group.members.values() if member.member_id not in leaving]
        limits = self._store.limits
        return (
            limits.consumer.migration_policy.downgrades
            and 0 < len(staying) <= limits.members_max
            and all(member.classic is not None for member in staying)
        )

    def downgrade(
        self, group: ConsumerGroup, after: ConsumerGroup, leaving: frozenset[str], turn: Turn, now_ms: int
    ) -> None:
        """Go on as a classic group of the members that stay, with what the group has `after` the decision."""
        turn.records += group.removal_records()
        classic = self._downgraded(after, leaving, now_ms)
        turn.records.append(classic.saved())
        self._store.groups[group.group_id] = classic  # soft state, ahead of the records as ever
        for member in classic.members.values():
            for due in (Due.JOIN, Due.SYNC, Due.REVOCATION):
                self._store.deadlines.cancel(due, group.group_id, member.member_id)
            self._rebalancing.heard_of(classic, member, now_ms)
        if classic.leader is None:
            self._rebalancing.rebalance(classic, turn, now_ms)

    def _downgraded(self, group: ConsumerGroup, leaving: frozenset[str], now_ms: int) -> ClassicGroup:
        classic = ClassicGroup(group.group_id, now_ms, GroupState.STABLE, CONSUMER, generation=group.epoch)
        for member_id, saved in group.members.items():
            if saved.classic is not None and member_id not in leaving:
                classic.add(_downgraded_member(saved, saved.classic), CONSUMER)
        classic.protocol = classic.select_protocol()
        for member in classic.members.values():
            version = version_of(member.metadata(classic.protocol))
            member.assignment = write_assignment(self._by_name(group, member.member_id), version)
        if leaving or group.state is not ConsumerState.STABLE:
            classic.leader = None
        return classic

    def _by_name(self, group: ConsumerGroup, member_id: str) -> TopicPartitions:
        names = self._store.cluster.names
        assigned = group.current_of(member_id).assigned
        return {names[topic_id]: tuple(numbers) for topic_id, numbers in assigned.items() if topic_id in names}


def _no_upgrade(group: ClassicGroup, why: str) -> Refusal:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _subscription_of(group: ClassicGroup, member: Member) -> Subscription:
    """In the first rebalance no protocol is chosen yet: what the member prefers will do."""
    return read_subscription(member.metadata(group.protocol) or member.protocols[0][1])


def _partitions_of(member: Member, subscription: Subscription) -> TopicPartitions:
    """What the member may be reading: its assignment, or, while a new one is awaited, what it said it kept."""
    return read_assignment(member.assignment) or subscription.owned


def _upgraded_member(group_id: str, member: Member, subscription: Subscription) -> MemberSaved:
    return MemberSaved(
        group_id,
        member.member_id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicSide(member.session_timeout_ms, tuple(member.protocols)),
    )


def _downgraded_member(saved: MemberSaved, side: ClassicSide) -> Member:
    return Member(
        saved.member_id,
        saved.instance_id,
        saved.client_id,
        saved.client_host,
        side.session_timeout_ms,
        saved.rebalance_timeout_ms,
        side.protocols,
        is_new=False,
    )
