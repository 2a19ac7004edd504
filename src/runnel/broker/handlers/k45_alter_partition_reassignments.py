"""AlterPartitionReassignments (key 45).

Versions 0–1 (KIP-455): moves the replicas of partitions, or cancels a move; version 1 can hold the replication factor
fast (KIP-860). On one broker every move that is not refused is complete at once.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.handlers.partition_rows import rows_by_topic
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import PartitionReassignment
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


async def handle(context: Context, request: Any) -> Body:
    factor_may_change = request.allow_replication_factor_change
    wanted = [
        PartitionReassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    body: Body = {"allow_replication_factor_change": factor_may_change, "error_message": None}
    if not request.topics:  # Kafka does not look further, and answers with the defaults
        body = {"allow_replication_factor_change": True, "error_message": ""}
    try:
        check_cluster(context)
        outcomes = await context.node.cluster.reassign(wanted, factor_may_change)
    except Refusal as refusal:
        return {**body, "error_code": refusal.code, "error_message": refusal.message}
    asked = [(topic.name, len(topic.partitions)) for topic in request.topics]
    return {**body, "responses": rows_by_topic(asked, outcomes, _topic_row, "partition_index")}


def _topic_row(topic: str, partitions: list[Body]) -> Body:
    return {"name": topic, "partitions": partitions}


API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, handle, Access("ALTER", "CLUSTER"))
