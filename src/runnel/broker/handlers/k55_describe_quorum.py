"""DescribeQuorum (key 55).

Versions 0–2 (KIP-595, 836, 853): the metadata log, its leader and its voters, of which this broker is the only one. It
has no listener of its own as a controller, so the address that the client used is told.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.router import Access, Api, Body, Context
from runnel.services.cluster import QuorumState
from runnel.services.controller import METADATA_TOPIC
from runnel.services.partitions import now_ms
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

LISTENER = "PLAINTEXT"


def handle(context: Context, request: Any) -> Body:
    try:
        check_cluster(context)
    except Refusal as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message}
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return {"error_message": "", "topics": [_unknown(topic) for topic in request.topics], "nodes": []}
    quorum = context.node.cluster.quorum()
    host, port = context.connection.advertised
    node = {"node_id": quorum.leader_id, "listeners": [{"name": LISTENER, "host": host, "port": port}]}
    topic = {"topic_name": METADATA_TOPIC, "partitions": [_partition(quorum)]}
    return {"error_message": "", "topics": [topic], "nodes": [node]}


def _partition(quorum: QuorumState) -> Body:
    now = now_ms()
    voter = {
        "replica_id": quorum.leader_id,
        "replica_directory_id": quorum.directory_id,
        "log_end_offset": quorum.end_offset,
        "last_fetch_timestamp": now,  # the leader has always just heard from itself
        "last_caught_up_timestamp": now,
    }
    return {
        "partition_index": 0,
        "error_message": "",
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": [voter],
        "observers": [],
    }


def _unknown(topic: Any) -> Body:
    """As in Kafka, whoever asks for anything else hears nothing of the metadata log either."""
    row = {
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "error_message": "This server does not host this topic-partition.",
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }
    partitions = [{"partition_index": partition.partition_index, **row} for partition in topic.partitions]
    return {"topic_name": topic.topic_name, "partitions": partitions}


API = Api(ApiKey.DESCRIBE_QUORUM, handle, Access("DESCRIBE", "CLUSTER"))
