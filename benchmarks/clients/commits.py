"""Owns committing offsets over bare sockets: one request in flight on each of some connections, for some seconds.

No member stands behind the commits (generation -1), so they are all that the broker does. OffsetCommit 2 has a fixed
layout and is the oldest that Kafka 4 serves.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time

from benchmarks.clients import bare_socket
from benchmarks.clients.bare_socket import BrokerNotReady, RequestRates, encode_string, exchange, frame

OFFSET_COMMIT, FIND_COORDINATOR = 8, 10
LOADING = (14, 15, 16)
WAIT_S = 60.0
RETRY_S = 0.02


def commit_request(group: str, topic: str, partition: int, offset: int) -> bytes:
    body = encode_string(group) + struct.pack(">i", -1) + encode_string("") + struct.pack(">qi", -1, 1)
    body += encode_string(topic) + struct.pack(">iiq", 1, partition, offset) + encode_string("")
    return frame(OFFSET_COMMIT, 2, body)


def commit_rates(bootstrap: str, topic: str, group: str, *, connections: int, seconds: float) -> RequestRates:
    """Connection i commits to partition i, one request after the other; all connections at once."""
    with contextlib.ExitStack() as stack:
        requests = {}
        for partition in range(connections):
            connection = stack.enter_context(bare_socket.connect(bootstrap))
            requests[connection] = commit_request(group, topic, partition, 1)
            reply_bytes = _first_commit(connection, group, requests[connection]) + 8
        latencies_s, elapsed_s = _keep_committing(requests, reply_bytes, seconds)
    latencies_s.sort()
    count = len(latencies_s)
    return RequestRates(count, count / elapsed_s, latencies_s[count // 2] * 1e3, latencies_s[count * 99 // 100] * 1e3)


def _first_commit(connection: socket.socket, group: str, request: bytes) -> int:
    """Until the coordinator is there (Kafka makes its topic when it is first asked for); the size of the reply."""
    deadline = time.monotonic() + WAIT_S
    while True:
        exchange(connection, frame(FIND_COORDINATOR, 0, encode_string(group)))
        reply = exchange(connection, request)
        (error,) = struct.unpack(">h", reply[-2:])
        if error == 0:
            return len(reply)
        if error not in LOADING or time.monotonic() > deadline:
            raise BrokerNotReady(f"commit error {error}")
        time.sleep(RETRY_S)


def _keep_committing(
    requests: dict[socket.socket, bytes], reply_bytes: int, seconds: float
) -> tuple[list[float], float]:
    """Replies are small and of one size: each arrives whole."""
    clock = time.perf_counter
    latencies_s: list[float] = []
    with selectors.DefaultSelector() as ready:
        started = clock()
        ends = started + seconds
        sent_at = dict.fromkeys(requests, started)
        for connection, request in requests.items():
            ready.register(connection, selectors.EVENT_READ)
            connection.sendall(request)
        while sent_at:
            for key, _ in ready.select(WAIT_S):
                connection = key.fileobj  # type: ignore[assignment]
                reply = connection.recv(reply_bytes, socket.MSG_WAITALL)
                if len(reply) < reply_bytes or reply[-2:] != b"\0\0":
                    raise BrokerNotReady(f"a commit was answered with {reply[-2:].hex() or 'nothing'}")
                now = clock()
                latencies_s.append(now - sent_at.pop(connection))
                if now < ends:
                    sent_at[connection] = now
                    connection.sendall(requests[connection])
        return latencies_s, clock() - started
