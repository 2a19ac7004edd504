"""One connection: order of replies, pipelining, and what closes it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from clients.protocol.calls import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    fetch_body,
    fetch_topic,
    list_offset,
    produce,
    produce_body,
)
from harness.batches import encode_batch
from harness.conditions import wait_until
from harness.raw import RawConnection, decode_reply, encode_frame, encode_header

NewTopic = Callable[..., str]


def test_pipelined_requests_are_answered_in_order(raw: RawConnection) -> None:
    frames = b"".join(encode_frame(METADATA, 12, number, {"topics": []}) for number in range(200))
    raw.socket.sendall(frames)
    assert [decode_reply(METADATA, 12, raw.receive())[0] for _ in range(200)] == list(range(200))


def test_a_waiting_fetch_holds_back_later_replies(raw: RawConnection, bootstrap: str, new_topic: NewTopic) -> None:
    """Kafka answers strictly in order: what follows a long poll waits for it."""
    topic = new_topic()
    where = {"topic": topic}
    waiting = fetch_body([fetch_topic(where, 0)], max_wait_ms=60_000)
    raw.socket.sendall(encode_frame(FETCH, 11, 1, waiting) + encode_frame(API_VERSIONS, 0, 2, {}))
    with RawConnection(bootstrap) as other:
        assert produce(other, topic, encode_batch([b"wake up"])).error_code == 0
    assert decode_reply(FETCH, 11, raw.receive())[0] == 1
    assert decode_reply(API_VERSIONS, 0, raw.receive())[0] == 2


def test_pipelined_produces_keep_their_order(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    frames = []
    for number in range(50):
        body = produce_body(raw, topic, encode_batch([str(number).encode()]), acks=-1 if number % 2 else 1)
        frames.append(encode_frame(PRODUCE, 9, number, body))
    raw.socket.sendall(b"".join(frames))
    offsets = []
    for number in range(50):
        correlation_id, reply = decode_reply(PRODUCE, 9, raw.receive())
        assert correlation_id == number
        offsets.append(reply.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(50))


def test_acks_zero_has_no_reply(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    for number in range(3):
        raw.send(PRODUCE, 9, produce_body(raw, topic, encode_batch([str(number).encode()]), acks=0))
    # The next reply on the connection is this one.
    assert raw.request(API_VERSIONS, 0, {}).error_code == 0
    wait_until(lambda: list_offset(raw, topic, -1).offset == 3, "three records")


def test_frames_may_come_in_pieces(raw: RawConnection) -> None:
    frame = encode_frame(METADATA, 12, 77, {"topics": []})
    for position in range(len(frame)):
        raw.socket.sendall(frame[position : position + 1])
    assert decode_reply(METADATA, 12, raw.receive())[0] == 77


@pytest.mark.parametrize(
    ("api_key", "version"), [(999, 0), (-1, 0), (METADATA, 99), (METADATA, -1), (FETCH, 3), (4, 0), (PRODUCE, 14)]
)
def test_what_is_not_served_closes_the_connection(raw: RawConnection, api_key: int, version: int) -> None:
    raw.send_bytes(encode_header(api_key, version, 1, flexible=False) + b"\x00" * 8)
    assert raw.is_closed_by_peer()


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 200 << 20])
def test_impossible_frame_sizes_close_the_connection(raw: RawConnection, size: int) -> None:
    raw.socket.sendall(struct.pack(">i", size) + b"\x00" * 64)
    assert raw.is_closed_by_peer()


def test_a_body_that_ends_early_closes_only_its_connection(raw: RawConnection, bootstrap: str) -> None:
    frame = encode_frame(METADATA, 12, 1, {"topics": [{"topic_id": None, "name": "some-topic"}]})[4:-3]
    raw.send_bytes(frame)
    assert raw.is_closed_by_peer()
    with RawConnection(bootstrap) as other:
        assert other.request(API_VERSIONS, 0, {}).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_produce_versions_are_refused(raw: RawConnection, version: int) -> None:
    """Advertised for librdkafka's sake, but not served (KIP-896): Kafka closes the connection."""
    raw.send_bytes(encode_header(PRODUCE, version, 1, flexible=False) + struct.pack(">hii", 1, 1000, 0))
    try:
        payload = raw.receive()
    except ConnectionError:
        return
    assert struct.unpack_from(">i", payload)[0] == 1
