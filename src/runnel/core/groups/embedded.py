"""The consumer protocol that classic members embed in JoinGroup and SyncGroup: subscriptions and assignments, v0 to 3.

The members' own business, except that groups are asked which topics they read (KIP-496), and that classic members of
consumer groups (KIP-848) say here what they want and have, and are told what they get.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import NamedTuple

from runnel.wire.errors import Malformed
from runnel.wire.primitives import (
    legacy_string,
    read_legacy_bytes_nullable,
    read_legacy_count,
    read_legacy_string,
    read_legacy_string_nullable,
)

VERSION_MAX = 3
OWNED_SINCE_VERSION = 1
RACK_SINCE_VERSION = 3

_VERSION = Struct(">h")
_NULL_BYTES = b"\xff\xff\xff\xff"
_CACHE_ENTRIES = 1024

TopicPartitions = dict[str, tuple[int, ...]]


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: TopicPartitions
    rack_id: str | None = None


@lru_cache(maxsize=_CACHE_ENTRIES)
def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None where the bytes are no subscription of the consumer protocol."""
    try:
        version, topics, _ = _read_topics(metadata)
    except (Malformed, StructError, IndexError, UnicodeDecodeError):
        return None
    return frozenset(topics) if version >= 0 else None


def read_subscription(metadata: bytes) -> Subscription:
    """Malformed where the bytes are none. Later versions are read as the latest that is known, as Kafka does."""
    try:
        return _read_subscription(metadata)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"a subscription does not parse: {error}") from error


def _read_subscription(metadata: bytes) -> Subscription:
    version, topics, position = _read_topics(metadata)
    if version < 0:
        raise Malformed(f"a subscription has version {version}")
    _, position = read_legacy_bytes_nullable(metadata, position)
    owned: TopicPartitions = {}
    rack_id: str | None = None
    if version >= OWNED_SINCE_VERSION:
        owned, position = _read_partitions(metadata, position)
    if version >= RACK_SINCE_VERSION:
        rack_id, _ = read_legacy_string_nullable(metadata, position + 4)  # after the generation (KIP-792)
    return Subscription(min(version, VERSION_MAX), topics, owned, rack_id)


def version_of(subscription: bytes) -> int:
    """The version in which a member with this subscription reads assignments."""
    claimed = int.from_bytes(subscription[: _VERSION.size], "big", signed=True)
    return min(max(claimed, 0), VERSION_MAX)


def read_assignment(assignment: bytes) -> TopicPartitions:
    """Malformed where the bytes are no assignment. None at all are an empty one."""
    if not assignment:
        return {}
    try:
        (version,) = _VERSION.unpack_from(assignment)
        if version < 0:
            raise Malformed(f"an assignment has version {version}")
        return _read_partitions(assignment, _VERSION.size)[0]
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"an assignment does not parse: {error}") from error


def write_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    parts = [_VERSION.pack(version), pack(">i", len(partitions))]
    for topic, indexes in partitions.items():
        numbers = tuple(indexes)
        parts += (legacy_string(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join((*parts, _NULL_BYTES))


def _read_topics(metadata: bytes) -> tuple[int, tuple[str, ...], int]:
    (version,) = _VERSION.unpack_from(metadata)
    count, position = read_legacy_count(metadata, _VERSION.size, 2)
    topics = []
    for _ in range(count):
        topic, position = read_legacy_string(metadata, position)
        topics.append(topic)
    return version, tuple(topics), position


def _read_partitions(data: bytes, position: int) -> tuple[TopicPartitions, int]:
    count, position = read_legacy_count(data, position, 6)
    partitions: TopicPartitions = {}
    for _ in range(count):
        topic, position = read_legacy_string(data, position)
        size, position = read_legacy_count(data, position, 4)
        partitions[topic] = partitions.get(topic, ()) + unpack_from(f">{max(size, 0)}i", data, position)
        position += 4 * max(size, 0)
    return partitions, position
