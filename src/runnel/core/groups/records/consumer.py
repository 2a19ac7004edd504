"""Consumer groups (KIP-848) on the log: keys 3, 5, 6, 7, 8 and 16, each with version 0 of its value.

The latest record of each key is the state of the group: nothing else is kept of it. `Removed` deletes any of them.
Key 4 (partition metadata) was given up by Kafka 4.1 for a hash in key 3; it is neither written nor read.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from struct import Struct, unpack_from
from typing import NamedTuple, TypeAlias
from uuid import UUID

from runnel.wire.errors import Malformed
from runnel.wire.primitives import (
    compact_bytes,
    compact_count,
    compact_string,
    legacy_string,
    read_compact_bytes,
    read_compact_count,
    read_compact_string,
    read_compact_string_nullable,
    read_legacy_string,
    read_tagged,
    read_uuid,
    skip_tagged,
    tagged,
)

Partitions: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic id, in order, no empty topics."""
Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""By topic id and partition: the epoch in which the member got the partition (KIP-1251)."""

NO_PARTITIONS: Partitions = {}
NOT_OWNED: Owned = {}


class Key(IntEnum):
    """The first two bytes of a record's key."""

    EPOCH = 3
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


NAMED_KEYS = frozenset({Key.MEMBER, Key.TARGET, Key.CURRENT, Key.REGEX})
"""Those that name a member or an expression after the group."""


class MemberState(IntEnum):
    """UNREVOKED: it must give partitions up before it may go on. UNRELEASED: what it should get is still held."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class ClassicSide(NamedTuple):
    """What a member of the classic protocol said when it joined a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberSaved(NamedTuple):
    """Who a member is and what it wants. `regex` is '' for none."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None


class EpochSaved(NamedTuple):
    """The group's epoch, and a hash of the topics that it reads: a change of these makes a new epoch."""

    group_id: str
    epoch: int
    metadata_hash: int = 0


class TargetEpochSaved(NamedTuple):
    group_id: str
    epoch: int
    at_ms: int = 0


class TargetSaved(NamedTuple):
    group_id: str
    member_id: str
    partitions: Partitions = NO_PARTITIONS


class CurrentSaved(NamedTuple):
    """What a member has. `revoking` is what it was told to give up and has not."""

    group_id: str
    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOT_OWNED
    revoking: Owned = NOT_OWNED


class RegexSaved(NamedTuple):
    """The topics that an expression matched, when the cluster's metadata had that version."""

    group_id: str
    regex: str
    topics: tuple[str, ...]
    version: int
    at_ms: int


class Removed(NamedTuple):
    """`name` is the member or the expression, '' where the key has none."""

    key: Key
    group_id: str
    name: str = ""


ConsumerRecord: TypeAlias = (
    MemberSaved | EpochSaved | TargetEpochSaved | TargetSaved | CurrentSaved | RegexSaved | Removed
)

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")
_CURRENT_HEAD = Struct(">iib")
_VERSION = b"\0\0"
_HASH_TAG = _AT_TAG = _CLASSIC_TAG = _EPOCHS_TAG = 0
_ABSENT, _PRESENT = b"\0", b"\1"


# ------------------------------------------------------------------------------------------------ writing


def consumer_key(record: ConsumerRecord) -> bytes:
    kind, name = _key_of(record)
    key = _I16.pack(kind) + legacy_string(record.group_id)
    return key + legacy_string(name) if kind in NAMED_KEYS else key


def _key_of(record: ConsumerRecord) -> tuple[Key, str]:
    if isinstance(record, Removed):
        return record.key, record.name
    if isinstance(record, RegexSaved):
        return Key.REGEX, record.regex
    kind = _KINDS[type(record)]
    return kind, getattr(record, "member_id", "")


_KINDS: dict[type, Key] = {
    EpochSaved: Key.EPOCH,
    MemberSaved: Key.MEMBER,
    TargetEpochSaved: Key.TARGET_EPOCH,
    TargetSaved: Key.TARGET,
    CurrentSaved: Key.CURRENT,
}


