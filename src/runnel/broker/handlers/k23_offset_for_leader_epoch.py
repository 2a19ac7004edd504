"""OffsetForLeaderEpoch (key 23).

Versions 2–4: where a leader epoch ended, for truncation detection (KIP-101, KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.services.node import Node


async def handle(context: Context, request: Any) -> Body:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [await _one(context, topic.topic, p) for p in topic.partitions]}
            for topic in request.topics
        ]
    }


async def _one(context: Context, topic: str, wanted: Any) -> Body:
    try:
        if topic in context.denied:
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = await context.node.partitions.open(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except Refusal as refusal:
        return {"partition": wanted.partition, "error_code": refusal.code}
    epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
    return {"partition": wanted.partition, "leader_epoch": epoch, "end_offset": end_offset}


def _names(node: Node, request: Any) -> list[str]:
    return [topic.topic for topic in request.topics]


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, handle, Access("DESCRIBE", "TOPIC", _names))
