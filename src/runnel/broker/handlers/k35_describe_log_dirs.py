"""DescribeLogDirs (key 35).

Versions 1–5: the one data directory with the size of each partition and of the disk (KIP-827).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey


async def handle(context: Context, request: Any) -> Body:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    usage = await context.node.partitions.disk_usage(wanted)
    topics: dict[str, list[Body]] = {}
    for (topic, index), size in usage.partition_bytes.items():
        row = {"partition_index": index, "partition_size": size, "offset_lag": 0, "is_future_key": False}
        topics.setdefault(topic, []).append(row)
    result = {
        "log_dir": usage.directory,
        "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
        "total_bytes": usage.total_bytes,
        "usable_bytes": usage.usable_bytes,
    }
    return {"results": [result]}


API = Api(ApiKey.DESCRIBE_LOG_DIRS, handle, Access("DESCRIBE", "CLUSTER"))
