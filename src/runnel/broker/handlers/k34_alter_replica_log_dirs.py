"""AlterReplicaLogDirs (key 34).

Versions 1–2 (KIP-113). There is one data directory: a replica that is to be there stays there, and any other directory
is LOG_DIR_NOT_FOUND. A partition that is named under two directories is to be in the last.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


def handle(context: Context, request: Any) -> Body:
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    topics: dict[str, list[Body]] = {}
    for (topic, index), path in wanted.items():
        row = {"partition_index": index, "error_code": _code(context, topic, index, path)}
        topics.setdefault(topic, []).append(row)
    return {"results": [{"topic_name": name, "partitions": rows} for name, rows in topics.items()]}


def _code(context: Context, topic: str, index: int, path: str) -> ErrorCode:
    try:
        check_cluster(context)
    except Refusal as refusal:
        return refusal.code
    if path != context.node.partitions.directory:
        return ErrorCode.LOG_DIR_NOT_FOUND
    exists = context.node.partitions.exists(topic, index)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, handle, Access("ALTER", "CLUSTER"))
