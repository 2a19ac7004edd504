"""Who may commit to, and read the offsets of, a consumer group: members in their epoch (OffsetCommit 9, KIP-848)."""

from collections.abc import Iterable
from uuid import UUID

from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.records import CurrentSaved, MemberSaved
from runnel.core.groups.values import Commit
from runnel.wire.errors import ErrorCode, Refusal


def check_commit(group: ConsumerGroup, commit: Commit) -> None:
    if commit.generation < 0 and group.is_empty:
        return  # an administrator, or a consumer that manages its partitions itself
    member = _member(group, commit.member_id)
    if member.classic is None and not commit.knows_epochs:
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol.",
        )
    current = group.current_of(member.member_id)
    places = ((offset.topic_id, offset.partition) for offset in commit.offsets)
    if member.classic is None and _had_all(current, commit.generation, places):
        return
    _check_epoch(member, current, commit.generation)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    if member_id is None and epoch < 0:
        return
    member = _member(group, member_id or "")
    _check_epoch(member, group.current_of(member.member_id), epoch)


def _member(group: ConsumerGroup, member_id: str) -> MemberSaved:
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _check_epoch(member: MemberSaved, current: CurrentSaved, epoch: int) -> None:
    if epoch != current.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise Refusal(code, f"The member epoch is {current.epoch}, not {epoch}.")


def _had_all(current: CurrentSaved, epoch: int, places: Iterable[tuple[UUID, int]]) -> bool:
    """A commit of an earlier epoch is good for partitions that the member has had since (KIP-1251)."""
    if not 0 <= epoch < current.epoch:
        return False
    return all(_had_since(current, *place) <= epoch for place in places)


def _had_since(current: CurrentSaved, topic_id: UUID, partition: int) -> int:
    for owned in (current.assigned, current.revoking):
        since = owned.get(topic_id, {}).get(partition)
        if since is not None:
            return since
    return current.epoch
