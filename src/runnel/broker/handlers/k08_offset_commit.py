"""OffsetCommit (key 8).

Versions 2–10. Members commit in their generation or, from version 9, in their member epoch (KIP-848); consumers that
assign partitions themselves commit to groups without members. Retention times of versions 2–4, leader epochs (KIP-320),
static members (KIP-345), topic ids (KIP-848). The offsets are on disk when the reply leaves; all commits in flight
share an fsync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.handlers.groups_named import check_allowed, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import Commit, NewOffset
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.types import ZERO_UUID

if TYPE_CHECKING:
    from runnel.core.metadata import ClusterImage, TopicImage

BY_ID_SINCE_VERSION = 10
EPOCHS_SINCE_VERSION = 9


async def handle(context: Context, request: Any) -> Body:
    image = context.node.image
    found = [(asked, _topic(image, asked, context.version)) for asked in request.topics]
    topics = [(asked, topic) for asked, topic in found if asked.partitions or topic is None]
    offsets = [
        _offset(topic, p)
        for asked, topic in topics
        if topic is not None
        for p in asked.partitions
        if 0 <= p.partition_index < len(topic.partitions)
    ]
    codes = iter(await _commit(context, request, offsets))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if context.version >= BY_ID_SINCE_VERSION else None
    rows = []
    for asked, topic in topics:
        count = 0 if topic is None else len(topic.partitions)
        absent = unknown if topic is None and unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            {
                "partition_index": p.partition_index,
                "error_code": next(codes) if 0 <= p.partition_index < count else absent,
            }
            for p in asked.partitions
        ]
        rows.append({"name": asked.name, "topic_id": asked.topic_id, "partitions": partitions})
    return {"topics": rows}


def _topic(image: ClusterImage, asked: Any, version: int) -> TopicImage | None:
    if version >= BY_ID_SINCE_VERSION:
        return image.topic_by_id(asked.topic_id) if asked.topic_id != ZERO_UUID else None
    return image.topics.get(asked.name)


def _offset(topic: TopicImage, partition: Any) -> NewOffset:
    return NewOffset(
        topic.name,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        topic.topic_id,
    )


async def _commit(context: Context, request: Any, offsets: list[NewOffset]) -> list[ErrorCode]:
    if not offsets:
        return []
    commit = Commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        offsets,
        request.retention_time_ms,
        context.version >= EPOCHS_SINCE_VERSION,
    )
    try:
        check_allowed(context, commit.group_id)
        return list(await context.node.groups.commit(commit))
    except Refusal as refusal:
        return [refusal.code] * len(offsets)


API = Api(ApiKey.OFFSET_COMMIT, handle, Access("READ", "GROUP", group_id))
