"""The Fetch request codec and the values of both directions (API key 1, versions 4 to 18), written by hand.

In: the body of a request; out: a `FetchRequest`; and the way back for our client. Replies are in
`fetch_reply`, which this module re-exports. What changed: 5 log start offset, 7 sessions (KIP-227), 9
leader epochs (KIP-320), 11 rack (KIP-392), 12 flexible, last fetched epoch and cluster id, 13 topic ids
(KIP-516), 15 replica state instead of replica id (KIP-903), 17 directory id (KIP-853), 18 the follower's
high watermark (KIP-1166). Property tests hold it equal to kio on every version.
"""

from __future__ import annotations

import uuid
from struct import Struct
from struct import error as StructError

from runnel.wire.errors import Malformed
from runnel.wire.fetch_reply import decode_fetch_response, encode_fetch_response
from runnel.wire.fetch_values import (
    FLEXIBLE_FROM,
    HIGH_WATERMARK_UNSUPPORTED,
    PARTITIONS_MAX,
    REPLICA_STATE_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
    VERSION_MAX,
    FetchPartition,
    FetchPartitionReply,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    check_fetch_version,
)
from runnel.wire.primitives import (
    compact_count,
    compact_string,
    legacy_count,
    legacy_string,
    read_compact_count,
    read_compact_string,
    read_compact_string_nullable,
    read_legacy_count,
    read_legacy_string,
    read_tagged,
    read_uuid,
    skip_tagged,
    tagged,
    take,
)
from runnel.wire.types import ZERO_UUID, ReadBuffer
from runnel.wire.varints import decode_uvarint

__all__ = [
    "FLEXIBLE_FROM",
    "HIGH_WATERMARK_UNSUPPORTED",
    "PARTITIONS_MAX",
    "TOPIC_IDS_FROM",
    "FetchPartition",
    "FetchPartitionReply",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "decode_fetch_request",
    "decode_fetch_response",
    "encode_fetch_request",
    "encode_fetch_response",
]

_I32 = Struct(">i")
_I64 = Struct(">q")
_HEAD_V4 = Struct(">iiiib")
_HEAD_V7 = Struct(">iiiibii")
_HEAD_V15 = Struct(">iiibii")
_REPLICA_STATE = Struct(">iqx")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_PARTITION_TAGS = frozenset((0, 1))
_REQUEST_TAGS = frozenset((0, 1))
_CONSUMER = (-1, -1)

# The constructor of a NamedTuple is Python code and takes twice as long as the tuple's own.
_new = tuple.__new__


