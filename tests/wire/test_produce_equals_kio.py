"""The hand-written Produce codec against kio: every version, both directions, random messages."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.wire import produce
from runnel.wire.errors import Malformed
from runnel.wire.primitives import compact_count, compact_string, tagged
from runnel.wire.produce import (
    PartitionRecords,
    ProducePartitionReply,
    ProduceRequest,
    TopicRecords,
    decode_produce_request,
    decode_produce_response,
    encode_produce_request,
    encode_produce_response,
)
from runnel.wire.types import ZERO_UUID
from wire.kio_oracle import TEXT, UUIDS, kio_bytes

VERSIONS = range(produce.VERSION_MIN, produce.VERSION_MAX + 1)
I16 = st.integers(-(1 << 15), (1 << 15) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)

partitions = st.builds(PartitionRecords, I32, st.none() | st.binary(max_size=300).map(memoryview))
topics = st.builds(TopicRecords, TEXT, UUIDS, st.lists(partitions, max_size=4))
requests = st.builds(
    ProduceRequest,
    st.none() | TEXT,
    I16,
    I32,
    st.lists(topics, max_size=4) | st.lists(topics, min_size=1, max_size=2).map(lambda few: few * 70),
)
replies = st.builds(
    ProducePartitionReply,
    I32,
    st.integers(-1, 120),
    I64,
    st.integers(-1, 10**13),
    I64,
    st.lists(st.tuples(I32, st.none() | TEXT), max_size=3),
    st.none() | TEXT,
    st.none() | st.tuples(I32, I32),
)
plain_replies = st.tuples(I32, st.integers(-1, 120), I64, st.integers(-1, 10**13), I64).map(
    lambda fields: ProducePartitionReply(*fields)
)
topic_replies = st.tuples(TEXT, UUIDS, st.lists(replies | plain_replies, max_size=4))
endpoints = st.lists(st.tuples(I32, TEXT, I32, st.none() | TEXT), max_size=3)


def request_mapping(request: ProduceRequest) -> dict[str, Any]:
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout_ms": request.timeout_ms,
        "topic_data": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partition_data": [
                    {"index": part.index, "records": None if part.records is None else bytes(part.records)}
                    for part in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def visible_request(version: int, request: ProduceRequest) -> ProduceRequest:
    """What the other side can see: names before version 13, ids from then on."""
    by_id = version >= produce.TOPIC_IDS_FROM
    seen = [topic._replace(name="") if by_id else topic._replace(topic_id=ZERO_UUID) for topic in request.topics]
    return request._replace(topics=seen)


def response_mapping(
    replied: list[tuple[str, uuid.UUID, list[ProducePartitionReply]]], throttle_ms: int, nodes: list[Any]
) -> dict[str, Any]:
    return {
        "responses": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [
                    {
                        "index": reply.index,
                        "error_code": reply.error_code,
                        "base_offset": reply.base_offset,
                        "log_append_time": reply.log_append_time_ms,
                        "log_start_offset": reply.log_start_offset,
                        "record_errors": [
                            {"batch_index": index, "batch_index_error_message": message}
                            for index, message in reply.record_errors
                        ],
                        "error_message": reply.error_message,
                        "current_leader": dict(
                            zip(("leader_id", "leader_epoch"), reply.current_leader or (-1, -1), strict=True)
                        ),
                    }
                    for reply in parts
                ],
            }
            for name, topic_id, parts in replied
        ],
        "throttle_time_ms": throttle_ms,
        "node_endpoints": [
            {"node_id": node_id, "host": host, "port": port, "rack": rack} for node_id, host, port, rack in nodes
        ],
    }


def visible_reply(version: int, reply: ProducePartitionReply) -> ProducePartitionReply:
    if version < produce.LOG_START_OFFSET_FROM:
        reply = reply._replace(log_start_offset=-1)
    if version < produce.RECORD_ERRORS_FROM:
        reply = reply._replace(record_errors=(), error_message=None)
    if version < produce.CURRENT_LEADER_FROM or reply.current_leader == (-1, -1):
        reply = reply._replace(current_leader=None)
    return reply


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=40, deadline=None)
@given(request=requests)
def test_requests(version: int, request: ProduceRequest) -> None:
    expected = kio_bytes(0, "request", version, request_mapping(request))
    assert encode_produce_request(version, request) == expected
    frame = memoryview(bytearray(b"header" + expected))
    assert decode_produce_request(version, frame, 6) == visible_request(version, request)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=40, deadline=None)
@given(replied=st.lists(topic_replies, max_size=4), throttle_ms=I32, nodes=endpoints)
def test_responses(version: int, replied: Any, throttle_ms: int, nodes: Any) -> None:
    expected = kio_bytes(0, "response", version, response_mapping(replied, throttle_ms, nodes))
    assert encode_produce_response(version, replied, throttle_ms, nodes) == expected
    decoded = decode_produce_response(version, b"head" + expected, 4)
    assert decoded.throttle_ms == throttle_ms
    assert decoded.node_endpoints == (nodes if version >= produce.CURRENT_LEADER_FROM else [])
    by_id = version >= produce.TOPIC_IDS_FROM
    assert [
        (name, topic_id, [reply._replace(record_errors=tuple(reply.record_errors)) for reply in parts])
        for name, topic_id, parts in decoded.topics
    ] == [
        (
            "" if by_id else name,
            topic_id if by_id else ZERO_UUID,
            [
                seen._replace(record_errors=tuple(seen.record_errors))
                for seen in (visible_reply(version, reply) for reply in parts)
            ],
        )
        for name, topic_id, parts in replied
    ]


def test_records_are_slices_of_the_frame_and_writable() -> None:
    request = ProduceRequest(
        None, -1, 30_000, [TopicRecords("t", ZERO_UUID, [PartitionRecords(0, memoryview(b"abc"))])]
    )
    frame = bytearray(encode_produce_request(9, request))
    records = decode_produce_request(9, memoryview(frame), 0).topics[0].partitions[0].records
    assert records is not None
    records[0] = ord("X")
    assert b"Xbc" in frame


def test_bytes_after_a_request_are_ignored_as_in_kafka() -> None:
    assert decode_produce_request(9, b"\0\0\1\0\0\0\1\x01\0more", 0) == ProduceRequest(None, 1, 1, [])


def test_unknown_tagged_fields_are_skipped_everywhere() -> None:
    unknown = tagged([(7, b"seven"), (9000, b"")])
    partition = b"\0\0\0\5" + b"\x04abc" + unknown
    topic = compact_string("t") + compact_count(1) + partition + unknown
    body = compact_string(None) + b"\0\1" + b"\0\0\0\x0a" + compact_count(1) + topic + unknown
    request = decode_produce_request(9, body, 0)
    assert request == ProduceRequest(
        None, 1, 10, [TopicRecords("t", ZERO_UUID, [PartitionRecords(5, memoryview(b"abc"))])]
    )


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (3, b"\xff\xff\0\1\0\0\0\1\x7f\xff\xff\xff"),
        (3, b"\xff\xff\0\1\0\0\0\1\xff\xff\xff\xff"),
        (3, b"\xff\xff\0\1\0\0\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\x7f\xff\xff\xff"),
        (3, b"\xff\xff\0\1\0\0\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xfe"),
        (9, b"\0\0\1\0\0\0\1\xff\xff\xff\xff\x0f"),
        (9, b"\0\0\1\0\0\0\1\0\0"),
        (9, b"\0\0\1\0\0\0\1\x02\x02t\x02\0\0\0\0\xff\xff\xff\xff\x0f\0\0\0"),
        (9, b"\0\0\1\0\0\0\1\x01\xff\xff\xff\xff\x0f"),
        (2, b""),
        (14, b""),
    ],
    ids=["topics", "null topics", "records", "negative records", "compact topics", "null compact topics",
         "compact records", "tags", "version 2", "version 14"],
)  # fmt: skip
def test_hostile_lengths_are_malformed(version: int, body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_produce_request(version, memoryview(body), 0)


def test_more_items_than_any_honest_request_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty partition takes 6 bytes on the wire: the budget is for the whole request."""
    monkeypatch.setattr(produce, "PARTITIONS_MAX", 10)
    four = [PartitionRecords(index, None) for index in range(4)]
    for version in VERSIONS:
        for topic_count in range(1, 5):
            request = ProduceRequest(None, 1, 1, [TopicRecords("t", ZERO_UUID, four)] * topic_count)
            encoded = encode_produce_request(version, request)
            if topic_count * 5 <= 10:
                assert len(decode_produce_request(version, encoded, 0).topics) == topic_count
            else:
                with pytest.raises(Malformed, match="too long"):
                    decode_produce_request(version, encoded, 0)
