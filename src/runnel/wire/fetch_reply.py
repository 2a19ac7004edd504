"""The Fetch reply codec (versions 4 to 18), written by hand because every consumed byte passes through it.

In: partition replies that hold record bytes; out: a list of buffers for `writelines`, in which the record
bytes are the very objects that came in, and everything between them is joined. And the way back for our
client.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError

from runnel.wire.errors import Malformed
from runnel.wire.fetch_values import (
    FLEXIBLE_FROM,
    NODE_ENDPOINTS_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
    FetchPartitionReply,
    FetchResponse,
    FetchTopicReply,
    check_fetch_version,
    checked_count,
)
from runnel.wire.primitives import (
    compact_count,
    compact_string,
    legacy_count,
    legacy_string,
    read_compact_count,
    read_compact_string,
    read_legacy_count,
    read_legacy_string,
    read_tagged,
    read_uuid,
    skip_tagged,
    tagged,
)
from runnel.wire.produce import NodeEndpoint, decode_node_endpoints, encode_node_endpoints
from runnel.wire.types import ZERO_UUID, ReadBuffer
from runnel.wire.varints import decode_uvarint, encode_uvarint

_I32 = Struct(">i")
_HEAD_V4 = Struct(">i")
_HEAD_V7 = Struct(">ihi")
_FIXED_V4 = Struct(">ihqq")
_FIXED_V5 = Struct(">ihqqq")
_NO_ABORTED_V11 = Struct(">ihqqqiii")
_NO_ABORTED_V12 = Struct(">ihqqqxi")
_ABORTED = Struct(">qq")
_ABORTED_TAGGED = Struct(">qqx")
_DIVERGING_EPOCH = Struct(">iqx")
_LEADER = Struct(">iix")
_SNAPSHOT = Struct(">qix")
_REPLY_TAGS = frozenset((0, 1, 2))
_NONE = (-1, -1)


def encode_fetch_response(
    version: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[FetchTopicReply],
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | bytearray | memoryview]:
    """The body of a reply as a scatter list. `node_endpoints` travel from version 16 on."""
    check_fetch_version(version)
    encode = _encode_flexible if version >= FLEXIBLE_FROM else _encode_legacy
    if version >= SESSIONS_FROM:
        head = _HEAD_V7.pack(throttle_ms, error_code, session_id)
    else:
        head = _HEAD_V4.pack(throttle_ms)
    pieces: list[bytes | bytearray | memoryview] = []
    tail = encode(version, bytearray(head), topics, pieces)
    if version >= FLEXIBLE_FROM:
        if node_endpoints and version >= NODE_ENDPOINTS_FROM:
            tail += tagged([(0, encode_node_endpoints(node_endpoints))])
        else:
            tail.append(0)
    if tail:
        pieces.append(tail)
    return pieces


def _encode_legacy(
    version: int,
    out: bytearray,
    topics: Sequence[FetchTopicReply],
    pieces: list[bytes | bytearray | memoryview],
) -> bytearray:
    out += legacy_count(len(topics))
    for name, _, partitions in topics:
        out += legacy_string(name)
        out += legacy_count(len(partitions))
        for reply in partitions:
            records = reply[7]
            size = -1 if records is None else len(records)
            if version >= 11 and reply[5] is None:
                out += _NO_ABORTED_V11.pack(*reply[:5], -1, reply[6], size)
            else:
                _encode_reply_legacy(version, out, reply, size)
            if records:
                pieces += (out, records)
                out = bytearray()
    return out


def _encode_reply_legacy(version: int, out: bytearray, reply: FetchPartitionReply, size: int) -> None:
    out += _FIXED_V5.pack(*reply[:5]) if version >= 5 else _FIXED_V4.pack(*reply[:4])
    aborted = reply.aborted_transactions
    out += legacy_count(-1 if aborted is None else len(aborted))
    for producer_id, first_offset in aborted or ():
        out += _ABORTED.pack(producer_id, first_offset)
    if version >= 11:
        out += _I32.pack(reply.preferred_read_replica)
    out += _I32.pack(size)


def _encode_flexible(
    version: int,
    out: bytearray,
    topics: Sequence[FetchTopicReply],
    pieces: list[bytes | bytearray | memoryview],
) -> bytearray:
    by_id = version >= TOPIC_IDS_FROM
    out += compact_count(len(topics))
    for name, topic_id, partitions in topics:
        out += topic_id.bytes if by_id else compact_string(name)
        out += compact_count(len(partitions))
        for reply in partitions:
            index, error_code, high, stable, start, aborted, replica, records, diverging, leader, snapshot = reply
            if aborted is None:
                out += _NO_ABORTED_V12.pack(index, error_code, high, stable, start, replica)
            else:
                _encode_aborted_flexible(out, reply)
            out += encode_uvarint(0 if records is None else len(records) + 1)
            if records:
                pieces += (out, records)
                out = bytearray()
            if diverging is None and leader is None and snapshot is None:
                out.append(0)
            else:
                out += _encode_reply_tags(diverging, leader, snapshot)
        out.append(0)
    return out


def _encode_aborted_flexible(out: bytearray, reply: FetchPartitionReply) -> None:
    aborted = reply.aborted_transactions or ()
    out += _FIXED_V5.pack(*reply[:5])
    out += compact_count(len(aborted))
    for producer_id, first_offset in aborted:
        out += _ABORTED_TAGGED.pack(producer_id, first_offset)
    out += _I32.pack(reply.preferred_read_replica)


def _encode_reply_tags(
    diverging: tuple[int, int] | None, leader: tuple[int, int] | None, snapshot: tuple[int, int] | None
) -> bytes:
    fields = []
    if diverging is not None and diverging != _NONE:
        fields.append((0, _DIVERGING_EPOCH.pack(*diverging)))
    if leader is not None and leader != _NONE:
        fields.append((1, _LEADER.pack(*leader)))
    if snapshot is not None and snapshot != _NONE:
        fields.append((2, _SNAPSHOT.pack(*snapshot)))
    return tagged(fields)


def decode_fetch_response(version: int, buffer: ReadBuffer, offset: int = 0) -> FetchResponse:
    """A reply, for clients and followers; records are slices of `buffer`."""
    check_fetch_version(version)
    view = memoryview(buffer)
    try:
        response, _ = _decode(version, view, offset)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a Fetch response does not parse: {error}") from error
    return response


def _decode(version: int, view: memoryview, position: int) -> tuple[FetchResponse, int]:
    error_code, session_id = 0, 0
    if version >= SESSIONS_FROM:
        throttle_ms, error_code, session_id = _HEAD_V7.unpack_from(view, position)
        position += _HEAD_V7.size
    else:
        (throttle_ms,) = _HEAD_V4.unpack_from(view, position)
        position += _HEAD_V4.size
    flexible = version >= FLEXIBLE_FROM
    read_count = read_compact_count if flexible else read_legacy_count
    topic_count, position = checked_count(*read_count(view, position, 3))
    topics = []
    for _ in range(topic_count):
        topic, position = _decode_topic(version, view, position)
        topics.append(topic)
    endpoints: list[NodeEndpoint] = []
    if flexible:
        fields, position = read_tagged(view, position, (0,))
        if 0 in fields and version >= NODE_ENDPOINTS_FROM:
            endpoints, _ = decode_node_endpoints(view[: fields[0][1]], fields[0][0])
    return FetchResponse(throttle_ms, error_code, session_id, topics, endpoints), position


def _decode_topic(
    version: int, view: memoryview, position: int
) -> tuple[tuple[str, uuid.UUID, list[FetchPartitionReply]], int]:
    flexible = version >= FLEXIBLE_FROM
    name, topic_id = "", ZERO_UUID
    if version >= TOPIC_IDS_FROM:
        topic_id, position = read_uuid(view, position)
    else:
        name, position = (read_compact_string if flexible else read_legacy_string)(view, position)
    read_count = read_compact_count if flexible else read_legacy_count
    count, position = checked_count(*read_count(view, position, _FIXED_V4.size))
    partitions = []
    for _ in range(count):
        reply, position = _decode_reply(version, view, position)
        partitions.append(reply)
    if flexible:
        position = skip_tagged(view, position)
    return (name, topic_id, partitions), position


def _decode_reply(version: int, view: memoryview, position: int) -> tuple[FetchPartitionReply, int]:
    flexible = version >= FLEXIBLE_FROM
    fixed = _FIXED_V5 if version >= 5 else _FIXED_V4
    reply = FetchPartitionReply(*fixed.unpack_from(view, position))
    aborted, position = _decode_aborted(flexible, view, position + fixed.size)
    replica = -1
    if version >= 11:
        (replica,) = _I32.unpack_from(view, position)
        position += 4
    records, position = _decode_record_set(flexible, view, position)
    reply = reply._replace(aborted_transactions=aborted, preferred_read_replica=replica, records=records)
    if flexible:
        fields, position = read_tagged(view, position, _REPLY_TAGS)
        if fields:
            reply = _with_reply_tags(reply, view, fields)
    return reply, position


def _decode_aborted(flexible: bool, view: memoryview, position: int) -> tuple[list[tuple[int, int]] | None, int]:
    count, position = (read_compact_count if flexible else read_legacy_count)(view, position, _ABORTED.size)
    if count < 0:
        return None, position
    checked_count(count, position)
    aborted = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(view, position))
        position += _ABORTED.size
        if flexible:
            position = skip_tagged(view, position)
    return aborted, position


def _decode_record_set(flexible: bool, view: memoryview, position: int) -> tuple[memoryview | None, int]:
    if flexible:
        size, position = decode_uvarint(view, position)
        size -= 1
    else:
        (size,) = _I32.unpack_from(view, position)
        position += 4
    if size == -1:
        return None, position
    end = position + size
    if size < 0 or end > len(view):
        raise Malformed(f"a record set claims {size} of {len(view) - position} bytes")
    return view[position:end], end


def _with_reply_tags(
    reply: FetchPartitionReply, view: memoryview, fields: dict[int, tuple[int, int]]
) -> FetchPartitionReply:
    def read(tag: int, layout: Struct) -> tuple[int, int] | None:
        if tag not in fields:
            return None
        start, end = fields[tag]
        first, second = layout.unpack_from(view[:end], start)
        return first, second

    return reply._replace(
        diverging_epoch=read(0, _DIVERGING_EPOCH),
        current_leader=read(1, _LEADER),
        snapshot_id=read(2, _SNAPSHOT),
    )
