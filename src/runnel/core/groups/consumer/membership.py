"""Who a request comes from: members by their id, static members by their instance (KIP-345), new ones; and fencing."""

from runnel.core.groups.consumer.draft import Draft
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.reconciliation import Reported
from runnel.core.groups.consumer.values import LEAVES_FOR_NOW
from runnel.core.groups.records import CurrentSaved, Key, MemberSaved, Removed, TargetSaved
from runnel.wire.errors import ErrorCode, Refusal


def check_room(group: ConsumerGroup, member_id: str, members_max: int) -> None:
    if len(group.members) >= members_max and member_id not in group.members:
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {members_max} members.",
        )


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> MemberSaved:
    """The member; Refusal where the id is unknown, or the instance has another member now."""
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if owner != member_id:
            raise Refusal(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {owner}.",
            )
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def check_epoch(current: CurrentSaved, epoch: int, reported: Reported | None) -> None:
    """A member in another epoch than ours has lost its partitions, unless only our last answer was lost: then it is
    one epoch behind and has nothing that it should not have."""
    if epoch == current.epoch:
        return
    answer_was_lost = epoch == current.previous_epoch and reported is not None and _is_part(reported, current)
    if epoch < current.epoch and answer_was_lost:
        return
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > current.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({current.epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )


def _is_part(reported: Reported, current: CurrentSaved) -> bool:
    return all(current.assigned.get(topic_id, {}).keys() >= set(mine) for topic_id, mine in reported.items())


def joining_member(draft: Draft, member_id: str, instance_id: str | None, *, classic: bool) -> MemberSaved:
    """Who joins: a member that is back, a static member in the place of its former self, or a new one."""
    former_id = None if instance_id is None else draft.static_members.get(instance_id)
    if former_id is None:
        return draft.members.get(member_id) or MemberSaved(draft.group_id, member_id)
    if member_id != former_id and member_id in draft.members:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Member {member_id} is there already, and is not {instance_id}.")
    former = draft.members[former_id]
    has_left = draft.current_of(former_id).epoch == LEAVES_FOR_NOW
    if not (classic or former.classic is not None or has_left):
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {former_id} member.",
        )
    _replace(draft, former, member_id)
    return draft.members[member_id]


def _replace(draft: Draft, former: MemberSaved, member_id: str) -> None:
    """The instance goes on under a new member id: its target and its partitions stay, and no epoch begins."""
    target, current = draft.target_of(former.member_id), draft.current_of(former.member_id)
    remove_member(draft, former.member_id)
    draft.log(former._replace(member_id=member_id))
    draft.log(TargetSaved(draft.group_id, member_id, target))
    draft.log(current._replace(member_id=member_id, epoch=0, previous_epoch=0))


def remove_member(draft: Draft, member_id: str) -> None:
    for key, names in ((Key.CURRENT, draft.current), (Key.TARGET, draft.targets), (Key.MEMBER, draft.members)):
        if member_id in names:
            draft.log(Removed(key, draft.group_id, member_id))
