"""DescribeProducers (key 61).

Version 0 (KIP-664): the producers that a partition remembers, with their last sequence and, where they are inside a
transaction, where it began.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata.names import check_topic_name
from runnel.services.producers import active_producers
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


async def handle(context: Context, request: Any) -> Body:
    topics = []
    for topic in request.topics:  # one after the other: a request may name more partitions than there are
        partitions = [await _row(context, topic.name, index) for index in topic.partition_indexes]
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


async def _row(context: Context, topic: str, index: int) -> Body:
    row: Body = {"partition_index": index, "error_message": None, "active_producers": []}
    try:
        if topic in context.denied:
            raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        check_topic_name(topic)
        partition = await context.node.partitions.open(topic, index)
    except Refusal as refusal:
        return {**row, "error_code": refusal.code, "error_message": refusal.message}
    row["active_producers"] = [
        {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_timestamp": producer.last_timestamp_ms,
            "coordinator_epoch": producer.coordinator_epoch,
            "current_txn_start_offset": producer.transaction_first_offset,
        }
        for producer in active_producers(partition)
    ]
    return row


API = Api(ApiKey.DESCRIBE_PRODUCERS, handle, Access("READ", "TOPIC", topic_names))
