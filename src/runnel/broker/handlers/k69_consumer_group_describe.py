"""ConsumerGroupDescribe (key 69).

Versions 0–1 (KIP-848): epochs, members, what each has and shall have; from version 1 also which protocol a member
speaks. Topics that were deleted are left out. UNSUPPORTED_VERSION where the feature group.version is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.acl_operations import NOT_ASKED, group_operations
from runnel.broker.handlers.groups_named import check_allowed, consumer_groups_enabled
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import ConsumerGroupDescription, DescribedConsumer
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from runnel.services.node import Node

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def handle(context: Context, request: Any) -> Body:
    operations = group_operations(request.include_authorized_operations)
    return {"groups": [await _one(context, group, operations) for group in request.group_ids]}


async def _one(context: Context, group: str, operations: int) -> Body:
    try:
        consumer_groups_enabled(context)
        check_allowed(context, group)
        description = await context.node.groups.describe_consumer(group)
    except Refusal as refusal:
        return {
            "group_id": group,
            "error_code": refusal.code,
            "error_message": refusal.message or None,
            "authorized_operations": NOT_ASKED,
        }
    return {**_row(description, context.node), "authorized_operations": operations}


def _row(description: ConsumerGroupDescription, node: Node) -> Body:
    return {
        "group_id": description.group_id,
        "group_state": description.state,
        "group_epoch": description.epoch,
        "assignment_epoch": description.target_epoch,
        "assignor_name": description.assignor,
        "members": [_member(described, node) for described in description.members],
    }


def _member(described: DescribedConsumer, node: Node) -> Body:
    member = described.member
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": described.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topics),
        "subscribed_topic_regex": member.regex,
        "assignment": {"topic_partitions": _partitions(described.held, node)},
        "target_assignment": {"topic_partitions": _partitions(described.target, node)},
        "member_type": CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    }


def _partitions(partitions: Mapping[UUID, Sequence[int]], node: Node) -> list[Body]:
    return [
        {"topic_id": topic_id, "topic_name": node.topic_name(topic_id), "partitions": list(indexes)}
        for topic_id, indexes in partitions.items()
        if node.topic_name(topic_id)
    ]


def _names(node: Node, request: Any) -> list[str]:
    return list(request.group_ids)


API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, handle, Access("DESCRIBE", "GROUP", _names))
