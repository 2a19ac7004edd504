"""Run as a program: damaged batches through the kernels, with every index checked and a trap behind the buffer.

numba checks indices here (NUMBA_BOUNDSCHECK=1, set by the test that starts this). Copies and wide loads are not
indices: for those the bytes lie right before a page that nobody may touch, so that a step too far ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys

import numpy as np
import pyarrow as pa

from runnel.spark.decode.chunk import Chunk
from runnel.spark.decode.columns import TYPES, record_batch
from runnel.wire.batch import encode_batch
from runnel.wire.errors import Malformed

SCHEMA = pa.schema([pa.field(name, kind) for name, kind in TYPES.items()])
REGION_BYTES = 64 * mmap.PAGESIZE


class Trap:
    """Memory that ends with a page without any rights."""

    def __init__(self) -> None:
        self._region = mmap.mmap(-1, REGION_BYTES + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._region))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start + REGION_BYTES), ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, content: bytes) -> np.ndarray:
        self._region[REGION_BYTES - len(content) : REGION_BYTES] = content
        return np.frombuffer(self._region, np.uint8, len(content), REGION_BYTES - len(content))


def some_log(chance: random.Random) -> bytearray:
    log = bytearray()
    for number in range(chance.randint(1, 3)):
        records = [
            (
                chance.randint(-5, 10**12),
                chance.choice((None, chance.randbytes(chance.randint(0, 30)))),
                chance.choice((None, chance.randbytes(chance.randint(0, 300)))),
                [("h" * chance.randint(0, 4), chance.choice((None, b"v"))) for _ in range(chance.randint(0, 2))],
            )
            for _ in range(chance.randint(1, 8))
        ]
        log += encode_batch(records, base_offset=number * 10, compression=chance.choice((0, 0, 0, 1, 2, 3, 4)))
    return log


def damaged(log: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 6)):
        log[chance.randrange(len(log))] = chance.choice((0, 1, 127, 128, 255, chance.randint(0, 255)))
    return bytes(log[: chance.randint(1, len(log))] if chance.random() < 0.3 else log)


def main(seed: int, rounds: int) -> None:
    chance, trap = random.Random(seed), Trap()
    rows = refused = 0
    for _ in range(rounds):
        data = trap.place(damaged(some_log(chance), chance))
        try:
            for found in Chunk(data, check_crc=chance.random() < 0.1).rows("t", 0, -(2**62), 2**62):
                rows += record_batch(found, SCHEMA).num_rows
        except Malformed:
            refused += 1
    print(f"{rounds} logs, {refused} refused, {rows} rows")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
