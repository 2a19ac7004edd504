"""ListOffsets (key 2).

Versions 1–11. Earliest, latest, by timestamp, max timestamp (KIP-734), earliest local (KIP-405). Without tiers, the
latest tiered and earliest pending-upload offsets are unknown (-1). read_committed equals read_uncommitted while there
are no transactions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.services.offsets import EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST_TIERED, MAX_TIMESTAMP
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


async def handle(context: Context, request: Any) -> Body:
    return {
        "topics": [
            {"name": topic.name, "partitions": await _partitions(context, topic)}
            for topic in request.topics
            if topic.partitions
        ]
    }


async def _partitions(context: Context, topic: Any) -> list[Body]:
    """A partition that is asked for twice is refused, once."""
    counts = Counter(partition.partition_index for partition in topic.partitions)
    twice = [
        {"partition_index": index, "error_code": ErrorCode.INVALID_REQUEST}
        for index, count in counts.items()
        if count > 1
    ]
    return [*twice, *[await _one(context, topic.name, p) for p in topic.partitions if counts[p.partition_index] == 1]]


async def _one(context: Context, topic: str, wanted: Any) -> Body:
    index = wanted.partition_index
    try:
        if context.version < SINCE_VERSION.get(wanted.timestamp, 0):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
        if topic in context.denied:
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = await context.node.partitions.open(topic, index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        found = await context.node.offsets.at(partition, wanted.timestamp)
    except Refusal as refusal:
        return {"partition_index": index, "error_code": refusal.code}
    return {
        "partition_index": index,
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


API = Api(ApiKey.LIST_OFFSETS, handle, Access("DESCRIBE", "TOPIC", topic_names))
