"""What consumers tell each other through the broker: the assignment of a member of a classic group.

In: bytes of DescribeGroups or of `__consumer_offsets`. Out: partitions, or None where the bytes are of
another protocol (Kafka Connect has its own).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from runnel.client.metadata import TopicPartition
from runnel.wire.errors import Malformed
from runnel.wire.primitives import read_legacy_count, read_legacy_string

_VERSION = Struct(">h")
_PARTITION = Struct(">i")
TOPIC_BYTES_MIN = 6


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    if not data:
        return ()
    try:
        count, position = read_legacy_count(data, _VERSION.size, TOPIC_BYTES_MIN)
        found: list[TopicPartition] = []
        for _ in range(count):
            topic, position = read_legacy_string(data, position)
            partitions, position = read_legacy_count(data, position, _PARTITION.size)
            for _ in range(partitions):
                found.append(TopicPartition(topic, _PARTITION.unpack_from(data, position)[0]))
                position += _PARTITION.size
    except (Malformed, StructError, IndexError, UnicodeDecodeError):
        return None
    return tuple(sorted(found))
