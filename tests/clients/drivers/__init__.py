"""One face for every client under test: produce, consume from a place, ask for offsets.

Each driver turns these calls into its client's own API, with nothing of ours in between. `CLIENTS` names them all.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]

CLIENTS = ("confluent", "aiokafka", "kafka-python", "kcat")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sent(NamedTuple):
    """What a producer is asked to send."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int = 0


class Received(NamedTuple):
    """What a consumer was given."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int
    is_log_append_time: bool | None  # None where the client does not say


class Unsupported(Exception):
    """This client has no such feature; the test skips and says so."""


class Driver(Protocol):
    """Offsets are ints; `start` is an offset, "earliest" or "latest"."""

    name: str

    def __init__(self, bootstrap: str) -> None: ...

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        """Offsets in the order of the messages (empty where the client cannot tell). Options: acks (0, 1, "all"),
        compression, idempotent, request_bytes_max, batch_bytes, bootstrap. Raises what the client
        raises when the broker refuses."""

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        """Exactly `count` records of one partition."""

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """(log start offset, high watermark)."""

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset at or after the time, or None."""

    def partition_count(self, topic: str) -> int:
        """As the client sees it in the metadata (may create the topic)."""


_MODULES = {
    "confluent": "clients.drivers.confluent_driver",
    "aiokafka": "clients.drivers.aiokafka_driver",
    "kafka-python": "clients.drivers.kafka_python_driver",
    "kcat": "clients.drivers.kcat_driver",
}


def load_driver(name: str, bootstrap: str) -> Driver:
    driver: Driver = importlib.import_module(_MODULES[name]).DRIVER(bootstrap)
    return driver
