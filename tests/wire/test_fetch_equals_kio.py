"""The hand-written Fetch codec against kio: every version, both directions, random messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.wire import fetch, fetch_values
from runnel.wire.errors import Malformed
from runnel.wire.fetch import (
    HIGH_WATERMARK_UNSUPPORTED,
    FetchPartition,
    FetchPartitionReply,
    FetchRequest,
    FetchTopic,
    decode_fetch_request,
    decode_fetch_response,
    encode_fetch_request,
    encode_fetch_response,
)
from runnel.wire.primitives import compact_count, compact_string, tagged
from runnel.wire.types import ZERO_UUID
from wire.kio_oracle import TEXT, UUIDS, kio_bytes

VERSIONS = range(fetch_values.VERSION_MIN, fetch_values.VERSION_MAX + 1)
I8 = st.integers(-128, 127)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
PAIRS_32_64 = st.none() | st.tuples(I32, I64)

plain_partitions = st.tuples(I32, I64, I32).map(lambda fields: FetchPartition(*fields))
partitions = st.builds(FetchPartition, I32, I64, I32, I32, I32, I64, UUIDS, I64 | st.just(HIGH_WATERMARK_UNSUPPORTED))
topics = st.builds(FetchTopic, TEXT, UUIDS, st.lists(partitions | plain_partitions, max_size=4))
requests = st.builds(
    FetchRequest,
    I32 | st.just(-1),
    I64 | st.just(-1),
    I32,
    I32,
    I32,
    I8,
    I32,
    I32,
    st.lists(topics, max_size=4) | st.lists(topics, min_size=1, max_size=2).map(lambda few: few * 70),
    st.lists(st.tuples(TEXT, UUIDS, st.lists(I32, max_size=3)), max_size=3),
    TEXT,
    st.none() | TEXT,
)
records = st.none() | st.binary(max_size=300) | st.binary(max_size=300).map(memoryview)
plain_replies = st.tuples(I32, st.integers(-1, 120), I64, I64, I64, records).map(
    lambda fields: FetchPartitionReply(*fields[:5], records=fields[5])
)
replies = st.builds(
    FetchPartitionReply,
    I32,
    st.integers(-1, 120),
    I64,
    I64,
    I64,
    st.none() | st.lists(st.tuples(I64, I64), max_size=3),
    I32,
    records,
    PAIRS_32_64,
    st.none() | st.tuples(I32, I32),
    st.none() | st.tuples(I64, I32),
)
topic_replies = st.tuples(TEXT, UUIDS, st.lists(replies | plain_replies, max_size=4))
endpoints = st.lists(st.tuples(I32, TEXT, I32, st.none() | TEXT), max_size=3)


def request_mapping(request: FetchRequest) -> dict[str, Any]:
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica_id,
        "replica_state": {"replica_id": request.replica_id, "replica_epoch": request.replica_epoch},
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "topics": [
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [part._asdict() | {"partition": part.index} for part in topic.partitions],
            }
            for topic in request.topics
        ],
        "forgotten_topics_data": [
            {"topic": name, "topic_id": topic_id, "partitions": indexes}
            for name, topic_id, indexes in request.forgotten
        ],
        "rack_id": request.rack_id,
    }


def visible_partition(version: int, part: FetchPartition) -> FetchPartition:
    hidden: dict[str, Any] = {}
    for field, first_version, default in (
        ("log_start_offset", 5, -1),
        ("current_leader_epoch", 9, -1),
        ("last_fetched_epoch", 12, -1),
        ("replica_directory_id", 17, ZERO_UUID),
        ("high_watermark", 18, HIGH_WATERMARK_UNSUPPORTED),
    ):
        if version < first_version:
            hidden[field] = default
    return part._replace(**hidden)


def visible_request(version: int, request: FetchRequest) -> FetchRequest:
    by_id = version >= fetch_values.TOPIC_IDS_FROM
    seen = [
        FetchTopic(
            "" if by_id else topic.name,
            topic.topic_id if by_id else ZERO_UUID,
            [visible_partition(version, part) for part in topic.partitions],
        )
        for topic in request.topics
    ]
    forgotten = [
        ("" if by_id else name, topic_id if by_id else ZERO_UUID, indexes)
        for name, topic_id, indexes in request.forgotten
    ]
    request = request._replace(topics=seen, forgotten=forgotten)
    if version < 7:
        request = request._replace(session_id=0, session_epoch=-1, forgotten=[])
    if version < 11:
        request = request._replace(rack_id="")
    if version < 12:
        request = request._replace(cluster_id=None)
    if version < 15:
        request = request._replace(replica_epoch=-1)
    return request


def response_mapping(throttle_ms: int, error_code: int, session_id: int, replied: Any, nodes: Any) -> dict[str, Any]:
    return {
        "throttle_time_ms": throttle_ms,
        "error_code": error_code,
        "session_id": session_id,
        "responses": [
            {"topic": name, "topic_id": topic_id, "partitions": [reply_mapping(reply) for reply in parts]}
            for name, topic_id, parts in replied
        ],
        "node_endpoints": [
            {"node_id": node_id, "host": host, "port": port, "rack": rack} for node_id, host, port, rack in nodes
        ],
    }


def reply_mapping(reply: FetchPartitionReply) -> dict[str, Any]:
    aborted = reply.aborted_transactions
    epoch, epoch_end = reply.diverging_epoch or (-1, -1)
    leader_id, leader_epoch = reply.current_leader or (-1, -1)
    snapshot_end, snapshot_epoch = reply.snapshot_id or (-1, -1)
    return {
        "partition_index": reply.index,
        "error_code": reply.error_code,
        "high_watermark": reply.high_watermark,
        "last_stable_offset": reply.last_stable_offset,
        "log_start_offset": reply.log_start_offset,
        "diverging_epoch": {"epoch": epoch, "end_offset": epoch_end},
        "current_leader": {"leader_id": leader_id, "leader_epoch": leader_epoch},
        "snapshot_id": {"end_offset": snapshot_end, "epoch": snapshot_epoch},
        "aborted_transactions": None
        if aborted is None
        else [{"producer_id": producer, "first_offset": offset} for producer, offset in aborted],
        "preferred_read_replica": reply.preferred_read_replica,
        "records": None if reply.records is None else bytes(reply.records),
    }


def visible_reply(version: int, reply: FetchPartitionReply) -> FetchPartitionReply:
    if version < 5:
        reply = reply._replace(log_start_offset=-1)
    if version < 11:
        reply = reply._replace(preferred_read_replica=-1)
    for field in ("diverging_epoch", "current_leader", "snapshot_id"):
        if version < 12 or getattr(reply, field) == (-1, -1):
            reply = reply._replace(**{field: None})
    return reply


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=40, deadline=None)
@given(request=requests)
def test_requests(version: int, request: FetchRequest) -> None:
    expected = kio_bytes(1, "request", version, request_mapping(request))
    assert encode_fetch_request(version, request) == expected
    assert decode_fetch_request(version, memoryview(b"header" + expected), 6) == visible_request(version, request)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=40, deadline=None)
@given(
    replied=st.lists(topic_replies, max_size=4),
    head=st.tuples(I32, st.integers(-1, 120), I32),
    nodes=endpoints,
)
def test_responses(version: int, replied: Any, head: tuple[int, int, int], nodes: Any) -> None:
    expected = kio_bytes(1, "response", version, response_mapping(*head, replied, nodes))
    pieces = encode_fetch_response(version, *head, replied, nodes)
    assert b"".join(pieces) == expected

    decoded = decode_fetch_response(version, b"head" + expected, 4)
    assert decoded[:3] == (head if version >= 7 else (head[0], 0, 0))
    assert decoded.node_endpoints == (nodes if version >= fetch_values.NODE_ENDPOINTS_FROM else [])
    by_id = version >= fetch_values.TOPIC_IDS_FROM
    assert decoded.topics == [
        (
            "" if by_id else name,
            topic_id if by_id else ZERO_UUID,
            [visible_reply(version, reply) for reply in parts],
        )
        for name, topic_id, parts in replied
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_record_bytes_are_passed_through_and_the_rest_is_joined(version: int) -> None:
    first, second = memoryview(b"a" * 50), b"b" * 70
    parts = [
        FetchPartitionReply(0, 0, 9, records=first),
        FetchPartitionReply(1, 0, 9),
        FetchPartitionReply(2, 0, 9, records=None),
        FetchPartitionReply(3, 0, 9, records=second),
    ]
    pieces = encode_fetch_response(version, 0, 0, 0, [("t", ZERO_UUID, parts)])
    assert [piece for piece in pieces if piece is first or piece is second] == [first, second]
    assert len(pieces) == (5 if version >= fetch_values.FLEXIBLE_FROM else 4)


def test_unknown_tagged_fields_are_skipped_everywhere() -> None:
    unknown = tagged([(7, b"seven"), (9000, b"")])
    partition = b"\0\0\0\5" + b"\xff\xff\xff\xff" + b"\0" * 7 + b"\x09" + b"\xff" * 12 + b"\0\0\1\0" + unknown
    topic = compact_string("t") + compact_count(1) + partition + unknown
    forgotten = compact_string("f") + compact_count(1) + b"\0\0\0\3" + unknown
    head = b"\xff\xff\xff\xff" + b"\0\0\0\1" * 3 + b"\0" + b"\0" * 8
    body = head + compact_count(1) + topic + compact_count(1) + forgotten + compact_string("r") + unknown
    request = decode_fetch_request(12, body, 0)
    assert request.topics == [FetchTopic("t", ZERO_UUID, [FetchPartition(5, 9, 256)])]
    assert request.forgotten == [("f", ZERO_UUID, [3])]
    assert request.rack_id == "r"


HEAD_V4 = b"\xff\xff\xff\xff" + b"\0" * 13
HEAD_V12 = b"\xff\xff\xff\xff" + b"\0" * 21


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (4, HEAD_V4 + b"\x7f\xff\xff\xff"),
        (4, HEAD_V4 + b"\xff\xff\xff\xff"),
        (4, HEAD_V4 + b"\0\0\0\1\0\1t\x10\0\0\0"),
        (12, HEAD_V12 + b"\xff\xff\xff\xff\x0f"),
        (12, HEAD_V12 + b"\x02\x02t\xff\xff\xff\x7f"),
        (12, HEAD_V12 + b"\x01\xff\xff\xff\x7f"),
        (12, HEAD_V12 + b"\x01\x01\x01\xff\xff\xff\xff\x0f"),
        (12, HEAD_V12 + b"\x01\x01\x01\x01\x00\x05\x09"),
        (3, b""),
        (19, b""),
    ],
    ids=["topics", "null topics", "partitions", "compact topics", "compact partitions",
         "forgotten", "tags", "cluster id longer than its field", "version 3", "version 19"],
)  # fmt: skip
def test_hostile_lengths_are_malformed(version: int, body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_fetch_request(version, memoryview(body), 0)


def test_more_items_than_any_honest_request_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is for the whole request: topics, partitions and forgotten ones."""
    monkeypatch.setattr(fetch, "PARTITIONS_MAX", 10)
    three = [FetchPartition(index, 0, 1) for index in range(3)]
    for version in VERSIONS:
        for topic_count in range(1, 5):
            asked = [FetchTopic("t", ZERO_UUID, three)] * topic_count
            encoded = encode_fetch_request(version, FetchRequest(-1, -1, 0, 0, 0, 0, 0, 0, asked))
            if topic_count * 4 <= 10:
                assert len(decode_fetch_request(version, encoded, 0).topics) == topic_count
            else:
                with pytest.raises(Malformed, match="too long"):
                    decode_fetch_request(version, encoded, 0)
        if version >= fetch_values.SESSIONS_FROM:
            forgotten = [("f", ZERO_UUID, [1, 2])] * 4
            encoded = encode_fetch_request(version, FetchRequest(-1, -1, 0, 0, 0, 0, 0, 0, [], forgotten))
            with pytest.raises(Malformed, match="too long"):
                decode_fetch_request(version, encoded, 0)
