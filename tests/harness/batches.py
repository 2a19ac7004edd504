"""Record batches built by kafka-python's encoder, for raw Produce requests. Independent of runnel.wire on purpose."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from typing import Any

with warnings.catch_warnings():
    # Warnings are errors here, but not those that kafka-python causes while it imports itself.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CRC_POSITION = 17
HEADER_BYTES = 61


def encode_batch(
    values: Sequence[bytes | None],
    *,
    key: bytes | None = None,
    timestamp_ms: int = 1_700_000_000_000,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One magic-2 batch; record i has timestamp `timestamp_ms + i`."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[compression],
        is_transactional=False,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=2**31 - 1,
    )
    for index, value in enumerate(values):
        builder.append(index, timestamp=timestamp_ms + index, key=key, value=value, headers=[])
    return bytes(builder.build())


def corrupt(batch: bytes) -> bytes:
    """The same batch with its last byte flipped, so that the CRC no longer holds."""
    return batch[:-1] + bytes([batch[-1] ^ 0xFF])


def decode_values(records: bytes | None) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record of every whole batch."""
    return [(record.offset, record.value) for record in decode(records)]


def decode(records: bytes | None) -> list[Any]:
    found: list[Any] = []
    memory = MemoryRecords(bytes(records or b""))
    while memory.has_next():
        batch = memory.next_batch()
        if not batch.validate_crc():
            raise AssertionError(f"the broker served a batch with a bad CRC at offset {batch.base_offset}")
        found.extend(batch)
    return found


def base_offset(batch: bytes) -> int:
    offset: int = struct.unpack_from(">q", batch)[0]
    return offset
