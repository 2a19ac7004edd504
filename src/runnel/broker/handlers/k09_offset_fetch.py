"""OffsetFetch (key 9).

Versions 1–10: one group, or several (KIP-709), some partitions or all of them, by name or topic id. Only offsets that
are on disk are told. From version 9 a member of a consumer group may say who it is, and is refused in another epoch
than its own (KIP-848). Without transactions, every offset is stable, so require_stable (KIP-447) changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.handlers.groups_named import check_allowed
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import Offsets
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runnel.services.node import Node

BATCHED_SINCE_VERSION = 8
BY_ID_SINCE_VERSION = 10
TOP_LEVEL_ERROR_SINCE_VERSION = 2


async def handle(context: Context, request: Any) -> Body:
    if context.version < BATCHED_SINCE_VERSION:
        return await _one(context, request.group_id, request.topics)
    rows = [
        {
            "group_id": asked.group_id,
            **await _one(context, asked.group_id, asked.topics, asked.member_id, asked.member_epoch),
        }
        for asked in request.groups
    ]
    return {"groups": rows}


async def _one(context: Context, group: str, topics: Any, member_id: str | None = None, epoch: int = -1) -> Body:
    try:
        check_allowed(context, group)
        offsets = await context.node.groups.offsets(group, member_id, epoch)
    except Refusal as refusal:
        return _refused(context.version, topics, refusal.code)
    if topics is None:
        return {"topics": _all(context, offsets)}
    return {"topics": [_asked(context, topic, offsets) for topic in topics]}


def _all(context: Context, offsets: Offsets) -> list[Body]:
    by_topic: dict[str, list[Body]] = {}
    for name, index in offsets:
        by_topic.setdefault(name, []).append(_row(offsets, name, index))
    if context.version < BY_ID_SINCE_VERSION:
        return [{"name": name, "partitions": rows} for name, rows in by_topic.items()]
    known = context.node.image.topics
    return [{"topic_id": known[name].topic_id, "partitions": rows} for name, rows in by_topic.items() if name in known]


def _asked(context: Context, topic: Any, offsets: Offsets) -> Body:
    if context.version < BY_ID_SINCE_VERSION:
        return {
            "name": topic.name,
            "partitions": [_row(offsets, topic.name, index) for index in topic.partition_indexes],
        }
    name = context.node.topic_name(topic.topic_id)
    code = ErrorCode.NONE if name else ErrorCode.UNKNOWN_TOPIC_ID
    rows = [_row(offsets, name, index, code) for index in topic.partition_indexes]
    return {"topic_id": topic.topic_id, "partitions": rows}


def _row(offsets: Offsets, topic: str, index: int, code: ErrorCode = ErrorCode.NONE) -> Body:
    found = offsets.get((topic, index)) if not code else None
    return {
        "partition_index": index,
        "committed_offset": -1 if found is None else found.offset,
        "committed_leader_epoch": -1 if found is None else found.leader_epoch,
        "metadata": "" if found is None else found.metadata,
        "error_code": code,
    }


def _refused(version: int, topics: Any, code: ErrorCode) -> Body:
    """Before version 2 only partitions can carry an error."""
    if version >= TOP_LEVEL_ERROR_SINCE_VERSION:
        return {"topics": [], "error_code": code}
    rows = [
        {"name": topic.name, "partitions": [_row({}, topic.name, index, code) for index in topic.partition_indexes]}
        for topic in topics
    ]
    return {"topics": rows}


def _groups(node: Node, request: Any) -> Iterable[str]:
    return [request.group_id, *(asked.group_id for asked in request.groups)]


API = Api(ApiKey.OFFSET_FETCH, handle, Access("DESCRIBE", "GROUP", _groups))
