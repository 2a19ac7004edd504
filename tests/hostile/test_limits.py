"""Every limit of a connection, reached on purpose: clear refusals, bounded memory, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from clients.protocol.calls import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    fetch_body,
    fetch_topic,
    produce,
    produce_body,
)
from harness.batches import encode_batch
from harness.conditions import wait_until
from harness.raw import RawConnection, decode_reply, encode_frame
from hostile.victim import MEGABYTE, Victim


@contextlib.contextmanager
def many(victim: Victim, count: int) -> Iterator[list[RawConnection]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(victim.connect()) for _ in range(count)]


def is_served(raw: RawConnection) -> bool:
    try:
        return bool(raw.request(API_VERSIONS, 0, {}).error_code == 0)
    except (ConnectionError, TimeoutError):
        return False


def test_connections_over_the_limit_are_refused(attack: Any) -> None:
    victim = attack(max_connections=10)
    with many(victim, 10) as held:
        assert all(is_served(raw) for raw in held)
        with many(victim, 30) as refused:
            assert not any(is_served(raw) for raw in refused)
        assert all(is_served(raw) for raw in held)
    assert "max.connections" in victim.broker.stderr_text()
    wait_until(lambda: victim.open_connections() == 0, "all gone")
    victim.check_healthy()


def test_connections_over_the_limit_of_an_address(attack: Any) -> None:
    victim = attack(max_connections_per_ip=5)
    with many(victim, 5) as held:
        assert all(is_served(raw) for raw in held)
        with many(victim, 5) as refused:
            assert not any(is_served(raw) for raw in refused)
        # Another address of this machine is another address.
        host, port = victim.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 30, source_address=("127.0.0.2", 0)) as other:
            other.sendall(encode_frame(API_VERSIONS, 0, 1, {}))
            assert other.recv(4)
    assert "max.connections.per.ip" in victim.broker.stderr_text()
    wait_until(lambda: victim.open_connections() == 0, "all gone")
    victim.check_healthy()


def test_a_storm_of_connections(victim: Victim) -> None:
    held = victim.forget_peak()
    for _ in range(3):
        with many(victim, 500) as connections:
            assert is_served(connections[0])
            assert is_served(connections[-1])
    wait_until(lambda: victim.open_connections() == 0, "all gone")
    assert victim.peak_bytes() - held < 64 * MEGABYTE


def test_idle_connections_are_closed(attack: Any) -> None:
    victim = attack(connections_max_idle_ms=1000)
    with victim.connect() as silent, victim.connect() as partial:
        assert is_served(silent)
        partial.socket.sendall(b"\x00\x00\x00\x50\x00\x03")  # a frame that never ends
        assert silent.is_closed_by_peer()
        assert partial.is_closed_by_peer()
    victim.check_healthy()


def test_a_waiting_fetch_is_not_idle(attack: Any) -> None:
    victim = attack(connections_max_idle_ms=1000)
    topic = victim.new_topic()
    with victim.connect() as raw, victim.connect() as silent:
        raw.send(FETCH, 11, fetch_body([fetch_topic({"topic": topic}, 0)], max_wait_ms=600_000))
        assert silent.is_closed_by_peer()  # so the sweep has come by
        with victim.connect() as other:
            assert produce(other, topic, encode_batch([b"at last"])).error_code == 0
        assert decode_reply(FETCH, 11, raw.receive())[1].responses[0].partitions[0].records


def test_slow_loris(victim: Victim) -> None:
    """Hundreds of clients that send a byte now and then: others do not notice."""
    frame = encode_frame(METADATA, 12, 1, {"topics": []})
    with many(victim, 300) as connections:
        for position in range(len(frame) - 1):
            for raw in connections[position::7]:
                raw.socket.sendall(frame[position : position + 1])
        victim.check_healthy()


@pytest.fixture
def big_topic(attack: Any) -> tuple[Victim, str]:
    """A broker that may hold 64 MB of replies, and a topic of 48 MB."""
    victim: Victim = attack(queued_max_request_bytes=64 * MEGABYTE)
    topic = victim.new_topic()
    with victim.connect() as raw:
        batch = encode_batch([b"x" * 900_000])
        for _ in range(54):
            assert produce(raw, topic, batch, acks=1).error_code == 0
    return victim, topic


def greedy(topic: str, number: int) -> bytes:
    asked = fetch_topic({"topic": topic}, 0, partition_max_bytes=48 * MEGABYTE)
    return encode_frame(FETCH, 11, number, fetch_body([asked], max_bytes=48 * MEGABYTE))


def test_clients_that_never_read(big_topic: tuple[Victim, str]) -> None:
    """Forty clients ask for 48 MB twenty times each and read nothing: 38 GB are never held, and others are served."""
    victim, topic = big_topic
    held = victim.forget_peak()
    with many(victim, 40) as connections:
        for raw in connections:
            raw.socket.sendall(b"".join(greedy(topic, number) for number in range(20)))
        for _ in range(5):
            victim.check_healthy()
        assert victim.peak_bytes() - held < 400 * MEGABYTE
        # One of them reads after all, and gets what it asked for.
        correlation_id, reply = decode_reply(FETCH, 11, connections[0].receive())
        assert correlation_id == 0
        assert len(reply.responses[0].partitions[0].records) > 40 * MEGABYTE
    wait_until(lambda: victim.open_connections() == 0, "all gone")
    wait_until(lambda: victim.rss_bytes() - held < 200 * MEGABYTE, "the memory back")
    victim.check_healthy()


def test_clients_that_never_read_are_closed_when_idle(attack: Any) -> None:
    victim = attack(connections_max_idle_ms=1000)
    topic = victim.new_topic()
    with victim.connect() as raw:
        for _ in range(20):
            assert produce(raw, topic, encode_batch([b"x" * 900_000]), acks=1).error_code == 0
    with many(victim, 3) as connections:
        for raw in connections:
            raw.socket.sendall(b"".join(greedy(topic, number) for number in range(40)))
        wait_until(lambda: victim.open_connections() == 0, "the silent readers closed")
    victim.check_healthy()


def test_pipelining_beyond_the_limits(victim: Victim) -> None:
    """Thousands of requests behind a long poll: not read further, not held in memory, answered in the end."""
    topic = victim.new_topic()
    held = victim.forget_peak()
    with victim.connect() as raw:
        waiting = encode_frame(FETCH, 11, 0, fetch_body([fetch_topic({"topic": topic}, 0)], max_wait_ms=600_000))
        raw.socket.sendall(waiting)
        raw.socket.settimeout(1.0)
        frame = encode_frame(METADATA, 12, 1, {"topics": []}) * 1000
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 * MEGABYTE:
                sent += raw.socket.send(frame)
        assert sent < 64 * MEGABYTE, "the broker reads without end"
        victim.check_healthy()
        assert victim.peak_bytes() - held < 64 * MEGABYTE
        with victim.connect() as other:
            assert produce(other, topic, encode_batch([b"go on"])).error_code == 0
        raw.socket.settimeout(30.0)
        assert decode_reply(FETCH, 11, raw.receive())[0] == 0
        assert decode_reply(METADATA, 12, raw.receive())[0] == 1


def test_many_large_requests_at_once(attack: Any) -> None:
    """Request memory is bounded: what does not fit waits its turn and is served in the end."""
    victim = attack(queued_max_request_bytes=32 * MEGABYTE)
    topic = victim.new_topic(num_partitions=20)
    batch = encode_batch([b"x" * 900_000])
    held = victim.forget_peak()
    with many(victim, 20) as connections:
        frames = []
        for number, raw in enumerate(connections):
            body = produce_body(raw, topic, batch, acks=1, partition=number)
            frames.append(encode_frame(PRODUCE, 9, number, body))
        for _ in range(5):
            for raw, frame in zip(connections, frames, strict=True):
                raw.socket.sendall(frame[:-1])  # all but the last byte, so that all are held at once
            for raw, frame in zip(connections, frames, strict=True):
                raw.socket.sendall(frame[-1:])
            for number, raw in enumerate(connections):
                correlation_id, reply = decode_reply(PRODUCE, 9, raw.receive())
                assert correlation_id == number
                assert reply.responses[0].partition_responses[0].error_code == 0
    assert victim.peak_bytes() - held < 160 * MEGABYTE
    victim.check_healthy()


def test_promises_do_not_take_the_memory_of_others(attack: Any) -> None:
    """Requests of 30 MB are announced and never sent: memory that is promised is not memory that is used."""
    victim = attack(queued_max_request_bytes=32 * MEGABYTE)
    with many(victim, 100) as connections:
        for raw in connections:
            raw.socket.sendall(struct.pack(">i", 30 * MEGABYTE) + b"\x00\x00\x00\x09")
        for _ in range(3):
            victim.check_healthy()


def test_connections_cut_in_the_middle_of_everything(victim: Victim) -> None:
    """Frames end at every byte, with a reset in place of a goodbye."""
    topic = victim.new_topic()
    with victim.connect() as raw:
        frame = encode_frame(PRODUCE, 9, 1, produce_body(raw, topic, encode_batch([b"half"] * 20)))
    for length in range(1, len(frame)):
        with victim.connect() as raw:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.socket.sendall(frame[:length])
    wait_until(lambda: victim.open_connections() == 0, "all gone")
