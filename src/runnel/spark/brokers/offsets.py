"""Offsets of partitions: by timestamp, first and last; and commits of progress to a consumer group.

In: a `Cluster` and partitions. Out: offsets; a commit answers nothing but its failure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster, Patience
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

GROUP_KEY = 0
STANDALONE_GENERATION = -1
COMMIT_PATIENCE_S = 5.0
"""A commit only informs: it must not hold up the query for long."""
# Where a topic was deleted in the meantime there is nothing to commit.
_FINE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: int, *, patience_s: float | None = None
) -> dict[TopicPartition, int]:
    """The offset of a timestamp (or EARLIEST, LATEST) in each partition; -1 where there is none."""

    def ask(node_id: int, group: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        rows = {
            target: {"partition_index": target.partition, "current_leader_epoch": -1, "timestamp": timestamp}
            for target, timestamp in group.items()
        }
        body = {"replica_id": -1, "isolation_level": isolation, "topics": _by_topic(rows)}
        reply = cluster.connect(node_id).call(ApiKey.LIST_OFFSETS, body)
        return {
            TopicPartition(topic.name, row.partition_index): (row.error_code, row.offset)
            for topic in reply.topics
            for row in topic.partitions
        }

    return cluster.ask_leaders(wanted, ask, patience_s=patience_s)


def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int], *, patience_s: float = COMMIT_PATIENCE_S
) -> None:
    """Commit as a consumer that manages its own partitions does; refused while the group has members."""
    rows = {
        target: {
            "partition_index": target.partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for target, offset in offsets.items()
    }
    unseen = {target.topic for target in offsets} - cluster.view.topics.keys()
    if unseen:
        cluster.refresh(sorted(unseen))
    topics = [
        {**topic, "topic_id": cluster.view.topics[topic["name"]].topic_id}
        for topic in _by_topic(rows)
        if cluster.view.topics[topic["name"]].error_code == 0
    ]
    body = {
        "group_id": group_id,
        "generation_id_or_member_epoch": STANDALONE_GENERATION,
        "member_id": "",
        "group_instance_id": None,
        "topics": topics,
    }
    patience = Patience(patience_s)
    while True:
        try:
            reply = cluster.connect(_coordinator(cluster, group_id)).call(ApiKey.OFFSET_COMMIT, body)
            for topic in reply.topics:
                for row in topic.partitions:
                    if row.error_code not in _FINE:
                        raise refused(row.error_code, f"commit to group '{group_id}'")
            return
        except ClientError as error:
            patience.wait_or_raise(error)


def _coordinator(cluster: Cluster, group_id: str) -> int:
    body = {"key": group_id, "key_type": GROUP_KEY, "coordinator_keys": [group_id]}
    reply = cluster.call(ApiKey.FIND_COORDINATOR, body)
    found: Struct = reply.coordinators[0] if reply.coordinators else reply
    if found.error_code:
        raise refused(found.error_code, f"group '{group_id}'")
    if found.node_id not in cluster.view.brokers:
        cluster.refresh(())
    node_id: int = found.node_id
    return node_id


def _by_topic(rows: Mapping[TopicPartition, Mapping[str, Any]]) -> list[dict[str, Any]]:
    topics: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for target, row in rows.items():
        topics[target.topic].append(row)
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
