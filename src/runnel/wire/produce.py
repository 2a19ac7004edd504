"""The Produce codec (API key 0, versions 3 to 13), written by hand because every record passes through it.

In: the body of a request as a memoryview; out: a `ProduceRequest` whose record sets are slices of that same
memory, never copies. And replies to bytes; and both the other way round for our client. Versions 3-8 are
legacy, 9-12 flexible, 13 names topics by id (KIP-516); replies carry record errors from 8 (KIP-467) and the
current leader from 10 (KIP-951). Property tests hold it equal to kio on every version.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from runnel.wire.errors import Malformed
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
    read_legacy_string_nullable,
    read_tagged,
    read_uuid,
    skip_tagged,
    tagged,
    take,
)
from runnel.wire.types import ZERO_UUID, ReadBuffer
from runnel.wire.varints import decode_uvarint, encode_uvarint

VERSION_MIN = 3
VERSION_MAX = 13
FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
CURRENT_LEADER_FROM = 10
RECORD_ERRORS_FROM = 8
LOG_START_OFFSET_FROM = 5

PARTITIONS_MAX = 100_000
"""Topics or partitions in one request. An empty one takes 3 bytes on the wire and a hundred times that
here."""

NodeEndpoint: TypeAlias = tuple[int, str, int, str | None]
"""node id, host, port, rack"""

_ACKS_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_INDEX_SIZE = Struct(">ii")
_I32 = Struct(">i")
_LEADER = Struct(">iix")
_REPLY_V3 = Struct(">ihqq")
_REPLY_V5 = Struct(">ihqqq")
_REPLY_V8_PLAIN = Struct(">ihqqqih")
_REPLY_V9_PLAIN = Struct(">ihqqqBxx")

# The constructor of a NamedTuple is Python code and takes twice as long as the tuple's own.
_new = tuple.__new__


class PartitionRecords(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    records: memoryview | None


class TopicRecords(NamedTuple):
    """One topic of a request: by `name`, or from version 13 by `topic_id` with an empty name."""

    name: str
    topic_id: uuid.UUID
    partitions: list[PartitionRecords]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


class ProducePartitionReply(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    """Batch index and message of each record that was refused (version 8 and up)."""
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    """Leader id and epoch, to save the client a metadata request (version 10 and up)."""


ProduceTopicReply: TypeAlias = tuple[str, uuid.UUID, Sequence[ProducePartitionReply]]
"""topic name, topic id (only the one that the version uses is written), partitions"""


class ProduceResponse(NamedTuple):
    topics: list[tuple[str, uuid.UUID, list[ProducePartitionReply]]]
    throttle_ms: int
    node_endpoints: list[NodeEndpoint]


def decode_produce_request(version: int, buffer: ReadBuffer, offset: int = 0) -> ProduceRequest:
    """The request at `offset`. Bytes after it are ignored, as Kafka does."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        if version < FLEXIBLE_FROM:
            _check_version(version)
            return _decode_request_legacy(view, offset)
        if version <= VERSION_MAX:
            return _decode_request_flexible(version, view, offset)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a Produce request does not parse: {error}") from error
    raise Malformed(f"Produce version {version} does not exist")


