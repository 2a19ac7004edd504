"""One face for every Python client under test: produce, read, join groups, administer.

Each driver turns these calls into its client's own API, with nothing of ours in between. `CLIENTS` names them all.
A call that a client does not have is missing from its driver; `compat.absent` says so with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]

CLIENTS = ("confluent", "aiokafka", "kafka-python")


NOT_KAFKAS = -2  # the error code of what is no error of the broker's (-1 is the broker's "unknown")


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
    topic: str
    partition: int


class Committed(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str


class Reader(Protocol):
    """A consumer that is used by hand: assigned, or a member of a group. Places are partitions of its one topic."""

    rebalances: int  # how often it was given partitions
    revoked: set[int]  # what it had to give up at any time

    def poll(self) -> list[Received]:
        """What is there, after a short wait."""

    def assigned(self) -> set[tuple[str, int]]:
        """Topic and partition of everything it holds."""

    def seek(self, partition: int, place: int | str) -> None:
        """To an offset, "earliest" or "latest"."""

    def position(self, partition: int) -> int:
        """The offset of the record that comes next."""

    def pause(self, partition: int) -> None: ...

    def resume(self, partition: int) -> None: ...

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Returns when the broker has them."""

    def committed(self, partition: int) -> Committed | None: ...

    def close(self) -> None: ...


class Driver(Protocol):
    """Offsets are ints; `start` is an offset, "earliest" or "latest"."""

    name: str
    codes_unknown: ClassVar[dict[int, int]]  # codes that the client shows as another
    admin: Any  # one of the *_admin modules' classes; their methods have the same names and answers

    def __init__(self, bootstrap: str) -> None: ...

    def produce(self, topic: str, messages: Sequence[Sent], **options: Any) -> list[int]:
        """Offsets in the order of the messages (empty where the client cannot tell). Options: acks (0, 1, "all"),
        compression, idempotent, request_bytes_max, batch_bytes, linger_ms, client_id, bootstrap. Raises what the
        client raises when the broker refuses."""

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int | str = "earliest") -> list[Received]:
        """Exactly `count` records of one partition."""

    def reader(self, topic: str, partitions: int = 1, *, reset: str = "earliest") -> Reader:
        """Holds the first partitions of the topic; `reset` applies where an offset is out of range."""

    def member(self, group: str, topic: str, **options: Any) -> Reader:
        """Reads from the earliest record. Options: strategy ("eager", "cooperative", "consumer" for KIP-848),
        instance (static membership), auto_commit, client_id, pattern (the topic is a regular expression)."""

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """(log start offset, high watermark)."""

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset at or after the time, or None."""

    def partition_count(self, topic: str) -> int:
        """As the client sees it in the metadata (may create the topic)."""

    def throttle_ms(self, topic: str, messages: Sequence[Sent], client_id: str) -> float:
        """Produce, and the longest time that the broker told this producer to wait."""

    def error_code(self, error: BaseException) -> int:
        """Kafka's number for what the client raised."""

    def close(self) -> None: ...


_MODULES = {
    "confluent": "clients.drivers.confluent_driver",
    "aiokafka": "clients.drivers.aiokafka_driver",
    "kafka-python": "clients.drivers.kafka_python_driver",
}


def load_driver(name: str, bootstrap: str) -> Driver:
    driver: Driver = importlib.import_module(_MODULES[name]).DRIVER(bootstrap)
    return driver
