"""OffsetDelete (key 47).

Version 0 (KIP-496). Refused for topics that living members are subscribed to.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.groups_named import check_allowed, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


async def handle(context: Context, request: Any) -> Body:
    exists = context.node.partitions.exists
    asked = [(topic.name, p.partition_index) for topic in request.topics for p in topic.partitions]
    wanted = [key for key in asked if exists(*key)]
    try:
        if not request.group_id:
            raise Refusal(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        check_allowed(context, request.group_id)
        codes = dict(zip(wanted, await context.node.groups.delete_offsets(request.group_id, wanted), strict=True))
    except Refusal as refusal:
        return {"error_code": refusal.code}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": p.partition_index,
                    "error_code": codes.get((topic.name, p.partition_index), unknown),
                }
                for p in topic.partitions
            ],
        }
        for topic in request.topics
        if topic.partitions or topic.name not in context.node.image.topics
    ]
    return {"topics": topics}


API = Api(ApiKey.OFFSET_DELETE, handle, Access("DELETE", "GROUP", group_id))
