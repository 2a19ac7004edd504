"""What is asked of the group machine and what it answers: commands, replies, limits, and one turn's outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from runnel.core.groups.records import GroupRecord, OffsetCommitted
from runnel.wire.errors import ErrorCode
from runnel.wire.types import ZERO_UUID

UNKNOWN_MEMBER = ""
UNKNOWN_GENERATION = -1
CONSUMER = "consumer"
CLASSIC = "classic"

NAME_CHARACTERS_MAX = 8000
"""Names go into records whose strings hold 32 767 bytes; a member id is a client id and 37 characters."""


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: whether groups with members may change their protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """The settings of consumer groups (`group.consumer.*`), with Kafka's defaults but for the assignment interval."""

    session_timeout_ms: int = 45_000
    session_timeout_ms_min: int = 45_000
    session_timeout_ms_max: int = 60_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_ms_min: int = 5_000
    heartbeat_interval_ms_max: int = 15_000
    assignment_interval_ms: int = 0
    assignment_interval_ms_min: int = 0
    assignment_interval_ms_max: int = 15_000
    members_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The settings of the coordinator, with Kafka's defaults but for the initial delay."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = 2**31 - 1
    initial_delay_ms: int = 0
    offset_metadata_bytes_max: int = 4096
    offset_retention_ms: int = 7 * 24 * 3_600_000
    expiry_interval_ms: int = 600_000
    consumer: ConsumerLimits = ConsumerLimits()


class Topic(Protocol):
    @property
    def topic_id(self) -> UUID: ...
    @property
    def partitions(self) -> Sequence[object]: ...


class ClusterView(NamedTuple):
    """What the coordinator sees of the cluster: topics by name, names by id, dynamic configs by group. A change comes
    as a new value; `version` orders them."""

    topics: Mapping[str, Topic]
    names: Mapping[UUID, str]
    group_configs: Mapping[str, Mapping[str, str]]
    version: int = 0


NO_CLUSTER = ClusterView({}, {}, {})


class Join(NamedTuple):
    """`new_member_id` is the id that a member without one gets. `skips_assignment`: JoinGroup 9 and later."""

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    new_member_id: str
    member_id_required: bool = False
    skips_assignment: bool = False


class JoinReply(NamedTuple):
    code: ErrorCode = ErrorCode.NONE
    member_id: str = UNKNOWN_MEMBER
    generation: int = UNKNOWN_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER
    skip_assignment: bool = False
    members: Sequence[tuple[str, str | None, bytes]] = ()


class Sync(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class SyncReply(NamedTuple):
    code: ErrorCode = ErrorCode.NONE
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


class Leaving(NamedTuple):
    member_id: str
    instance_id: str | None = None


class LeaveReply(NamedTuple):
    code: ErrorCode
    members: Sequence[tuple[Leaving, ErrorCode]] = ()


class NewOffset(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: UUID = ZERO_UUID


class Commit(NamedTuple):
    """`generation` is a member epoch in consumer groups. `retention_ms` -1: that of the broker. `knows_epochs`:
    OffsetCommit 9 and later, which members of consumer groups need."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Sequence[NewOffset]
    retention_ms: int = -1
    knows_epochs: bool = True


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: Sequence[DescribedMember]


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(slots=True)
class Turn:
    """What one call of the machine came to.

    `records` are to be logged, all or none; `answers` are replies to parked requests, by the tokens that these were
    handed in with. Both the reply of the call and the answers may leave once the records are committed.
    """

    records: list[GroupRecord] = field(default_factory=list)
    answers: list[tuple[Any, Any]] = field(default_factory=list)
    reply: Any = None


Offsets = dict[tuple[str, int], OffsetCommitted]
