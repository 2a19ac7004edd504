"""Classic groups on the log: GroupMetadataKey 2 with GroupMetadataValue 3; every older version is read."""

from struct import Struct
from typing import NamedTuple

from runnel.wire.errors import Malformed
from runnel.wire.primitives import (
    legacy_bytes,
    legacy_count,
    legacy_string,
    read_legacy_bytes,
    read_legacy_count,
    read_legacy_string,
    read_legacy_string_nullable,
)

GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSION_MAX = 3
MEMBER_BYTES_MIN = 18

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")


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
    """The classic group is gone; offsets have records of their own."""

    group_id: str


def group_key(group_id: str) -> bytes:
    return b"\0\2" + legacy_string(group_id)


def group_value(record: GroupSaved) -> bytes:
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


def read_group(key: bytes, value: bytes | None) -> GroupSaved | GroupRemoved:
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
