"""Committed offsets on the log: OffsetCommitKey 1 with OffsetCommitValue 4.

Version 1 of the value is written where the client chose a retention time. Every older version is read.
"""

from struct import Struct
from typing import NamedTuple
from uuid import UUID

from runnel.wire.errors import Malformed
from runnel.wire.primitives import (
    compact_string,
    legacy_string,
    read_compact_string,
    read_legacy_string,
    read_tagged,
    read_uuid,
    tagged,
)
from runnel.wire.types import ZERO_UUID

OFFSET_KEY_VERSIONS = (0, 1)
OFFSET_VALUE_VERSION_MAX = 4
TOPIC_ID_TAG = 0

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


def offset_key(record: OffsetCommitted | OffsetRemoved) -> bytes:
    return b"".join((b"\0\1", legacy_string(record.group_id), legacy_string(record.topic), _I32.pack(record.partition)))


def offset_value(record: OffsetCommitted) -> bytes:
    if record.expire_ms >= 0:
        times = _I64.pack(record.commit_ms) + _I64.pack(record.expire_ms)
        return _VERSION_AND_OFFSET.pack(1, record.offset) + legacy_string(record.metadata) + times
    head = _OFFSET_AND_EPOCH.pack(OFFSET_VALUE_VERSION_MAX, record.offset, record.leader_epoch)
    has_id = record.topic_id != ZERO_UUID
    tags = tagged([(TOPIC_ID_TAG, record.topic_id.bytes)]) if has_id else b"\0"
    return b"".join((head, compact_string(record.metadata), _I64.pack(record.commit_ms), tags))


def read_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetRemoved:
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
