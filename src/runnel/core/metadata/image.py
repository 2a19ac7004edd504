"""The cluster as readers see it: immutable values, replaced as a whole at each change.

`draft.apply_records` is how a new image comes about. Maps of configs, quotas and credentials that no record touched are
the very same objects in the next image, so that readers may compare them by identity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from runnel.core.metadata.records import Endpoint, FeatureRange
from runnel.wire.types import BrokerId, LeaderEpoch

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BrokerImage:
    broker_id: BrokerId
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    fenced: bool = False
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    features: tuple[FeatureRange, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionImage:
    index: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; partition number i is `partitions[i]`. `configs` holds the overrides as texts."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=_empty)

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionImage | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What checks a user's password under one mechanism. Secret: never part of a reply or of a log line."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


# Whom a quota is for: sorted (type, name) pairs; the types are "user", "client-id" and "ip", and no name stands for
# whoever has no quota of their own.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Everything the metadata log says, at one moment.

    `version` counts the records replayed; it orders images, keys caches, and is no part of their equality.
    `broker_configs` holds dynamic configs by resource name: "" for all brokers, "1" for broker 1; `group_configs` by
    group id, `client_metrics_configs` by the name of the subscription. `scram_credentials` are by user and mechanism
    (1 SCRAM-SHA-256, 2 SCRAM-SHA-512).
    """

    cluster_id: str
    controller_id: BrokerId
    version: int = field(default=0, compare=False)
    brokers: Mapping[int, BrokerImage] = field(default_factory=_empty)
    topics: Mapping[str, TopicImage] = field(default_factory=_empty)
    topic_names: Mapping[UUID, str] = field(default_factory=_empty)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)
    client_metrics_configs: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=_empty)
    scram_credentials: Mapping[tuple[str, int], ScramCredential] = field(default_factory=_empty)
    features: Mapping[str, int] = field(default_factory=_empty)
    next_producer_id: int = 0
    partition_count: int = 0

    def topic(self, name: str) -> TopicImage | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def usable_brokers(self) -> list[int]:
        """The ids of the brokers that may be given replicas, in order."""
        return sorted(broker.broker_id for broker in self.brokers.values() if not broker.fenced)
