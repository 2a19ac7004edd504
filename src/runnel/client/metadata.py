"""What a cluster looked like at one moment: brokers, topics, partitions and their leaders.

In: a decoded Metadata reply. Out: frozen values that nothing mutates; a newer view replaces the older one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runnel.client.address import Address
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

NO_LEADER = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class BrokerView:
    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int = 0

    @property
    def is_offline(self) -> bool:
        return self.leader_id == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: uuid.UUID
    internal: bool
    partitions: tuple[PartitionView, ...]
    error_code: int = 0

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class ClusterView:
    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerView]
    topics: Mapping[str, TopicView]


def read_cluster(reply: Struct) -> ClusterView:
    brokers = {
        broker.node_id: BrokerView(broker.node_id, Address(broker.host, broker.port), broker.rack)
        for broker in reply.brokers
    }
    topics = {topic.name: read_topic(topic) for topic in reply.topics}
    return ClusterView(reply.cluster_id, reply.controller_id, brokers, topics)


def read_topic(topic: Struct) -> TopicView:
    partitions = sorted((read_partition(row) for row in topic.partitions), key=lambda view: view.index)
    return TopicView(topic.name, topic.topic_id, topic.is_internal, tuple(partitions), topic.error_code)


def read_partition(row: Struct) -> PartitionView:
    leader_id = NO_LEADER if row.error_code == ErrorCode.LEADER_NOT_AVAILABLE else row.leader_id
    return PartitionView(
        index=row.partition_index,
        leader_id=leader_id,
        leader_epoch=row.leader_epoch,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline_replicas=tuple(row.offline_replicas),
        error_code=row.error_code,
    )
