"""What the broker's log says of a scenario, asked from outside of the client: codecs, batches, producer ids.

In: the broker's address and the topic of a scenario. Out: nothing, or an AssertionError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from clients.protocol.calls import fetch
from harness.batches import CODECS
from harness.raw import RawConnection

HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC_BITS = 0x07
BATCHES_MAX = 200
RECORDS_BATCHED = 2000


class BatchSeen(NamedTuple):
    """What the header of one batch says."""

    codec: int
    producer_id: int
    sequence: int
    records: int


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
        position += 12 + length
        if position > len(data):
            return
        yield BatchSeen(attributes & CODEC_BITS, producer_id, sequence, records), base_offset + last_delta + 1


def _has_codec(codec: str) -> Callable[[list[BatchSeen]], None]:
    def check(found: list[BatchSeen]) -> None:
        codecs = {batch.codec for batch in found}
        if codecs != {CODECS[codec]}:
            raise AssertionError(f"from outside: codecs {sorted(codecs)}, not {CODECS[codec]} ({codec})")

    return check


def _is_idempotent(found: list[BatchSeen]) -> None:
    expected: dict[int, int] = {}
    for batch in found:
        if batch.producer_id < 0 or batch.sequence != expected.get(batch.producer_id, 0):
            raise AssertionError(f"from outside: {batch} is out of sequence")
        expected[batch.producer_id] = batch.sequence + batch.records


def _is_batched(found: list[BatchSeen]) -> None:
    records = sum(batch.records for batch in found)
    if records != RECORDS_BATCHED or len(found) > BATCHES_MAX:
        raise AssertionError(f"from outside: {records} records in {len(found)} batches")


CHECKS: dict[str, Callable[[list[BatchSeen]], None]] = {
    **{codec: _has_codec(codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "idempotent": _is_idempotent,
    "batching": _is_batched,
}


def check(bootstrap: str, feature: str, topic: str) -> None:
    """Raises where the log of a scenario that went well is not as it should be."""
    if feature in CHECKS:
        CHECKS[feature](batches(bootstrap, topic))
