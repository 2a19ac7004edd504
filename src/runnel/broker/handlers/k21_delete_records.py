"""DeleteRecords (key 21).

Versions 0–2. Moves the log start offset up to an offset, or to the high watermark for -1. The new start is on disk
before the reply.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


async def handle(context: Context, request: Any) -> Body:
    return {
        "topics": [
            {"name": topic.name, "partitions": [await _one(context, topic.name, p) for p in topic.partitions]}
            for topic in request.topics
            if topic.partitions
        ]
    }


async def _one(context: Context, topic: str, wanted: Any) -> Body:
    try:
        if topic in context.denied:
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        _check_allowed(context, topic)
        low_watermark = await context.node.partitions.trim(topic, wanted.partition_index, wanted.offset)
    except Refusal as refusal:
        return {"partition_index": wanted.partition_index, "low_watermark": -1, "error_code": refusal.code}
    return {"partition_index": wanted.partition_index, "low_watermark": low_watermark}


def _check_allowed(context: Context, name: str) -> None:
    topic = context.node.image.topics.get(name)
    if topic is None:
        return
    if topic.internal:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal")
    if context.node.configs.of_topic(topic.configs)["cleanup.policy"] == ("compact",):
        raise Refusal(ErrorCode.POLICY_VIOLATION, f"{name} is only compacted: cleanup.policy lacks delete")


API = Api(ApiKey.DELETE_RECORDS, handle, Access("DELETE", "TOPIC", topic_names))
