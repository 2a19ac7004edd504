"""Offsets of partitions: by timestamp, first and last.

In: a `Cluster` and partitions. Out: offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster
from runnel.wire.apis import ApiKey


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: int, *, patience_s: float | None = None
) -> dict[TopicPartition, int]:
    """The offset of a timestamp (or EARLIEST, LATEST) in each partition; -1 where there is none."""

    def ask(node_id: int, group: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        rows = {
            target: {"partition_index": target.partition, "current_leader_epoch": -1, "timestamp": timestamp}
            for target, timestamp in group.items()
        }
        body = {"replica_id": -1, "isolation_level": isolation, "topics": by_topic(rows)}
        reply = cluster.connect(node_id).call(ApiKey.LIST_OFFSETS, body)
        return {
            TopicPartition(topic.name, row.partition_index): (row.error_code, row.offset)
            for topic in reply.topics
            for row in topic.partitions
        }

    return cluster.ask_leaders(wanted, ask, patience_s=patience_s)


def by_topic(rows: Mapping[TopicPartition, Mapping[str, Any]]) -> list[dict[str, Any]]:
    topics: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for target, row in rows.items():
        topics[target.topic].append(row)
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
