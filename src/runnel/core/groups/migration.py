"""Groups with members that change their protocol (KIP-848): to the consumer protocol when the first member that speaks
it joins, and back when the last one goes and classic members stay.

Upwards, each classic member keeps what its last assignment gave it, in an epoch that is the last generation; the epoch
that the new member begins makes it rejoin. Downwards, the group is stable with the last target as its assignment, and
begins a rebalance.
"""

from uuid import UUID

from runnel.core.groups.classic.group import ClassicGroup, GroupState, Member
from runnel.core.groups.classic.rebalancing import Rebalancing
from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import FIRST_EPOCH, ConsumerGroup
from runnel.core.groups.consumer.subscriptions import metadata_hash
from runnel.core.groups.deadlines import Due
from runnel.core.groups.embedded import (
    Subscription,
    TopicPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
)
from runnel.core.groups.records import (
    ClassicSide,
    ConsumerRecord,
    CurrentSaved,
    EpochSaved,
    GroupRemoved,
    MemberSaved,
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
            EpochSaved(group.group_id, epoch, metadata_hash(names, self._store.cluster.topics)),
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

    def downgrade(self, group: ConsumerGroup, leaving: frozenset[str], turn: Turn, now_ms: int) -> None:
        """The members that stay share anew what the others leave."""
        classic = self._downgrade(group, group, leaving, turn, now_ms)
        self._rebalancing.rebalance(classic, turn, now_ms)

    def downgrade_to(self, group: ConsumerGroup, draft: Draft, turn: Turn, now_ms: int) -> None:
        """A static member was replaced by its classic self: the group is what the draft says, without a rebalance."""
        self._downgrade(group, draft, frozenset(), turn, now_ms)

    def _downgrade(
        self, group: ConsumerGroup, after: ConsumerGroup, leaving: frozenset[str], turn: Turn, now_ms: int
    ) -> ClassicGroup:
        turn.records += group.removal_records()
        classic = ClassicGroup(group.group_id, now_ms, GroupState.STABLE, CONSUMER, generation=after.epoch)
        for member_id, saved in after.members.items():
            if saved.classic is not None and member_id not in leaving:
                classic.add(_downgraded(saved, saved.classic, b""), CONSUMER)
        classic.protocol = classic.select_protocol()
        for member in classic.members.values():
            version = read_subscription(member.metadata(classic.protocol)).version
            member.assignment = write_assignment(self._by_name(after, member.member_id), version)
        turn.records.append(classic.saved())
        self._store.groups[group.group_id] = classic  # soft state, ahead of the records as ever
        for member in classic.members.values():
            for due in (Due.JOIN, Due.SYNC, Due.REVOCATION):
                self._store.deadlines.cancel(due, group.group_id, member.member_id)
            self._rebalancing.heard_of(classic, member, now_ms)
        return classic

    def _by_name(self, group: ConsumerGroup, member_id: str) -> TopicPartitions:
        names = self._store.cluster.names
        target = group.target_of(member_id)
        return {names[topic_id]: numbers for topic_id, numbers in target.items() if topic_id in names}


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


def _downgraded(saved: MemberSaved, side: ClassicSide, assignment: bytes) -> Member:
    return Member(
        saved.member_id,
        saved.instance_id,
        saved.client_id,
        saved.client_host,
        side.session_timeout_ms,
        saved.rebalance_timeout_ms,
        side.protocols,
        assignment,
        is_new=False,
    )
