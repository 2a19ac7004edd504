"""The machines below: brokers that live or are fenced, the controllers' quorum, disks, moves under way.

In: a `Cluster`. Out: plain values; None or nothing where a broker is too old, or not asked, to tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from runnel.client.address import Address
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

METADATA_TOPIC = "__cluster_metadata"
UNKNOWN = -1


class BrokerState(NamedTuple):
    node_id: int
    address: Address
    rack: str | None
    fenced: bool


class QuorumReplica(NamedTuple):
    node_id: int
    log_end_offset: int
    last_caught_up_ms: int


class Quorum(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class LogDir(NamedTuple):
    """A disk of a broker. `total_bytes` and `free_bytes` are -1 where the broker does not tell."""

    path: str
    error: ClientError | None
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    free_bytes: int

    @property
    def used_bytes(self) -> int:
        return sum(self.sizes.values())


async def features(cluster: Cluster) -> dict[str, int]:
    return dict((await cluster.connect()).features)


async def broker_states(cluster: Cluster) -> list[BrokerState]:
    """Every broker, the fenced ones too where the cluster tells (KIP-1073)."""
    if not await _offers(cluster, ApiKey.DESCRIBE_CLUSTER):
        view = cluster.view.brokers.values()
        return [BrokerState(each.node_id, each.address, each.rack, False) for each in view]
    body = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
    reply = await cluster.call(ApiKey.DESCRIBE_CLUSTER, body)
    if reply.error_code:
        raise refused(reply.error_code, "the cluster", reply.error_message)
    rows = [BrokerState(row.broker_id, Address(row.host, row.port), row.rack, row.is_fenced) for row in reply.brokers]
    return sorted(rows)


async def quorum(cluster: Cluster) -> Quorum | None:
    """The controllers, or None from a broker that does not tell."""
    if not await _offers(cluster, ApiKey.DESCRIBE_QUORUM):
        return None
    body = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
    reply = await cluster.call(ApiKey.DESCRIBE_QUORUM, body)
    if reply.error_code:
        raise refused(reply.error_code, "the controllers", reply.error_message)
    row = reply.topics[0].partitions[0]
    if row.error_code:
        raise refused(row.error_code, "the controllers", row.error_message)
    voters, observers = (tuple(map(_replica, rows)) for rows in (row.current_voters, row.observers))
    return Quorum(row.leader_id, row.leader_epoch, row.high_watermark, voters, observers)


def _replica(row: Struct) -> QuorumReplica:
    return QuorumReplica(row.replica_id, row.log_end_offset, row.last_caught_up_timestamp)


async def log_dirs(cluster: Cluster, node_id: int) -> list[LogDir]:
    """The disks of one broker and what lies on them."""
    reply = await cluster.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, node_id=node_id)
    if reply.error_code:
        raise refused(reply.error_code, f"the disks of broker {node_id}")
    return [_log_dir(row) for row in reply.results]


def _log_dir(row: Struct) -> LogDir:
    sizes = {
        TopicPartition(topic.name, part.partition_index): part.partition_size
        for topic in row.topics
        for part in topic.partitions
    }
    error = refused(row.error_code, f"log dir {row.log_dir}") if row.error_code else None
    return LogDir(row.log_dir, error, sizes, row.total_bytes, row.usable_bytes)


async def reassignments(cluster: Cluster) -> list[TopicPartition]:
    """Partitions whose replicas are being moved now."""
    if not await _offers(cluster, ApiKey.LIST_PARTITION_REASSIGNMENTS):
        return []
    body = {"timeout_ms": int(cluster.timeout_s * 1000), "topics": None}
    reply = await cluster.call_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, body)
    if reply.error_code and reply.error_code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
        raise refused(reply.error_code, "reassignments", reply.error_message)
    return [TopicPartition(topic.name, part.partition_index) for topic in reply.topics for part in topic.partitions]


async def _offers(cluster: Cluster, api_key: ApiKey) -> bool:
    return api_key in (await cluster.connect()).ranges
