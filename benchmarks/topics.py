"""Owns preparing and checking topics on a broker: create, delete, count what arrived. Any Kafka broker.

Over a bare socket that is open only during a call: a client library would leave threads and connections
behind that disturb the measurement.
"""

from __future__ import annotations

import struct
import time

from benchmarks.clients import bare_socket
from benchmarks.clients.bare_socket import BrokerNotReady, encode_string, exchange, frame, skip_string

ADMIN_TIMEOUT_S = 180
RETRY_S = 0.02
LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS = 2, 19, 20
LATEST = -1


class TopicFailed(Exception):
    """The broker refused to create or delete a topic."""


class Topics:
    """Admin calls to one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """Create a topic and return when every partition has a leader that takes requests."""
        body = struct.pack(">i", 1) + encode_string(name) + struct.pack(">ihi", partitions, 1, 0)
        body += struct.pack(">i", len(config or {}))
        for key, value in (config or {}).items():
            body += encode_string(key) + encode_string(value)
        body += struct.pack(">i?", ADMIN_TIMEOUT_S * 1000, False)
        reply = self._call(frame(CREATE_TOPICS, 2, body))
        _check_topic_error(reply, 8, f"create {name}")
        self._wait_for_leaders(name, partitions)

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        deadline = time.monotonic() + ADMIN_TIMEOUT_S
        while True:
            try:
                self.record_count(name, partitions)
                return
            except BrokerNotReady as problem:
                if time.monotonic() > deadline:
                    raise TopicFailed(f"{name} has no leaders: {problem}") from problem
                time.sleep(RETRY_S)

    def delete(self, name: str) -> None:
        body = struct.pack(">i", 1) + encode_string(name) + struct.pack(">i", ADMIN_TIMEOUT_S * 1000)
        _check_topic_error(self._call(frame(DELETE_TOPICS, 1, body)), 8, f"delete {name}")

    def record_count(self, name: str, partitions: int) -> int:
        """Records in the topic by its end offsets (nothing here ever deletes from the front)."""
        body = struct.pack(">ii", -1, 1) + encode_string(name) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iq", index, LATEST) for index in range(partitions))
        reply = self._call(frame(LIST_OFFSETS, 1, body))
        position = skip_string(reply, 4) + 4
        total = 0
        for _, error, _, offset in struct.iter_unpack(">ihqq", reply[position : position + partitions * 22]):
            if error != 0:
                raise BrokerNotReady(f"list offsets error {error}")
            total += offset
        return total

    def _call(self, request: bytes) -> bytes:
        with bare_socket.connect(self._bootstrap, ADMIN_TIMEOUT_S) as connection:
            return exchange(connection, request)


def _check_topic_error(reply: bytes, position: int, what: str) -> None:
    """The reply holds one topic: its name, then its error code."""
    (error,) = struct.unpack_from(">h", reply, skip_string(reply, position))
    if error != 0:
        raise TopicFailed(f"{what}: the broker answered error {error}")
