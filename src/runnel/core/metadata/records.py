"""The records of the metadata log, with Apache Kafka's own encoding.

In: a record value; out: its bytes (frame version, record id, record version as varints, then the flexible
body), and back. Apache Kafka's dump tool reads what this writes (`--cluster-metadata-decoder`). Records are
written at the newest version of Kafka 4.3 and read at any version up to it.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from runnel.core.metadata.codec import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    IDENTIFIER,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UINT16,
    Codec,
    Field,
    array,
    fields_codec,
    nullable_array,
)
from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer
from runnel.wire.varints import decode_uvarint, encode_uvarint

FRAME_VERSION = 1
NO_LEADER = -1
NO_LEADER_CHANGE = -2
UNASSIGNED_DIRECTORY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True)
class FeatureRange:
    name: str
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    end_points: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    is_migrating_zk_broker: bool = False
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord:
    """`fenced`: -1 unfences, 1 fences, 0 leaves as it is."""

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    partition_id: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """What changed in a partition. A leader given, even the same one, starts a new leader epoch."""

    partition_id: int
    topic_id: UUID
    isr: tuple[int, ...] | None = None
    leader: int = NO_LEADER_CHANGE
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    directories: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A config set on a resource, or unset where the value is None."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord:
    """What SCRAM needs to check a password, which cannot be had back from it. Mechanism 1 is SHA-256, 2 SHA-512."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord:
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class QuotaEntityPart:
    """One part of whom a quota is for; no name stands for whoever has no quota of their own."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """A quota set on an entity, or removed from it."""

    entity: tuple[QuotaEntityPart, ...]
    key: str
    value: float
    remove: bool = False


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    name: str
    feature_level: int


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class NoOpRecord:
    pass


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | ClientQuotaRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | NoOpRecord
)


class _Schema(NamedTuple):
    record: type[MetadataRecord]
    record_id: int
    newest_version: int
    fields: tuple[Field, ...]


_ENDPOINT = fields_codec(
    Endpoint,
    (Field("name", STRING), Field("host", STRING), Field("port", UINT16), Field("security_protocol", INT16)),
    0,
)
_FEATURE = fields_codec(
    FeatureRange,
    (Field("name", STRING), Field("min_supported_version", INT16), Field("max_supported_version", INT16)),
    0,
)
_QUOTA_ENTITY_PART = fields_codec(
    QuotaEntityPart, (Field("entity_type", STRING), Field("entity_name", NULLABLE_STRING)), 0
)
_NUMBERS = array(INT32)
_MAYBE_NUMBERS = nullable_array(INT32)
_IDENTIFIERS = array(IDENTIFIER)
_MAYBE_IDENTIFIERS = nullable_array(IDENTIFIER)

_SCHEMAS = (
    _Schema(
        RegisterBrokerRecord,
        0,
        4,
        (
            Field("broker_id", INT32),
            Field("is_migrating_zk_broker", BOOLEAN, since=2),
            Field("incarnation_id", IDENTIFIER),
            Field("broker_epoch", INT64),
            Field("end_points", array(_ENDPOINT)),
            Field("features", array(_FEATURE)),
            Field("rack", NULLABLE_STRING),
            Field("fenced", BOOLEAN),
            Field("in_controlled_shutdown", BOOLEAN, since=1),
            Field("log_dirs", _IDENTIFIERS, since=3, tag=0),
            Field("cordoned_log_dirs", _MAYBE_IDENTIFIERS, since=4, tag=1),
        ),
    ),
    _Schema(UnregisterBrokerRecord, 1, 0, (Field("broker_id", INT32), Field("broker_epoch", INT64))),
    _Schema(TopicRecord, 2, 0, (Field("name", STRING), Field("topic_id", IDENTIFIER))),
    _Schema(
        PartitionRecord,
        3,
        2,
        (
            Field("partition_id", INT32),
            Field("topic_id", IDENTIFIER),
            Field("replicas", _NUMBERS),
            Field("isr", _NUMBERS),
            Field("removing_replicas", _NUMBERS),
            Field("adding_replicas", _NUMBERS),
            Field("leader", INT32),
            Field("leader_recovery_state", INT8, tag=0),
            Field("leader_epoch", INT32),
            Field("partition_epoch", INT32),
            Field("directories", _IDENTIFIERS, since=1),
            Field("eligible_leader_replicas", _MAYBE_NUMBERS, since=2, tag=1),
            Field("last_known_elr", _MAYBE_NUMBERS, since=2, tag=2),
        ),
    ),
    _Schema(
        ConfigRecord,
        4,
        0,
        (
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("name", STRING),
            Field("value", NULLABLE_STRING),
        ),
    ),
    _Schema(
        PartitionChangeRecord,
        5,
        2,
        (
            Field("partition_id", INT32),
            Field("topic_id", IDENTIFIER),
            Field("isr", _MAYBE_NUMBERS, tag=0),
            Field("leader", INT32, tag=1),
            Field("replicas", _MAYBE_NUMBERS, tag=2),
            Field("removing_replicas", _MAYBE_NUMBERS, tag=3),
            Field("adding_replicas", _MAYBE_NUMBERS, tag=4),
            Field("leader_recovery_state", INT8, tag=5),
            Field("eligible_leader_replicas", _MAYBE_NUMBERS, since=2, tag=6),
            Field("last_known_elr", _MAYBE_NUMBERS, since=2, tag=7),
            Field("directories", _MAYBE_IDENTIFIERS, since=1, tag=8),
        ),
    ),
    _Schema(RemoveTopicRecord, 9, 0, (Field("topic_id", IDENTIFIER),)),
    _Schema(
        UserScramCredentialRecord,
        11,
        0,
        (
            Field("name", STRING),
            Field("mechanism", INT8),
            Field("salt", BYTES),
            Field("stored_key", BYTES),
            Field("server_key", BYTES),
            Field("iterations", INT32),
        ),
    ),
    _Schema(FeatureLevelRecord, 12, 0, (Field("name", STRING), Field("feature_level", INT16))),
    _Schema(
        ClientQuotaRecord,
        14,
        0,
        (
            Field("entity", array(_QUOTA_ENTITY_PART)),
            Field("key", STRING),
            Field("value", FLOAT64),
            Field("remove", BOOLEAN),
        ),
    ),
    _Schema(
        ProducerIdsRecord,
        15,
        0,
        (Field("broker_id", INT32), Field("broker_epoch", INT64), Field("next_producer_id", INT64)),
    ),
    _Schema(
        BrokerRegistrationChangeRecord,
        17,
        3,
        (
            Field("broker_id", INT32),
            Field("broker_epoch", INT64),
            Field("fenced", INT8, tag=0),
            Field("in_controlled_shutdown", INT8, since=1, tag=1),
            Field("log_dirs", _IDENTIFIERS, since=2, tag=2),
            Field("cordoned_log_dirs", _MAYBE_IDENTIFIERS, since=3, tag=3),
        ),
    ),
    _Schema(NoOpRecord, 20, 0, ()),
    _Schema(RemoveUserScramCredentialRecord, 22, 0, (Field("name", STRING), Field("mechanism", INT8))),
)


class _Writer(NamedTuple):
    prefix: bytes
    codec: Codec


def _writer(schema: _Schema) -> _Writer:
    numbers = (FRAME_VERSION, schema.record_id, schema.newest_version)
    prefix = b"".join(encode_uvarint(number) for number in numbers)
    return _Writer(prefix, fields_codec(schema.record, schema.fields, schema.newest_version))


_WRITERS: dict[type, _Writer] = {schema.record: _writer(schema) for schema in _SCHEMAS}
_READERS: dict[tuple[int, int], Codec] = {
    (schema.record_id, version): fields_codec(schema.record, schema.fields, version)
    for schema in _SCHEMAS
    for version in range(schema.newest_version + 1)
}


def encode_record(record: MetadataRecord) -> bytes:
    """The value bytes of the record in the metadata log."""
    prefix, codec = _WRITERS[type(record)]
    out = bytearray(prefix)
    codec.write(out, record)
    return bytes(out)


def decode_record(buffer: ReadBuffer) -> MetadataRecord:
    """The record in these value bytes; Malformed where they are not one of ours, whole and nothing more."""
    frame_version, position = decode_uvarint(buffer, 0)
    record_id, position = decode_uvarint(buffer, position)
    version, position = decode_uvarint(buffer, position)
    codec = _READERS.get((record_id, version))
    if frame_version != FRAME_VERSION or codec is None:
        raise Malformed(
            f"metadata record {record_id} version {version} (frame {frame_version}) is unknown to this release"
        )
    record: MetadataRecord
    record, position = codec.read(buffer, position)
    if position != len(buffer):
        raise Malformed(f"metadata record {record_id} has {len(buffer) - position} bytes too many")
    return record