def consumer_value(record: ConsumerRecord) -> bytes | None:
    if isinstance(record, Removed):
        return None
    if isinstance(record, MemberSaved):
        return _member_value(record)
    if isinstance(record, EpochSaved):
        return _VERSION + _I32.pack(record.epoch) + _tagged_long(_HASH_TAG, record.metadata_hash)
    if isinstance(record, TargetEpochSaved):
        return _VERSION + _I32.pack(record.epoch) + _tagged_long(_AT_TAG, record.at_ms)
    if isinstance(record, TargetSaved):
        return _VERSION + _target_partitions(record.partitions) + b"\0"
    if isinstance(record, CurrentSaved):
        head = _CURRENT_HEAD.pack(record.epoch, record.previous_epoch, record.state)
        return b"".join((_VERSION, head, _owned(record.assigned), _owned(record.revoking), b"\0"))
    times = _I64.pack(record.version) + _I64.pack(record.at_ms)
    return b"".join((_VERSION, _strings(record.topics), times, b"\0"))


def _member_value(record: MemberSaved) -> bytes:
    return b"".join(
        (
            _VERSION,
            compact_string(record.instance_id),
            compact_string(record.rack_id),
            compact_string(record.client_id),
            compact_string(record.client_host),
            _strings(record.topics),
            compact_string(record.regex),
            _I32.pack(record.rebalance_timeout_ms),
            compact_string(record.assignor),
            tagged([(_CLASSIC_TAG, _classic_side(record.classic))]),
        )
    )


def _classic_side(side: ClassicSide | None) -> bytes:
    """Written where there is none too: left out, Kafka takes it for one without protocols."""
    if side is None:
        return _ABSENT
    parts = [_PRESENT, _I32.pack(side.session_timeout_ms), compact_count(len(side.protocols))]
    for name, metadata in side.protocols:
        parts += (compact_string(name), compact_bytes(metadata), b"\0")
    return b"".join((*parts, b"\0"))


def _tagged_long(tag: int, value: int) -> bytes:
    """Zero is the default, and is not written."""
    return tagged([(tag, _I64.pack(value))]) if value else b"\0"


def _strings(texts: tuple[str, ...]) -> bytes:
    return b"".join((compact_count(len(texts)), *map(compact_string, texts)))


def _ints(numbers: tuple[int, ...]) -> bytes:
    return compact_count(len(numbers)) + Struct(f">{len(numbers)}i").pack(*numbers)


def _target_partitions(partitions: Partitions) -> bytes:
    parts = [compact_count(len(partitions))]
    for topic_id, numbers in partitions.items():
        parts += (topic_id.bytes, _ints(numbers), b"\0")
    return b"".join(parts)


def _owned(owned: Owned) -> bytes:
    parts = [compact_count(len(owned))]
    for topic_id, epochs in owned.items():
        parts += (topic_id.bytes, _ints(tuple(epochs)), tagged([(_EPOCHS_TAG, _ints(tuple(epochs.values())))]))
    return b"".join(parts)


# ------------------------------------------------------------------------------------------------ reading


def read_consumer(kind: Key, key: bytes, value: bytes | None) -> ConsumerRecord:
    group_id, position = read_legacy_string(key, 2)
    name = read_legacy_string(key, position)[0] if kind in NAMED_KEYS else ""
    if value is None:
        return Removed(kind, group_id, name)
    (version,) = _I16.unpack_from(value)
    if version != 0:
        raise Malformed(f"a record of group {group_id} (key {kind}) has version {version}; 0 is known")
    return _READERS[kind](group_id, name, value)


def _read_member(group_id: str, member_id: str, value: bytes) -> MemberSaved:
    instance_id, position = read_compact_string_nullable(value, 2)
    rack_id, position = read_compact_string_nullable(value, position)
    client_id, position = read_compact_string(value, position)
    client_host, position = read_compact_string(value, position)
    topics, position = _read_strings(value, position)
    regex, position = read_compact_string_nullable(value, position)
    timeout_ms = _I32.unpack_from(value, position)[0]
    assignor, position = read_compact_string_nullable(value, position + 4)
    fields, _ = read_tagged(value, position, (_CLASSIC_TAG,))
    classic = _read_classic_side(value, fields[_CLASSIC_TAG][0]) if fields else None
    names = (instance_id, rack_id, client_id, client_host)
    return MemberSaved(group_id, member_id, *names, topics, regex or "", timeout_ms, assignor, classic)


