"""CRC-32C inside kernels: by the CPU's instruction where there is one, else by tables, eight bytes at a time.

In: an array and a range in it that the caller has checked. Out: the checksum of Kafka's record batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runnel.spark.compiling import kernel
from runnel.spark.memory import crc_step_u8, crc_step_u64, has_crc_instruction, load_u64

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, reversed."""


def _make_tables() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Table k holds the CRC of a byte that is followed by k zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for row in range(1, 8):
        before = tables[row - 1]
        tables[row] = tables[0][before & 255] ^ (before >> np.uint32(8))
    return tables


_TABLES = _make_tables()
_FLIP = np.uint32(0xFFFFFFFF)


@kernel
def crc32c_by_instruction(data: Any, start: int, end: int) -> Any:
    wide = np.uint64(_FLIP)
    at = start
    while at + 8 <= end:
        wide = crc_step_u64(wide, load_u64(data, at))
        at += 8
    crc = np.uint32(wide)
    while at < end:
        crc = crc_step_u8(crc, data[at])
        at += 1
    return crc ^ _FLIP


@kernel
def crc32c_by_tables(data: Any, start: int, end: int) -> Any:
    crc = _FLIP
    at = start
    while at + 8 <= end:
        word = load_u64(data, at) ^ np.uint64(crc)
        crc = np.uint32(0)
        for byte in range(8):
            crc ^= _TABLES[7 - byte, (word >> np.uint64(8 * byte)) & np.uint64(255)]
        at += 8
    while at < end:
        crc = _TABLES[0, (crc ^ data[at]) & np.uint32(255)] ^ (crc >> np.uint32(8))
        at += 1
    return crc ^ _FLIP


crc32c = crc32c_by_instruction if has_crc_instruction() else crc32c_by_tables
