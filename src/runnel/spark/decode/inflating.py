"""Decompression of many batches into one buffer: no allocation and no copy for each.

In: compressed records. Out: where in the buffer they now lie. The buffer grows as needed, and never beyond what the
caller allows for a single batch more.
"""

from __future__ import annotations

from typing import Any

import cramjam
import numpy as np

from runnel.wire.compression import (
    DECOMPRESS_INTO,
    DECOMPRESSED_BYTES_MAX,
    OUTPUT_FULL,
    XERIAL_MAGIC,
    Compression,
    decompress,
    snappy_block_size,
)
from runnel.wire.errors import Malformed

RATIO_GUESS = 4
SPACE_BYTES_MIN = 64 << 10
KEPT_BYTES_MAX = 64 << 20


class Inflater:
    """Give it batches one after the other, and `take` what has gathered: valid until the next is added."""

    def __init__(self) -> None:
        self._buffer: Any = np.empty(SPACE_BYTES_MIN, np.uint8)
        self.size = 0

    def take(self) -> Any:
        """All that was added; read-only, as kernels like it."""
        content = self._buffer[: self.size]
        content.flags.writeable = False
        self.size = 0
        if len(self._buffer) > KEPT_BYTES_MAX:
            self._buffer = np.empty(SPACE_BYTES_MIN, np.uint8)
        return content

    def add(self, codec: int, packed: memoryview) -> tuple[int, int]:
        """Where the records lie now; Malformed if they do not decompress, or to more than any batch may hold."""
        start = self.size
        if codec in DECOMPRESS_INTO:
            self.size += self._inflate(Compression(codec), packed)
        elif codec == Compression.SNAPPY and bytes(packed[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
            room = self._room(snappy_block_size(packed))
            try:
                self.size += cramjam.snappy.decompress_raw_into(packed, room)
            except cramjam.DecompressionError as error:
                raise Malformed(f"snappy data does not decompress: {error}") from error
        else:
            content = decompress(codec, packed)
            self._room(len(content))[:] = np.frombuffer(content, np.uint8)
            self.size += len(content)
        return start, self.size

    def _inflate(self, codec: Compression, packed: memoryview) -> int:
        """These codecs do not say how much they hold: the room is doubled until it is enough."""
        space = max(SPACE_BYTES_MIN, RATIO_GUESS * len(packed))
        while True:
            try:
                written: int = DECOMPRESS_INTO[codec](packed, self._room(min(space, DECOMPRESSED_BYTES_MAX)))
                return written
            except cramjam.DecompressionError as error:
                if OUTPUT_FULL not in str(error):
                    raise Malformed(f"{codec.name.lower()} data does not decompress: {error}") from error
                if space >= DECOMPRESSED_BYTES_MAX:
                    raise Malformed(f"a batch inflates beyond {DECOMPRESSED_BYTES_MAX} bytes") from error
                space *= 2

    def _room(self, space: int) -> Any:
        """So many bytes behind what is there already."""
        if len(self._buffer) - self.size < space:
            grown = np.empty(2 * (self.size + space), np.uint8)
            grown[: self.size] = self._buffer[: self.size]
            self._buffer = grown
        return self._buffer[self.size : self.size + space]
