"""Owns speaking to a broker with nothing in between: frames built here, sent over one blocking socket.

For what a real client would hide: the first ack after a start, and requests/s without a client's own threads.
Old fixed-layout versions (Metadata 4, Produce 7, ApiVersions 0) keep the frames readable; Kafka 4
and Runnel serve them.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

import crc32c

RETRY_S = 0.005
SOCKET_TIMEOUT_S = 30.0
RECEIVE_BYTES = 1 << 16
PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


class BrokerNotReady(Exception):
    """The broker refused, closed the connection or answered with an error that a retry may cure."""


class RequestRates(NamedTuple):
    """What one run of single-record requests found."""

    requests: int
    requests_per_s: float
    p50_ms: float
    p99_ms: float


def connect(bootstrap: str, timeout_s: float = SOCKET_TIMEOUT_S) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhi", api_key, version, 1) + encode_string("bench")
    return struct.pack(">i", len(header) + len(body)) + header + body


def api_versions_request() -> bytes:
    return frame(API_VERSIONS, 0, b"")


def metadata_request(topic: str) -> bytes:
    """Asks about one topic and lets the broker create it."""
    return frame(METADATA, 4, struct.pack(">i", 1) + encode_string(topic) + b"\x01")


def produce_request(topic: str, value: bytes, acks: int = 1) -> bytes:
    """One record to partition 0."""
    batch = _one_record_batch(value)
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + encode_string(topic)
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    return frame(PRODUCE, 7, body)


def encode_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _varint(value: int) -> bytes:
    """Zigzag for the non-negative values (and -1) that a record here can hold."""
    value = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _one_record_batch(value: bytes) -> bytes:
    record = b"\x00" + _varint(0) + _varint(0) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    record = _varint(len(record)) + record
    now_ms = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record
    head = struct.pack(">ib", -1, 2) + struct.pack(">I", crc32c.crc32c(checked))
    return struct.pack(">qi", 0, len(head) + len(checked)) + head + checked


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send one request and return its reply's body (without size and correlation id)."""
    connection.sendall(request)
    (size,) = struct.unpack(">i", _receive_exactly(connection, 4))
    return _receive_exactly(connection, size)[4:]


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise BrokerNotReady("the broker closed the connection")
        received += chunk
    return bytes(received)


def check_metadata(body: bytes) -> None:
    """Raise unless the reply names the one topic without an error and with a leader."""
    position = 4
    (brokers,) = struct.unpack_from(">i", body, position)
    position += 4
    for _ in range(brokers):
        position = skip_string(body, skip_string(body, position + 4) + 4)
    position = skip_string(body, position) + 4
    topics, error = struct.unpack_from(">ih", body, position)
    if topics != 1 or error != 0:
        raise BrokerNotReady(f"metadata error {error}")
    position = skip_string(body, position + 6) + 1
    partitions, error = struct.unpack_from(">ih", body, position)
    if partitions < 1 or error != 0:
        raise BrokerNotReady(f"no leader yet (error {error})")


def skip_string(body: bytes, position: int) -> int:
    length: int = struct.unpack_from(">h", body, position)[0]
    return position + 2 + max(length, 0)


def check_produced(body: bytes, topic: str) -> None:
    _, error = struct.unpack_from(">ih", body, 4 + 2 + len(topic.encode()) + 4)
    if error != 0:
        raise BrokerNotReady(f"produce error {error}")


def first_ack(bootstrap: str, topic: str, timeout_s: float, check_alive: Callable[[], None]) -> None:
    """Return as soon as one record is acknowledged, trying again every few milliseconds until then."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with connect(bootstrap) as connection:
                _produce_when_led(connection, topic, deadline)
            return
        except (OSError, BrokerNotReady) as problem:
            check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no ack within {timeout_s:.0f} s: {problem}") from problem
            time.sleep(RETRY_S)


def _produce_when_led(connection: socket.socket, topic: str, deadline: float) -> None:
    while True:
        try:
            check_metadata(exchange(connection, metadata_request(topic)))
            check_produced(exchange(connection, produce_request(topic, b"first")), topic)
            return
        except BrokerNotReady:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


def wait_until_answering(bootstrap: str, timeout_s: float, check_alive: Callable[[], None]) -> None:
    """Return when the broker answers a request at all."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with connect(bootstrap) as connection:
                exchange(connection, api_versions_request())
            return
        except (OSError, BrokerNotReady) as problem:
            check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {timeout_s:.0f} s: {problem}") from problem
            time.sleep(RETRY_S)


def single_record_requests(
    bootstrap: str, topic: str, *, value_bytes: int, window: int, seconds: float
) -> RequestRates:
    """One record per request, acks=1, `window` requests on their way, on one connection."""
    request = produce_request(topic, b"x" * value_bytes)
    with connect(bootstrap) as connection:
        reply = exchange(connection, request)
        check_produced(reply, topic)
        latencies_s, elapsed_s = _keep_window_full(connection, request, len(reply) + 8, window, seconds)
    latencies_s.sort()
    count = len(latencies_s)
    return RequestRates(count, count / elapsed_s, latencies_s[count // 2] * 1e3, latencies_s[count * 99 // 100] * 1e3)


def _keep_window_full(
    connection: socket.socket, request: bytes, reply_bytes: int, window: int, seconds: float
) -> tuple[list[float], float]:
    """Replies all have one size, so counting bytes counts them; replies come in order, so times pair up."""
    clock = time.perf_counter
    started = clock()
    ends = started + seconds
    sent_at = [started] * window
    latencies_s: list[float] = []
    received_bytes = 0
    connection.sendall(request * window)
    while len(latencies_s) < len(sent_at):
        chunk = connection.recv(RECEIVE_BYTES)
        if not chunk:
            raise BrokerNotReady("the broker closed the connection")
        received_bytes += len(chunk)
        now = clock()
        before = len(latencies_s)
        answered = received_bytes // reply_bytes - before
        latencies_s += [now - sent for sent in sent_at[before : before + answered]]
        if answered and now < ends:
            sent_at += [now] * answered
            connection.sendall(request * answered)
    return latencies_s, clock() - started