def decode_fetch_request(version: int, buffer: ReadBuffer, offset: int = 0) -> FetchRequest:
    """The request at `offset`. Bytes after it are ignored, as Kafka does."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        if version < FLEXIBLE_FROM:
            check_fetch_version(version)
            return _decode_legacy(version, view, offset)
        if version <= VERSION_MAX:
            return _decode_flexible(version, view, offset)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a Fetch request does not parse: {error}") from error
    raise Malformed(f"Fetch version {version} does not exist")


def _decode_legacy(version: int, view: memoryview, position: int) -> FetchRequest:
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_FROM:
        *head, session_id, session_epoch = _HEAD_V7.unpack_from(view, position)
        position += _HEAD_V7.size
    else:
        head = [*_HEAD_V4.unpack_from(view, position)]
        position += _HEAD_V4.size
    topic_count, position = read_legacy_count(view, position, 6)
    left = take(topic_count, PARTITIONS_MAX, len(view) - position)
    topics = []
    for _ in range(topic_count):
        name, position = read_legacy_string(view, position)
        partitions, position, left = _decode_partitions_legacy(version, view, position, left)
        topics.append(_new(FetchTopic, (name, ZERO_UUID, partitions)))
    forgotten: list[tuple[str, uuid.UUID, list[int]]] = []
    if version >= SESSIONS_FROM:
        forgotten, position = _decode_forgotten_legacy(view, position, left)
    rack_id = ""
    if version >= 11:
        rack_id, position = read_legacy_string(view, position)
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = head
    return FetchRequest(
        replica_id, -1, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        topics, forgotten, rack_id, None,
    )  # fmt: skip


def _decode_partitions_legacy(
    version: int, view: memoryview, position: int, left: int
) -> tuple[list[FetchPartition], int, int]:
    layout = _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    count, position = read_legacy_count(view, position, layout.size)
    left = take(count, left, len(view) - position)
    end = position + count * layout.size
    rows = layout.iter_unpack(view[position:end])
    if version >= 9:
        partitions = [
            FetchPartition(index, fetch_offset, max_bytes, epoch, -1, log_start)
            for index, epoch, fetch_offset, log_start, max_bytes in rows
        ]
    elif version >= 5:
        partitions = [
            FetchPartition(index, fetch_offset, max_bytes, -1, -1, log_start)
            for index, fetch_offset, log_start, max_bytes in rows
        ]
    else:
        partitions = [FetchPartition(*row) for row in rows]
    return partitions, end, left


def _decode_forgotten_legacy(
    view: memoryview, position: int, left: int
) -> tuple[list[tuple[str, uuid.UUID, list[int]]], int]:
    forgotten_count, position = read_legacy_count(view, position, 6)
    left = take(forgotten_count, left, len(view) - position)
    forgotten = []
    for _ in range(forgotten_count):
        name, position = read_legacy_string(view, position)
        count, position = read_legacy_count(view, position, 4)
        left = take(count, left, len(view) - position)
        indexes, position = _decode_indexes(view, position, count)
        forgotten.append((name, ZERO_UUID, indexes))
    return forgotten, position


def _decode_indexes(view: memoryview, position: int, count: int) -> tuple[list[int], int]:
    end = position + count * 4
    return [index for (index,) in _I32.iter_unpack(view[position:end])], end


def _decode_flexible(version: int, view: memoryview, position: int) -> FetchRequest:
    replica_id, replica_epoch = _CONSUMER
    if version >= REPLICA_STATE_FROM:
        head = _HEAD_V15.unpack_from(view, position)
        position += _HEAD_V15.size
    else:
        head = _HEAD_V7.unpack_from(view, position)
        replica_id, head = head[0], head[1:]
        position += _HEAD_V7.size
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = head
    by_id = version >= TOPIC_IDS_FROM
    topic_count, position = decode_uvarint(view, position)
    left = take(topic_count - 1, PARTITIONS_MAX, len(view) - position)
    topics = []
    name, topic_id = "", ZERO_UUID
    for _ in range(topic_count - 1):
        if by_id:
            topic_id, position = read_uuid(view, position)
        else:
            name, position = read_compact_string(view, position)
        partitions, position, left = _decode_partitions_flexible(version, view, position, left)
        position = position + 1 if view[position] == 0 else skip_tagged(view, position)
        topics.append(_new(FetchTopic, (name, topic_id, partitions)))
    forgotten, position = _decode_forgotten_flexible(by_id, view, position, left)
    rack_id, position = read_compact_string(view, position)
    cluster_id = None
    if view[position] != 0:
        fields, _ = read_tagged(view, position, _REQUEST_TAGS)
        if 0 in fields:
            cluster_id, _ = read_compact_string_nullable(view[: fields[0][1]], fields[0][0])
        if 1 in fields and version >= REPLICA_STATE_FROM:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(view[: fields[1][1]], fields[1][0])
    return FetchRequest(
        replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id,
        session_epoch, topics, forgotten, rack_id, cluster_id,
    )  # fmt: skip


def _decode_partitions_flexible(
    version: int, view: memoryview, position: int, left: int
) -> tuple[list[FetchPartition], int, int]:
    count, position = decode_uvarint(view, position)
    left = take(count - 1, left, len(view) - position)
    unpack_from, size = _PARTITION_V12.unpack_from, _PARTITION_V12.size
    partitions = []
    for _ in range(count - 1):
        index, epoch, fetch_offset, last_epoch, log_start, max_bytes = unpack_from(view, position)
        position += size
        partition = _new(
            FetchPartition,
            (index, fetch_offset, max_bytes, epoch, last_epoch, log_start, ZERO_UUID, HIGH_WATERMARK_UNSUPPORTED),
        )
        if view[position] == 0:
            position += 1
        else:
            partition, position = _decode_partition_tags(version, view, position, partition)
        partitions.append(partition)
    return partitions, position, left


def _decode_partition_tags(
    version: int, view: memoryview, position: int, partition: FetchPartition
) -> tuple[FetchPartition, int]:
    fields, position = read_tagged(view, position, _PARTITION_TAGS)
    if 0 in fields and version >= 17:
        directory_id, _ = read_uuid(view[: fields[0][1]], fields[0][0])
        partition = partition._replace(replica_directory_id=directory_id)
    if 1 in fields and version >= 18:
        (high_watermark,) = _I64.unpack_from(view[: fields[1][1]], fields[1][0])
        partition = partition._replace(high_watermark=high_watermark)
    return partition, position


def _decode_forgotten_flexible(
    by_id: bool, view: memoryview, position: int, left: int
) -> tuple[list[tuple[str, uuid.UUID, list[int]]], int]:
    forgotten_count, position = read_compact_count(view, position, 3)
    left = take(forgotten_count, left, len(view) - position)
    forgotten = []
    name, topic_id = "", ZERO_UUID
    for _ in range(forgotten_count):
        if by_id:
            topic_id, position = read_uuid(view, position)
        else:
            name, position = read_compact_string(view, position)
        count, position = read_compact_count(view, position, 4)
        left = take(count, left, len(view) - position)
        indexes, position = _decode_indexes(view, position, count)
        position = skip_tagged(view, position)
        forgotten.append((name, topic_id, indexes))
    return forgotten, position


def encode_fetch_request(version: int, request: FetchRequest) -> bytes:
    """The body of a request, for clients and followers."""
    check_fetch_version(version)
    flexible = version >= FLEXIBLE_FROM
    string, count = (compact_string, compact_count) if flexible else (legacy_string, legacy_count)
    end = b"\0" if flexible else b""
    by_id = version >= TOPIC_IDS_FROM
    parts = [_encode_head(version, request), count(len(request.topics))]
    for name, topic_id, partitions in request.topics:
        parts += (topic_id.bytes if by_id else string(name), count(len(partitions)))
        parts += [_encode_partition(version, partition) for partition in partitions]
        parts.append(end)
    if version >= SESSIONS_FROM:
        parts.append(count(len(request.forgotten)))
        for name, topic_id, indexes in request.forgotten:
            parts += (topic_id.bytes if by_id else string(name), count(len(indexes)))
            parts += [_I32.pack(index) for index in indexes]
            parts.append(end)
    if version >= 11:
        parts.append(string(request.rack_id))
    if flexible:
        parts.append(_encode_request_tags(version, request))
    return b"".join(parts)


def _encode_head(version: int, request: FetchRequest) -> bytes:
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version < SESSIONS_FROM:
        return _HEAD_V4.pack(request.replica_id, *limits)
    if version < REPLICA_STATE_FROM:
        return _HEAD_V7.pack(request.replica_id, *limits, request.session_id, request.session_epoch)
    return _HEAD_V15.pack(*limits, request.session_id, request.session_epoch)


def _encode_request_tags(version: int, request: FetchRequest) -> bytes:
    fields = []
    if request.cluster_id is not None:
        fields.append((0, compact_string(request.cluster_id)))
    replica = (request.replica_id, request.replica_epoch)
    if version >= REPLICA_STATE_FROM and replica != _CONSUMER:
        fields.append((1, _REPLICA_STATE.pack(*replica)))
    return tagged(fields)


def _encode_partition(version: int, partition: FetchPartition) -> bytes:
    index, fetch_offset, max_bytes, epoch, last_epoch, log_start, directory_id, high_watermark = partition
    if version < 5:
        return _PARTITION_V4.pack(index, fetch_offset, max_bytes)
    if version < 9:
        return _PARTITION_V5.pack(index, fetch_offset, log_start, max_bytes)
    if version < FLEXIBLE_FROM:
        return _PARTITION_V9.pack(index, epoch, fetch_offset, log_start, max_bytes)
    fields = []
    if version >= 17 and directory_id != ZERO_UUID:
        fields.append((0, directory_id.bytes))
    if version >= 18 and high_watermark != HIGH_WATERMARK_UNSUPPORTED:
        fields.append((1, _I64.pack(high_watermark)))
    fixed = _PARTITION_V12.pack(index, epoch, fetch_offset, last_epoch, log_start, max_bytes)
    return fixed + tagged(fields)
