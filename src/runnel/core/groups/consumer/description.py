"""A consumer group as ConsumerGroupDescribe shows it."""

from uuid import UUID

from runnel.core.groups.consumer.advance import preferred_assignor
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.values import ConsumerGroupDescription, DescribedConsumer
from runnel.core.groups.records import CurrentSaved
from runnel.core.groups.values import ConsumerLimits


def describe(group: ConsumerGroup, limits: ConsumerLimits) -> ConsumerGroupDescription:
    members = [
        DescribedConsumer(
            member,
            group.current_of(member_id).epoch,
            _held(group.current_of(member_id)),
            group.target_of(member_id),
        )
        for member_id, member in group.members.items()
    ]
    assignor = preferred_assignor(group, limits)
    return ConsumerGroupDescription(
        group.group_id, group.state.value, group.epoch, group.target_epoch, assignor, members
    )


def _held(current: CurrentSaved) -> dict[UUID, list[int]]:
    topics = {**current.assigned, **current.revoking}
    return {
        topic_id: sorted({**current.assigned.get(topic_id, {}), **current.revoking.get(topic_id, {})})
        for topic_id in topics
    }
