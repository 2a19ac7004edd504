"""The records of `__consumer_offsets`, in Kafka's own encoding: a versioned key, a versioned value, null to delete.

Owns the byte layout. In: a record of this module, out: key and value; and back. Written as Kafka 4.3 writes them:
OffsetCommitKey 1 with OffsetCommitValue 4 (1 where the client chose a retention time), GroupMetadataKey 2 with
GroupMetadataValue 3. Every older value version is read. Records of kinds that are not ours are kept as `Unread`.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias
from uuid import UUID

from runnel.wire.errors import Malformed
from runnel.wire.primitives import (
    compact_string,
    legacy_bytes,
    legacy_count,
    legacy_string,
    read_compact_string,
    read_legacy_bytes,
    read_legacy_count,
    read_legacy_string,
    read_legacy_string_nullable,
    read_tagged,
    read_uuid,
    tagged,
)
from runnel.wire.types import ZERO_UUID

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION_MAX = 4
GROUP_VALUE_VERSION_MAX = 3
TOPIC_ID_TAG = 0
MEMBER_BYTES_MIN = 18

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")
_OFFSET_AND_EPOCH = Struct(">hqi")
_VERSION_AND_OFFSET = Struct(">hq")


class OffsetCommitted(NamedTuple):
    """`expire_ms` -1: the group's retention decides."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: UUID = ZERO_UUID


class OffsetRemoved(NamedTuple):
    group_id: str
    topic: str
    partition: int


class SavedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupSaved(NamedTuple):
    """A generation with its members and assignments, or an empty group."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[SavedMember, ...] = ()


class GroupRemoved(NamedTuple):
    group_id: str


class Unread(NamedTuple):
    """A record of a kind that this machine does not keep."""

    key: bytes


GroupRecord: TypeAlias = OffsetCommitted | OffsetRemoved | GroupSaved | GroupRemoved | Unread


# ------------------------------------------------------------------------------------------------ writing


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    if isinstance(record, OffsetCommitted):
        return _offset_key(record), _offset_value(record)
    if isinstance(record, OffsetRemoved):
        return _offset_key(record), None
    if isinstance(record, GroupSaved):
        return _group_key(record.group_id), _group_value(record)
    if isinstance(record, GroupRemoved):
        return _group_key(record.group_id), None
    return record.key, None


def _offset_key(record: OffsetCommitted | OffsetRemoved) -> bytes:
    return b"".join((b"\0\1", legacy_string(record.group_id), legacy_string(record.topic), _I32.pack(record.partition)))


def _offset_value(record: OffsetCommitted) -> bytes:
    if record.expire_ms >= 0:
        times = _I64.pack(record.commit_ms) + _I64.pack(record.expire_ms)
        return _VERSION_AND_OFFSET.pack(1, record.offset) + legacy_string(record.metadata) + times
    head = _OFFSET_AND_EPOCH.pack(OFFSET_VALUE_VERSION_MAX, record.offset, record.leader_epoch)
    has_id = record.topic_id != ZERO_UUID
    tags = tagged([(TOPIC_ID_TAG, record.topic_id.bytes)]) if has_id else b"\0"
    return b"".join((head, compact_string(record.metadata), _I64.pack(record.commit_ms), tags))


def _group_key(group_id: str) -> bytes:
    return b"\0\2" + legacy_string(group_id)


def _group_value(record: GroupSaved) -> bytes:
    parts = [
        _I16.pack(GROUP_VALUE_VERSION_MAX),
        legacy_string(record.protocol_type),
        _I32.pack(record.generation),
        legacy_string(record.protocol),
        legacy_string(record.leader),
        _I64.pack(record.state_ms),
        legacy_count(len(record.members)),
    ]
    for member in record.members:
        parts += (
            legacy_string(member.member_id),
            legacy_string(member.instance_id),
            legacy_string(member.client_id),
            legacy_string(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            legacy_bytes(member.subscription),
            legacy_bytes(member.assignment),
        )
    return b"".join(parts)


# ------------------------------------------------------------------------------------------------ reading


def decode_record(key: bytes | None, value: bytes | None) -> GroupRecord:
    """Malformed where the bytes of a known kind do not parse."""
    if key is None or len(key) < 2:
        raise Malformed("a record of __consumer_offsets has no key")
    (version,) = _I16.unpack_from(key)
    try:
        if version in OFFSET_KEY_VERSIONS:
            return _read_offset(key, value)
        if version == GROUP_KEY_VERSION:
            return _read_group(key, value)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a record of __consumer_offsets does not parse: {error}") from error
    return Unread(key)


def _read_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetRemoved:
    group_id, position = read_legacy_string(key, 2)
    topic, position = read_legacy_string(key, position)
    partition = _I32.unpack_from(key, position)[0]
    if value is None:
        return OffsetRemoved(group_id, topic, partition)
    version, offset = _VERSION_AND_OFFSET.unpack_from(value)
    if not 0 <= version <= OFFSET_VALUE_VERSION_MAX:
        raise Malformed(f"a committed offset has version {version}; up to {OFFSET_VALUE_VERSION_MAX} is known")
    position, epoch, expire_ms, topic_id = 10, -1, -1, ZERO_UUID
    if version >= 3:
        epoch = _I32.unpack_from(value, position)[0]
        position += 4
    read_text = read_compact_string if version >= 4 else read_legacy_string
    metadata, position = read_text(value, position)
    commit_ms = _I64.unpack_from(value, position)[0]
    if version == 1:
        expire_ms = _I64.unpack_from(value, position + 8)[0]
    if version >= 4:
        fields, _ = read_tagged(value, position + 8, (TOPIC_ID_TAG,))
        if TOPIC_ID_TAG in fields:
            topic_id, _ = read_uuid(value, fields[TOPIC_ID_TAG][0])
    return OffsetCommitted(group_id, topic, partition, offset, epoch, metadata, commit_ms, expire_ms, topic_id)


def _read_group(key: bytes, value: bytes | None) -> GroupSaved | GroupRemoved:
    group_id, _ = read_legacy_string(key, 2)
    if value is None:
        return GroupRemoved(group_id)
    (version,) = _I16.unpack_from(value)
    if not 0 <= version <= GROUP_VALUE_VERSION_MAX:
        raise Malformed(f"group {group_id} was saved in version {version}; up to {GROUP_VALUE_VERSION_MAX} is known")
    protocol_type, position = read_legacy_string(value, 2)
    generation = _I32.unpack_from(value, position)[0]
    protocol, position = read_legacy_string_nullable(value, position + 4)
    leader, position = read_legacy_string_nullable(value, position)
    state_ms = -1
    if version >= 2:
        state_ms = _I64.unpack_from(value, position)[0]
        position += 8
    count, position = read_legacy_count(value, position, MEMBER_BYTES_MIN)
    members = []
    for _ in range(count):
        member, position = _read_member(value, position, version)
        members.append(member)
    return GroupSaved(group_id, protocol_type, generation, protocol, leader, state_ms, tuple(members))


def _read_member(value: bytes, position: int, version: int) -> tuple[SavedMember, int]:
    instance_id: str | None = None
    member_id, position = read_legacy_string(value, position)
    if version >= 3:
        instance_id, position = read_legacy_string_nullable(value, position)
    client_id, position = read_legacy_string(value, position)
    client_host, position = read_legacy_string(value, position)
    rebalance_ms = -1
    if version >= 1:
        rebalance_ms = _I32.unpack_from(value, position)[0]
        position += 4
    session_ms = _I32.unpack_from(value, position)[0]
    subscription, position = read_legacy_bytes(value, position + 4)
    assignment, position = read_legacy_bytes(value, position)
    if version < 1:
        rebalance_ms = session_ms
    saved = SavedMember(
        member_id, instance_id, client_id, client_host, rebalance_ms, session_ms, subscription, assignment
    )
    return saved, position
