"""What the broker's log says of a scenario, asked from outside of the client: codecs, batches, producer ids; and
whether another client's decoder reads what this one wrote.

In: the broker's address and the topic of a scenario. Out: nothing, or an AssertionError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from clients.protocol.calls import fetch
from compat.python import numbered
from harness.batches import CODECS, decode
from harness.raw import RawConnection

HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC_BITS = 0x07
BATCHES_MAX = 200
RECORDS_BATCHED = 2000


class BatchSeen(NamedTuple):
    """What the header of one batch says, and the bytes of it all."""

    codec: int
    producer_id: int
    sequence: int
    records: int
    data: bytes


def batches(bootstrap: str, topic: str) -> list[BatchSeen]:
    """Every batch of partition 0."""
    found: list[BatchSeen] = []
    with RawConnection(bootstrap) as connection:
        offset = 0
        while True:
            answer = fetch(connection, topic, offset)
            for seen, end in _headers(bytes(answer.records or b"")):
                found.append(seen)
                offset = end
            if offset >= answer.high_watermark:
                return found


def _headers(data: bytes) -> Iterator[tuple[BatchSeen, int]]:
    """Each whole batch and the offset that follows it."""
    position = 0
    while position + HEADER.size <= len(data):
        header = HEADER.unpack_from(data, position)
        base_offset, length = header[0], header[1]
        attributes, last_delta, producer_id, sequence, records = header[5], header[6], header[9], header[11], header[12]
        start, position = position, position + 12 + length
        if position > len(data):
            return
        batch = BatchSeen(attributes & CODEC_BITS, producer_id, sequence, records, data[start:position])
        yield batch, base_offset + last_delta + 1


def _has_codec(codec: str) -> Callable[[list[BatchSeen]], None]:
    def check(found: list[BatchSeen]) -> None:
        codecs = {batch.codec for batch in found}
        if codecs != {CODECS[codec]}:
            raise AssertionError(f"from outside: codecs {sorted(codecs)}, not {CODECS[codec]} ({codec})")
        _is_numbered(found)

    return check


def _is_numbered(found: list[BatchSeen]) -> None:
    """kafka-python's decoder gives the records that every column sends."""
    records = decode(b"".join(batch.data for batch in found))
    rows = [(record.offset, record.key, record.value) for record in records]
    expected = [(index, sent.key, sent.value) for index, sent in enumerate(numbered(len(rows)))]
    if not rows or rows != expected:
        raise AssertionError(f"from outside: {len(rows)} records, and not those that were sent")


def _is_idempotent(found: list[BatchSeen]) -> None:
    expected: dict[int, int] = {}
    for batch in found:
        if batch.producer_id < 0 or batch.sequence != expected.get(batch.producer_id, 0):
            raise AssertionError(f"from outside: {batch[:-1]} is out of sequence")
        expected[batch.producer_id] = batch.sequence + batch.records


def _is_batched(found: list[BatchSeen]) -> None:
    records = sum(batch.records for batch in found)
    if records != RECORDS_BATCHED or len(found) > BATCHES_MAX:
        raise AssertionError(f"from outside: {records} records in {len(found)} batches")


CHECKS: dict[str, Callable[[list[BatchSeen]], None]] = {
    "round-trip": _is_numbered,
    **{codec: _has_codec(codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "idempotent": _is_idempotent,
    "batching": _is_batched,
}


def check(bootstrap: str, feature: str, topic: str) -> None:
    """Raises where the log of a scenario that went well is not as it should be."""
    if feature in CHECKS:
        CHECKS[feature](batches(bootstrap, topic))
