"""Committed offsets of groups: what is remembered, what may be deleted, when it is forgotten.

Offsets belong to a group id, whatever the protocol of the group: they stay when that changes.
"""

from collections.abc import Iterator, Sequence

from runnel.core.groups.classic.group import ClassicGroup, GroupState, Member
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.records import GroupRecord, GroupRemoved, OffsetCommitted, OffsetRemoved
from runnel.core.groups.store import Group, GroupStore
from runnel.core.groups.values import CONSUMER, Commit, GroupLimits, NewOffset, Offsets, Turn
from runnel.wire.errors import ErrorCode, Refusal


def check_classic_commit(group: ClassicGroup, commit: Commit) -> Member | None:
    """The committing member, or None for a consumer that manages its partitions itself (only in an empty group)."""
    if group.state is GroupState.DEAD:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if commit.generation < 0 and group.state is GroupState.EMPTY:
        return None
    if commit.generation < 0 and not commit.member_id and commit.instance_id is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members; only they may commit")
    member = group.check_member(commit.member_id, commit.instance_id)
    if commit.generation != group.generation:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, f"the generation is {group.generation}")
    if group.state is GroupState.COMPLETING:
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def commit_offsets(commit: Commit, limits: GroupLimits, turn: Turn, now_ms: int) -> list[ErrorCode]:
    """One code per offset; metadata that is too large refuses its partition only."""
    expire_ms = -1 if commit.retention_ms < 0 else now_ms + commit.retention_ms
    return [_commit_one(commit.group_id, offset, expire_ms, limits, turn, now_ms) for offset in commit.offsets]


def _commit_one(
    group_id: str, new: NewOffset, expire_ms: int, limits: GroupLimits, turn: Turn, now_ms: int
) -> ErrorCode:
    if len(new.metadata.encode()) > limits.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    record = OffsetCommitted(
        group_id,
        new.topic,
        new.partition,
        new.offset,
        new.leader_epoch,
        new.metadata,
        now_ms,
        expire_ms,
        new.topic_id,
    )
    turn.records.append(record)
    return ErrorCode.NONE


def delete_offsets(group: Group, offsets: Offsets, wanted: Sequence[tuple[str, int]], turn: Turn) -> list[ErrorCode]:
    """One code per partition; topics that living consumers read are refused (KIP-496)."""
    if isinstance(group, ClassicGroup):
        if group.state is GroupState.DEAD:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.is_empty and group.protocol_type != CONSUMER:
            raise Refusal(ErrorCode.NON_EMPTY_GROUP, "the group has members")
    codes = []
    for topic, partition in wanted:
        if group.is_subscribed(topic):
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        if (topic, partition) in offsets:
            turn.records.append(OffsetRemoved(group.group_id, topic, partition))
        codes.append(ErrorCode.NONE)
    return codes


def removal_records(group: Group, offsets: Offsets) -> Iterator[GroupRecord]:
    """What deletes a group: a tombstone for each offset, and those of the group."""
    for topic, partition in offsets:
        yield OffsetRemoved(group.group_id, topic, partition)
    if isinstance(group, ConsumerGroup):
        yield from group.removal_records()
    else:
        yield GroupRemoved(group.group_id)


def expire(store: GroupStore, turn: Turn, now_ms: int) -> None:
    """Offsets past their retention, and then empty groups that have none (KIP-211)."""
    for group in store.groups.values():
        offsets = store.offsets_of(group.group_id)
        expired = {
            place: offset for place, offset in offsets.items() if _is_expired(group, offset, store.limits, now_ms)
        }
        is_pending = isinstance(group, ClassicGroup) and bool(group.pending)
        if group.is_empty and not is_pending and len(expired) == len(offsets):
            turn.records += removal_records(group, expired)
        else:
            turn.records += (OffsetRemoved(o.group_id, o.topic, o.partition) for o in expired.values())


def _is_expired(group: Group, offset: OffsetCommitted, limits: GroupLimits, now_ms: int) -> bool:
    if offset.expire_ms >= 0:
        return now_ms >= offset.expire_ms
    since_ms = offset.commit_ms
    if isinstance(group, ConsumerGroup):
        if group.is_subscribed(offset.topic):
            return False
    elif group.protocol_type is None:
        pass  # never had members: each offset lives by its own age
    elif group.state is GroupState.EMPTY:
        since_ms = max(since_ms, group.state_ms)
    elif group.state is not GroupState.STABLE or group.protocol_type != CONSUMER or group.is_subscribed(offset.topic):
        return False
    return now_ms - since_ms >= limits.offset_retention_ms
