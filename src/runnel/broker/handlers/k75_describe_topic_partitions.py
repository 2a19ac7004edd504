"""DescribeTopicPartitions (key 75).

Version 0 (KIP-966): partitions of topics in name order, page by page through a cursor. Eligible leader replicas are
empty with one replica.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.k03_metadata import topic_row
from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode


def handle(context: Context, request: Any) -> Body:
    image = context.node.image
    asked = {topic.name for topic in request.topics}
    names = sorted(asked or image.topics)
    first_name, first_index = ("", 0)
    if request.cursor is not None:
        first_name, first_index = request.cursor.topic_name, request.cursor.partition_index
    left = min(request.response_partition_limit, context.node.configs.broker["max.request.partition.size.limit"])
    rows: list[Body] = []
    for name in names:
        if name < first_name:
            continue
        if left <= 0:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        start = first_index if name == first_name else 0
        row = _row(context, name)
        partitions = row.get("partitions", [])
        row["partitions"] = partitions[start : start + left]
        rows.append(row)
        if start + left < len(partitions):
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": start + left}}
        left -= len(row["partitions"])
    return {"topics": rows}


def _row(context: Context, name: str) -> Body:
    topic = context.node.image.topics.get(name)
    if name in context.denied:
        return {"name": name, "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    if topic is None:
        legal = context.node.topics.is_legal_name(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        return {"name": name, "error_code": code}
    row = topic_row(topic, True)
    for partition in row["partitions"]:
        partition["eligible_leader_replicas"] = []
        partition["last_known_elr"] = []
    return row


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, handle, Access("DESCRIBE", "TOPIC", topic_names))
