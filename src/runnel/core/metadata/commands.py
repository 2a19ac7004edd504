"""What can be asked of the metadata machine, and what it answers.

Commands go in; a `Decision` comes out: the records to log and one outcome per item, in the order of the
request. An outcome carries Kafka's error code and a message; code NONE means that the item is done once its
records are committed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from runnel.core.metadata.image import QuotaEntity
from runnel.core.metadata.records import Endpoint, FeatureRange, MetadataRecord
from runnel.wire.errors import ErrorCode
from runnel.wire.types import ZERO_UUID

PRODUCER_ID_BLOCK = 1000


class ResourceType(IntEnum):
    """The resource types of the config APIs and of ConfigRecord."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """What a config is set on; a broker's name is its id, or "" for all brokers."""

    type: int
    name: str


class ConfigChange(NamedTuple):
    name: str
    operation: int
    value: str | None


# ---------------------------------------------------------------------------------------------- commands


Admission: TypeAlias = Callable[[int], None]
"""Asked with the number of partitions before they are made or deleted; raises Refusal where a quota forbids it."""


def admit_all(partitions: int) -> None:
    """No quota: any number may."""


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker starts. `unclean`: it did not stop in order, so records may have been lost at its logs' ends."""

    broker_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 asks for the default; `assignments` are (partition, replicas) pairs and exclude both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTopics:
    topics: Sequence[NewTopic]
    validate_only: bool = False
    admit: Admission = field(default=admit_all, compare=False)


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Topics by name or by id. Internal topics are refused unless allowed."""

    topics: Sequence[str | UUID]
    internal_allowed: bool = False
    admit: Admission = field(default=admit_all, compare=False)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Grow a topic to `count` partitions; `assignments` gives the replicas of each new one, in order."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    topics: Sequence[NewPartitions]
    validate_only: bool = False
    admit: Admission = field(default=admit_all, compare=False)


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Replace all overrides of each resource by these (the old AlterConfigs API)."""

    resources: Sequence[tuple[ConfigResource, Sequence[tuple[str, str | None]]]]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs:
    """Change single overrides of each resource, and leave the others."""

    resources: Sequence[tuple[ConfigResource, Sequence[ConfigChange]]]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class SetFeatures:
    """Set finalized feature levels; 0 removes one. Asked by the broker itself, at its first start."""

    levels: Mapping[str, int]


class FeatureUpdate(NamedTuple):
    """The level to set; `upgrade_type` 1 upgrades, 2 downgrades safely, 3 downgrades whatever it costs."""

    feature: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Change finalized feature levels, all or none. Asked by clients."""

    updates: Sequence[FeatureUpdate]
    validate_only: bool = False


class CredentialDeletion(NamedTuple):
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class CredentialUpsertion:
    """The password comes salted and hashed; it is kept out of whatever prints this."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials:
    deletions: Sequence[CredentialDeletion] = ()
    upsertions: Sequence[CredentialUpsertion] = ()


class QuotaChange(NamedTuple):
    """A quota to set, or to remove where the value is None."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """Changes to the quotas of one entity, which is given as (type, name) pairs."""

    entity: Sequence[tuple[str, str | None]]
    changes: Sequence[QuotaChange]


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    alterations: Sequence[QuotaAlteration]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders for these (topic, partition) pairs, or, where None, wherever one is needed.

    Election type 0 asks for the preferred leader, 1 for any, were it one that lacks records.
    """

    election_type: int
    partitions: Sequence[tuple[str, int]] | None


class PartitionReassignment(NamedTuple):
    """The replicas that a partition is to have; None cancels a move that is under way."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments:
    reassignments: Sequence[PartitionReassignment]
    replication_factor_may_change: bool = True


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """Reserve the next block of producer ids for a broker."""

    broker_id: int
    count: int = PRODUCER_ID_BLOCK


Command: TypeAlias = (
    RegisterBroker
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | IncrementalAlterConfigs
    | SetFeatures
    | UpdateFeatures
    | AlterUserScramCredentials
    | AlterClientQuotas
    | ElectLeaders
    | AlterPartitionReassignments
    | AllocateProducerIds
)


# ---------------------------------------------------------------------------------------------- outcomes


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """Of CreateTopics and DeleteTopics. `configs` are the overrides that the topic was created with."""

    name: str | None
    topic_id: UUID = ZERO_UUID
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionsOutcome:
    name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigOutcome:
    resource: ConfigResource
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class FeaturesOutcome:
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialOutcome:
    user: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class QuotaOutcome:
    entity: QuotaEntity
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """Of ElectLeaders and AlterPartitionReassignments."""

    topic: str
    partition: int
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsOutcome:
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    first_producer_id: int = -1
    count: int = 0


Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    """Records to log, all or none of them, and the reply to give once they are committed."""

    records: list[MetadataRecord]
    reply: Reply