def _decode_request_legacy(view: memoryview, position: int) -> ProduceRequest:
    limit, left = len(view), PARTITIONS_MAX
    transactional_id, position = read_legacy_string_nullable(view, position)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(view, position)
    position += 10
    left = take(topic_count, left, limit - position)
    topics = []
    for _ in range(topic_count):
        name, position = read_legacy_string(view, position)
        (partition_count,) = _I32.unpack_from(view, position)
        position += 4
        left = take(partition_count, left, limit - position)
        partitions = []
        for _ in range(partition_count):
            index, size = _INDEX_SIZE.unpack_from(view, position)
            position += 8
            if size == -1:
                partitions.append(_new(PartitionRecords, (index, None)))
                continue
            end = position + size
            if size < 0 or end > limit:
                raise Malformed(f"a record set claims {size} of {limit - position} bytes")
            partitions.append(_new(PartitionRecords, (index, view[position:end])))
            position = end
        topics.append(_new(TopicRecords, (name, ZERO_UUID, partitions)))
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _decode_request_flexible(version: int, view: memoryview, position: int) -> ProduceRequest:
    limit, left, by_id = len(view), PARTITIONS_MAX, version >= TOPIC_IDS_FROM
    transactional_id, position = read_compact_string_nullable(view, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    topic_count, position = decode_uvarint(view, position + 6)
    left = take(topic_count - 1, left, limit - position)
    topics = []
    name, topic_id = "", ZERO_UUID
    for _ in range(topic_count - 1):
        if by_id:
            topic_id, position = read_uuid(view, position)
        else:
            name, position = read_compact_string(view, position)
        partition_count, position = decode_uvarint(view, position)
        left = take(partition_count - 1, left, limit - position)
        partitions = []
        for _ in range(partition_count - 1):
            (index,) = _I32.unpack_from(view, position)
            size, position = decode_uvarint(view, position + 4)
            if size == 0:
                partitions.append(_new(PartitionRecords, (index, None)))
            else:
                end = position + size - 1
                if end > limit:
                    raise Malformed(f"a record set claims {size - 1} of {limit - position} bytes")
                partitions.append(_new(PartitionRecords, (index, view[position:end])))
                position = end
            position = position + 1 if view[position] == 0 else skip_tagged(view, position)
        topics.append(_new(TopicRecords, (name, topic_id, partitions)))
        position = position + 1 if view[position] == 0 else skip_tagged(view, position)
    skip_tagged(view, position)
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def encode_produce_response(
    version: int,
    topics: Sequence[ProduceTopicReply],
    throttle_ms: int,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of a reply. `node_endpoints` travel from version 10 on."""
    _check_version(version)
    if version >= FLEXIBLE_FROM:
        return _encode_response_flexible(version, topics, throttle_ms, node_endpoints)
    out = bytearray(legacy_count(len(topics)))
    for name, _, partitions in topics:
        out += legacy_string(name)
        out += legacy_count(len(partitions))
        for reply in partitions:
            _encode_reply_legacy(out, version, reply)
    out += _I32.pack(throttle_ms)
    return bytes(out)


def _encode_reply_legacy(out: bytearray, version: int, reply: ProducePartitionReply) -> None:
    if version < LOG_START_OFFSET_FROM:
        out += _REPLY_V3.pack(*reply[:4])
        return
    if version >= RECORD_ERRORS_FROM and not reply.record_errors and reply.error_message is None:
        out += _REPLY_V8_PLAIN.pack(*reply[:5], 0, -1)
        return
    out += _REPLY_V5.pack(*reply[:5])
    if version >= RECORD_ERRORS_FROM:
        out += legacy_count(len(reply.record_errors))
        for batch_index, message in reply.record_errors:
            out += _I32.pack(batch_index)
            out += legacy_string(message)
        out += legacy_string(reply.error_message)


def _encode_response_flexible(
    version: int,
    topics: Sequence[ProduceTopicReply],
    throttle_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes:
    by_id = version >= TOPIC_IDS_FROM
    out = bytearray(compact_count(len(topics)))
    for name, topic_id, partitions in topics:
        out += topic_id.bytes if by_id else compact_string(name)
        out += compact_count(len(partitions))
        for reply in partitions:
            index, error_code, base_offset, append_time, log_start, record_errors, message, leader = reply
            if record_errors or message is not None or leader is not None:
                _encode_reply_flexible(out, version, reply)
            else:
                out += _REPLY_V9_PLAIN.pack(index, error_code, base_offset, append_time, log_start, 1)
        out.append(0)
    out += _I32.pack(throttle_ms)
    if node_endpoints and version >= CURRENT_LEADER_FROM:
        out += tagged([(0, encode_node_endpoints(node_endpoints))])
    else:
        out.append(0)
    return bytes(out)


def _encode_reply_flexible(out: bytearray, version: int, reply: ProducePartitionReply) -> None:
    out += _REPLY_V5.pack(*reply[:5])
    out += compact_count(len(reply.record_errors))
    for batch_index, message in reply.record_errors:
        out += _I32.pack(batch_index)
        out += compact_string(message)
        out.append(0)
    out += compact_string(reply.error_message)
    leader = reply.current_leader
    if leader is None or leader == (-1, -1) or version < CURRENT_LEADER_FROM:
        out.append(0)
    else:
        out += tagged([(0, _LEADER.pack(*leader))])


def encode_node_endpoints(node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged field of KIP-951 that Produce and Fetch replies share."""
    out = bytearray(compact_count(len(node_endpoints)))
    for node_id, host, port, rack in node_endpoints:
        out += _I32.pack(node_id)
        out += compact_string(host)
        out += _I32.pack(port)
        out += compact_string(rack)
        out.append(0)
    return bytes(out)


def decode_node_endpoints(view: memoryview, position: int) -> tuple[list[NodeEndpoint], int]:
    count, position = _checked_count(*read_compact_count(view, position, 11))
    endpoints: list[NodeEndpoint] = []
    for _ in range(count):
        (node_id,) = _I32.unpack_from(view, position)
        host, position = read_compact_string(view, position + 4)
        (port,) = _I32.unpack_from(view, position)
        rack, position = read_compact_string_nullable(view, position + 4)
        position = skip_tagged(view, position)
        endpoints.append((node_id, host, port, rack))
    return endpoints, position


def encode_produce_request(version: int, request: ProduceRequest) -> bytes:
    """The body of a request, for clients."""
    _check_version(version)
    flexible = version >= FLEXIBLE_FROM
    string, count = (compact_string, compact_count) if flexible else (legacy_string, legacy_count)
    end = b"\0" if flexible else b""
    parts: list[ReadBuffer] = [string(request.transactional_id)]
    parts += (_ACKS_TIMEOUT.pack(request.acks, request.timeout_ms), count(len(request.topics)))
    for name, topic_id, partitions in request.topics:
        parts += (topic_id.bytes if version >= TOPIC_IDS_FROM else string(name), count(len(partitions)))
        for index, records in partitions:
            size = -1 if records is None else len(records)
            parts += (_I32.pack(index), encode_uvarint(size + 1) if flexible else _I32.pack(size))
            parts += (records or b"", end)
        parts.append(end)
    parts.append(end)
    return b"".join(parts)


def decode_produce_response(version: int, buffer: ReadBuffer, offset: int = 0) -> ProduceResponse:
    """A reply, for clients."""
    _check_version(version)
    view = memoryview(buffer)
    try:
        response, _ = _decode_response(version, view, offset)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a Produce response does not parse: {error}") from error
    return response


def _decode_response(version: int, view: memoryview, position: int) -> tuple[ProduceResponse, int]:
    flexible, by_id = version >= FLEXIBLE_FROM, version >= TOPIC_IDS_FROM
    read_count, read_string = (
        (read_compact_count, read_compact_string) if flexible else (read_legacy_count, read_legacy_string)
    )
    topic_count, position = _checked_count(*read_count(view, position, 3))
    topics = []
    name, topic_id = "", ZERO_UUID
    for _ in range(topic_count):
        if by_id:
            topic_id, position = read_uuid(view, position)
        else:
            name, position = read_string(view, position)
        partition_count, position = _checked_count(*read_count(view, position, _REPLY_V3.size))
        partitions = []
        for _ in range(partition_count):
            reply, position = _decode_reply(version, view, position)
            partitions.append(reply)
        if flexible:
            position = skip_tagged(view, position)
        topics.append((name, topic_id, partitions))
    (throttle_ms,) = _I32.unpack_from(view, position)
    position += 4
    endpoints: list[NodeEndpoint] = []
    if flexible:
        fields, position = read_tagged(view, position, (0,))
        if 0 in fields and version >= CURRENT_LEADER_FROM:
            endpoints, _ = decode_node_endpoints(view[: fields[0][1]], fields[0][0])
    return ProduceResponse(topics, throttle_ms, endpoints), position


def _decode_reply(version: int, view: memoryview, position: int) -> tuple[ProducePartitionReply, int]:
    fixed = _REPLY_V5 if version >= LOG_START_OFFSET_FROM else _REPLY_V3
    reply = ProducePartitionReply(*fixed.unpack_from(view, position))
    position += fixed.size
    if version < RECORD_ERRORS_FROM:
        return reply, position
    flexible = version >= FLEXIBLE_FROM
    read_count = read_compact_count if flexible else read_legacy_count
    read_string = read_compact_string_nullable if flexible else read_legacy_string_nullable
    error_count, position = _checked_count(*read_count(view, position, 6))
    record_errors = []
    for _ in range(error_count):
        (batch_index,) = _I32.unpack_from(view, position)
        message, position = read_string(view, position + 4)
        position = skip_tagged(view, position) if flexible else position
        record_errors.append((batch_index, message))
    error_message, position = read_string(view, position)
    reply = reply._replace(record_errors=record_errors, error_message=error_message)
    if flexible:
        fields, position = read_tagged(view, position, (0,))
        if 0 in fields and version >= CURRENT_LEADER_FROM:
            reply = reply._replace(current_leader=_LEADER.unpack_from(view[: fields[0][1]], fields[0][0]))
    return reply, position


def _checked_count(count: int, position: int) -> tuple[int, int]:
    if not 0 <= count <= PARTITIONS_MAX:
        raise Malformed(f"an array of {count} items is null or too long")
    return count, position


def _check_version(version: int) -> None:
    if not VERSION_MIN <= version <= VERSION_MAX:
        raise Malformed(f"Produce version {version} does not exist")
