"""The metadata state machine: decide → log → replay.

`handle` decides: it reads the image and gives records and a reply, and changes nothing. The caller logs the
records, waits until they are committed, calls `replay_all` with them, and only then sends the reply.
`replay_all` is the one mutator, at run time and at restart alike. Neither the clock nor chance is read; both
come in as arguments.
"""

from collections.abc import Callable, Iterable
from typing import Any, overload
from uuid import UUID

from runnel.core.metadata.alterations import alter_configs
from runnel.core.metadata.brokers import allocate_producer_ids, register_broker
from runnel.core.metadata.commands import (
    AllocateProducerIds,
    AlterClientQuotas,
    AlterConfigs,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    Command,
    ConfigOutcome,
    CreatePartitions,
    CreateTopics,
    CredentialOutcome,
    Decision,
    DeleteTopics,
    ElectLeaders,
    FeaturesOutcome,
    IncrementalAlterConfigs,
    PartitionOutcome,
    PartitionsOutcome,
    ProducerIdsOutcome,
    QuotaOutcome,
    RegisterBroker,
    RegistrationOutcome,
    SetFeatures,
    TopicOutcome,
    UpdateFeatures,
)
from runnel.core.metadata.credentials import alter_credentials
from runnel.core.metadata.draft import apply_records
from runnel.core.metadata.features import set_features, update_features
from runnel.core.metadata.image import ClusterImage
from runnel.core.metadata.quotas import alter_client_quotas
from runnel.core.metadata.reassignments import alter_reassignments, elect_leaders
from runnel.core.metadata.records import MetadataRecord
from runnel.core.metadata.rules import ClusterLimits, ConfigJudge
from runnel.core.metadata.topics import create_partitions, create_topics, delete_topics
from runnel.wire.types import BrokerId


class MetadataMachine:
    """The metadata of one cluster. `image` is the state; keep a reference to read one moment consistently."""

    __slots__ = ("image", "limits", "rules")

    def __init__(
        self, cluster_id: str, controller_id: int, rules: ConfigJudge, limits: ClusterLimits | None = None
    ) -> None:
        self.image = ClusterImage(cluster_id, BrokerId(controller_id))
        self.rules = rules
        self.limits = limits or ClusterLimits()

    @overload
    def handle(
        self, command: CreateTopics | DeleteTopics, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[tuple[TopicOutcome, ...]]: ...
    @overload
    def handle(
        self, command: CreatePartitions, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[tuple[PartitionsOutcome, ...]]: ...
    @overload
    def handle(
        self, command: AlterConfigs | IncrementalAlterConfigs, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[tuple[ConfigOutcome, ...]]: ...
    @overload
    def handle(
        self, command: RegisterBroker, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[RegistrationOutcome]: ...
    @overload
    def handle(
        self, command: AllocateProducerIds, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[ProducerIdsOutcome]: ...
    @overload
    def handle(
        self, command: AlterClientQuotas, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[tuple[QuotaOutcome, ...]]: ...
    @overload
    def handle(
        self, command: AlterUserScramCredentials, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[tuple[CredentialOutcome, ...]]: ...
    @overload
    def handle(
        self, command: ElectLeaders | AlterPartitionReassignments, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[tuple[PartitionOutcome, ...]]: ...
    @overload
    def handle(
        self, command: UpdateFeatures, now_ms: int, new_uuid: Callable[[], UUID]
    ) -> Decision[FeaturesOutcome]: ...
    @overload
    def handle(self, command: SetFeatures, now_ms: int, new_uuid: Callable[[], UUID]) -> Decision[None]: ...

    def handle(self, command: Command, now_ms: int, new_uuid: Callable[[], UUID]) -> Decision[Any]:
        """Decide. `now_ms` is unused so far: nothing in the metadata of today depends on time."""
        match command:
            case CreateTopics():
                return create_topics(self.image, self.rules, self.limits, command, new_uuid)
            case DeleteTopics():
                return delete_topics(self.image, self.limits, command)
            case CreatePartitions():
                return create_partitions(self.image, self.limits, command)
            case AlterConfigs() | IncrementalAlterConfigs():
                return alter_configs(self.image, self.rules, command)
            case RegisterBroker():
                return register_broker(self.image, command)
            case AllocateProducerIds():
                return allocate_producer_ids(self.image, command)
            case AlterClientQuotas():
                return alter_client_quotas(self.image, command)
            case AlterUserScramCredentials():
                return alter_credentials(self.image, command)
            case ElectLeaders():
                return elect_leaders(self.image, command)
            case AlterPartitionReassignments():
                return alter_reassignments(self.image, command)
            case UpdateFeatures():
                return update_features(self.image, command)
            case SetFeatures():
                return set_features(self.image, command)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one committed record."""
        self.replay_all((record,))

    def replay_all(self, records: Iterable[MetadataRecord]) -> None:
        """Apply committed records in log order; readers see either none of them or all."""
        self.image = apply_records(self.image, records)
