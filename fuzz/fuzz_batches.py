"""Any bytes as record batches: headers, CRC, records of every codec. They decode, or raise Malformed; bombs stay small.

In: the records of one Produce request, or of a segment.
"""

from __future__ import annotations

import struct

import crc32c

from runnel.wire.batch import HEADER_BYTES, assign, check_crc, decode_records, iterate_headers, read_header
from runnel.wire.errors import Malformed

DECOMPRESSED_BYTES_MAX = 4 << 20
CRC_POSITION, CRC_START = 17, 21


def check_batches(data: bytes) -> None:
    """The target: once as it is, and once with a CRC that fits, so that the fuzzer gets past it."""
    check_once(data)
    check_once(resealed(data))


def resealed(data: bytes) -> bytes:
    if len(data) < HEADER_BYTES:
        return data
    batch = bytearray(data)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, CRC_POSITION, crc32c.crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)


def check_once(data: bytes) -> None:
    try:
        check_crc(data, 0, read_header(data))
        check_order(data)
        assign(bytearray(data), 0, 7, 1)
    except Malformed:
        return


def check_order(data: bytes) -> None:
    """Batches lie one behind the other, inside the data."""
    end = 0
    for position, found in iterate_headers(data):
        if position < end or position + found.size_bytes > len(data):
            raise RuntimeError(f"a batch at {position} of {found.size_bytes} bytes in {len(data)}")
        end = position + found.size_bytes
        check_records(data, position)


def check_records(data: bytes, position: int) -> None:
    try:
        records = decode_records(data, position, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    except Malformed:
        return
    if len(records) != read_header(data, position).record_count:
        raise RuntimeError("not as many records as the header says")
