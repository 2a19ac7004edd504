"""DescribeTopicPartitions (key 75).

Version 0 (KIP-966): partitions of topics in name order, page by page through a cursor, at least one partition a page.
Eligible leader replicas are empty with one replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.acl_operations import topic_operations
from runnel.broker.handlers.k03_metadata import topic_row
from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.core.metadata import TopicImage


def handle(context: Context, request: Any) -> Body:
    try:
        names, start = _asked(context, request)
    except Refusal as refusal:
        return {"topics": [{"name": name, "error_code": refusal.code} for name in topic_names(context.node, request)]}
    left = max(
        1, min(request.response_partition_limit, context.node.configs.broker["max.request.partition.size.limit"])
    )
    rows: list[Body] = []
    for name in names:
        if left == 0:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic = context.node.image.topics.get(name)
        if topic is None or name in context.denied:
            rows.append(_refused(context, name))
            start = 0
            continue
        rows.append(_page(topic, start, left))
        shown = len(rows[-1]["partitions"])
        if start + shown < len(topic.partitions):
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": start + shown}}
        left -= shown
        start = 0
    return {"topics": rows}


def _asked(context: Context, request: Any) -> tuple[list[str], int]:
    """The topics from the cursor on, in order, and the partition to begin with in the first."""
    asked = set(topic_names(context.node, request))
    names = sorted(asked or context.node.image.topics)
    cursor = request.cursor
    if cursor is None:
        return names, 0
    if asked and cursor.topic_name not in asked:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"the topic list lacks the cursor's topic {cursor.topic_name}")
    if cursor.partition_index < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"the cursor's partition {cursor.partition_index} is negative")
    rest = [name for name in names if name >= cursor.topic_name]
    return rest, cursor.partition_index if rest and rest[0] == cursor.topic_name else 0


def _page(topic: TopicImage, start: int, left: int) -> Body:
    row = topic_row(topic, True)
    row["partitions"] = row["partitions"][start : start + left]
    for partition in row["partitions"]:
        partition["eligible_leader_replicas"] = []
        partition["last_known_elr"] = []
    return row


def _refused(context: Context, name: str) -> Body:
    legal = context.node.topics.is_legal_name(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    if name in context.denied:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return {"name": name, "error_code": code, "topic_authorized_operations": topic_operations(True)}


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, handle, Access("DESCRIBE", "TOPIC", topic_names))
