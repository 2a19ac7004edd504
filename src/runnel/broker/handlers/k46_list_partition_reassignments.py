"""ListPartitionReassignments (key 46).

Version 0 (KIP-455): the partitions whose replicas are being moved. On one broker there are none.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import PartitionImage
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


def handle(context: Context, request: Any) -> Body:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    try:
        check_cluster(context)
    except Refusal as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message}
    topics: dict[str, list[Body]] = {}
    for name, partition in context.node.cluster.moving(wanted):
        topics.setdefault(name, []).append(_row(partition))
    return {
        "error_message": None,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }


def _row(partition: PartitionImage) -> Body:
    return {
        "partition_index": partition.index,
        "replicas": list(partition.replicas),
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
    }


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, handle, Access("DESCRIBE", "CLUSTER"))
