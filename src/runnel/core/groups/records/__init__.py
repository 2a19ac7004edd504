"""The records of `__consumer_offsets`, in Kafka 4.3's own encoding: a versioned key, a versioned value, null to delete.

Owns the byte layout. In: a record of this package, out: key and value; and back. By subject: `offsets`, `classic` and
`consumer` groups. Records of kinds that are not ours (share and streams groups) are kept as `Unread`.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from runnel.core.groups.records.classic import (
    GROUP_KEY_VERSION,
    GroupRemoved,
    GroupSaved,
    SavedMember,
    group_key,
    group_value,
    read_group,
)
from runnel.core.groups.records.consumer import (
    ClassicSide,
    ConsumerRecord,
    CurrentSaved,
    EpochSaved,
    Key,
    MemberSaved,
    MemberState,
    Owned,
    Partitions,
    RegexSaved,
    Removed,
    TargetEpochSaved,
    TargetSaved,
    consumer_key,
    consumer_value,
    read_consumer,
)
from runnel.core.groups.records.offsets import (
    OFFSET_KEY_VERSIONS,
    OffsetCommitted,
    OffsetRemoved,
    offset_key,
    offset_value,
    read_offset,
)
from runnel.wire.errors import Malformed

__all__ = [
    "ClassicSide",
    "ConsumerRecord",
    "CurrentSaved",
    "EpochSaved",
    "GroupRecord",
    "GroupRemoved",
    "GroupSaved",
    "Key",
    "MemberSaved",
    "MemberState",
    "OffsetCommitted",
    "OffsetRemoved",
    "Owned",
    "Partitions",
    "RegexSaved",
    "Removed",
    "SavedMember",
    "TargetEpochSaved",
    "TargetSaved",
    "Unread",
    "decode_record",
    "encode_record",
]

_I16 = Struct(">h")
_CONSUMER_KEYS = frozenset(Key)


class Unread(NamedTuple):
    """A record of a kind that this machine does not keep."""

    key: bytes


GroupRecord: TypeAlias = OffsetCommitted | OffsetRemoved | GroupSaved | GroupRemoved | ConsumerRecord | Unread


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    if isinstance(record, OffsetCommitted):
        return offset_key(record), offset_value(record)
    if isinstance(record, OffsetRemoved):
        return offset_key(record), None
    if isinstance(record, GroupSaved):
        return group_key(record.group_id), group_value(record)
    if isinstance(record, GroupRemoved):
        return group_key(record.group_id), None
    if isinstance(record, Unread):
        return record.key, None
    return consumer_key(record), consumer_value(record)


def decode_record(key: bytes | None, value: bytes | None) -> GroupRecord:
    """Malformed where the bytes of a known kind do not parse."""
    if key is None or len(key) < 2:
        raise Malformed("a record of __consumer_offsets has no key")
    (version,) = _I16.unpack_from(key)
    try:
        if version in OFFSET_KEY_VERSIONS:
            return read_offset(key, value)
        if version == GROUP_KEY_VERSION:
            return read_group(key, value)
        if version in _CONSUMER_KEYS:
            return read_consumer(Key(version), key, value)
    except (IndexError, StructError, UnicodeDecodeError, ValueError) as error:
        raise Malformed(f"a record of __consumer_offsets does not parse: {error}") from error
    return Unread(key)