def _read_classic_side(value: bytes, position: int) -> ClassicSide | None:
    if value[position : position + 1] == _ABSENT:
        return None
    session_ms = _I32.unpack_from(value, position + 1)[0]
    count, position = read_compact_count(value, position + 5, 3)
    protocols = []
    for _ in range(count):
        name, position = read_compact_string(value, position)
        metadata, position = read_compact_bytes(value, position)
        position = skip_tagged(value, position)
        protocols.append((name, metadata))
    return ClassicSide(session_ms, tuple(protocols))


def _read_epoch(group_id: str, _: str, value: bytes) -> EpochSaved:
    return EpochSaved(group_id, _I32.unpack_from(value, 2)[0], _read_tagged_long(value, 6, _HASH_TAG))


def _read_target_epoch(group_id: str, _: str, value: bytes) -> TargetEpochSaved:
    return TargetEpochSaved(group_id, _I32.unpack_from(value, 2)[0], _read_tagged_long(value, 6, _AT_TAG))


def _read_tagged_long(value: bytes, position: int, tag: int) -> int:
    fields, _ = read_tagged(value, position, (tag,))
    found: int = _I64.unpack_from(value, fields[tag][0])[0] if fields else 0
    return found


def _read_target(group_id: str, member_id: str, value: bytes) -> TargetSaved:
    count, position = read_compact_count(value, 2, 18)
    partitions = {}
    for _ in range(count):
        topic_id, position = read_uuid(value, position)
        partitions[topic_id], position = _read_ints(value, position)
        position = skip_tagged(value, position)
    return TargetSaved(group_id, member_id, partitions)


def _read_current(group_id: str, member_id: str, value: bytes) -> CurrentSaved:
    epoch, previous_epoch, state = _CURRENT_HEAD.unpack_from(value, 2)
    if state not in _STATES:
        raise Malformed(f"member {member_id} of group {group_id} is in the unknown state {state}")
    assigned, position = _read_owned(value, 2 + _CURRENT_HEAD.size, epoch)
    revoking, _ = _read_owned(value, position, epoch)
    return CurrentSaved(group_id, member_id, epoch, previous_epoch, MemberState(state), assigned, revoking)


_STATES = frozenset(MemberState)


def _read_owned(value: bytes, position: int, epoch: int) -> tuple[Owned, int]:
    """Records of before KIP-1251 lack the epochs; the member's own is the earliest that is safe."""
    count, position = read_compact_count(value, position, 18)
    owned = {}
    for _ in range(count):
        topic_id, position = read_uuid(value, position)
        numbers, position = _read_ints(value, position)
        fields, position = read_tagged(value, position, (_EPOCHS_TAG,))
        epochs = _read_ints(value, fields[_EPOCHS_TAG][0])[0] if fields else ()
        owned[topic_id] = dict(zip(numbers, epochs or (epoch,) * len(numbers), strict=True))
    return owned, position


def _read_regex(group_id: str, regex: str, value: bytes) -> RegexSaved:
    topics, position = _read_strings(value, 2)
    version, at_ms = unpack_from(">qq", value, position)
    return RegexSaved(group_id, regex, topics, version, at_ms)


def _read_strings(value: bytes, position: int) -> tuple[tuple[str, ...], int]:
    count, position = read_compact_count(value, position, 1)
    texts = []
    for _ in range(count):
        text, position = read_compact_string(value, position)
        texts.append(text)
    return tuple(texts), position


def _read_ints(value: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, position = read_compact_count(value, position, 4)
    count = max(count, 0)
    return unpack_from(f">{count}i", value, position), position + 4 * count


_READERS: dict[Key, Callable[[str, str, bytes], ConsumerRecord]] = {
    Key.MEMBER: _read_member,
    Key.EPOCH: _read_epoch,
    Key.TARGET_EPOCH: _read_target_epoch,
    Key.TARGET: _read_target,
    Key.CURRENT: _read_current,
    Key.REGEX: _read_regex,
}
