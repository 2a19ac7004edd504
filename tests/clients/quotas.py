"""Setting quotas, and a client that produces as fast as its quota lets it: for tests on any broker."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.batches import encode_batch
from harness.conditions import wait_until
from harness.raw import CLIENT_ID, RawConnection

Entity = tuple[tuple[str, str | None], ...]
RAW: Entity = (("client-id", CLIENT_ID),)


def set_quotas(connection: RawConnection, entity: Entity, quotas: dict[str, float | None]) -> None:
    operations = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    body = {"entries": [{"entity": parts, "ops": operations}], "validate_only": False}
    (entry,) = connection.request(49, 1, body).entries
    assert entry.error_code == 0, entry


@contextmanager
def quotas_of(bootstrap: str, entity: Entity, **quotas: float) -> Iterator[None]:
    """These quotas in force (Apache Kafka's broker follows its controller a little later), and gone afterwards."""
    with RawConnection(bootstrap) as connection:
        set_quotas(connection, entity, dict(quotas))
        try:
            wait_until(lambda: described(connection, entity) == quotas, f"the quotas of {entity}")
            yield
        finally:
            set_quotas(connection, entity, dict.fromkeys(quotas))


def described(connection: RawConnection, entity: Entity) -> dict[str, float]:
    parts = [{"entity_type": kind, "match_type": 1 if name is None else 0, "match": name} for kind, name in entity]
    reply = connection.request(48, 1, {"components": parts, "strict": True})
    return {value.key: value.value for entry in reply.entries or () for value in entry.values}


def throttle_ms(reply: Any) -> int:
    return round(reply.throttle_time.total_seconds() * 1000)


def send_produce(connection: RawConnection, topic: str, size_bytes: int) -> int:
    """One Produce of about this size; how many bytes of request it really was."""
    partitions = [{"index": 0, "records": encode_batch([b"x" * size_bytes])}]
    body = {"acks": 1, "timeout": 30_000, "topic_data": [{"name": topic, "partition_data": partitions}]}
    connection.send(0, 9, body)
    return size_bytes + 150


def is_readable(connection: RawConnection) -> bool:
    readable, _, _ = select.select([connection.socket], [], [], 0)
    return bool(readable)


def address_of(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def open_socket(bootstrap: str) -> socket.socket:
    return socket.create_connection(address_of(bootstrap), 60)
