"""Decompression of many batches into one buffer: of what a batch's records hold, nothing is kept beside it.

In: compressed records. Out: where in the buffer they now lie. The buffer grows as needed, and never beyond what the
caller allows for a single batch more.

Each codec has a quick way, which takes what clients write: one whole frame that inflates no further than is usual.
Whatever it does not take, be it odd, large or damaged, is left to `wire.compression`, which takes all that is valid
and says of the rest what is wrong. A quick way may refuse anything, but never take what the other would refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cramjam
import numpy as np
from isal import igzip_lib
from zstandard import ZstdDecompressor, ZstdError, frame_content_size, frame_header_size

from runnel.wire.compression import DECOMPRESSED_BYTES_MAX, Compression, decompress

RATIO_USUAL = 8
SPACE_BYTES_MIN = 64 << 10
KEPT_BYTES_MAX = 64 << 20

GZIP_FLAGS_AT, GZIP_FLAGS_RESERVED = 3, 0xE0
"""RFC 1952 wants a reserved flag refused; igzip does not look."""

# RFC 8878: magic, descriptor, ..., blocks of a 3-byte header each, and a checksum if the descriptor says so.
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_DESCRIPTOR_AT, ZSTD_CHECKSUM_BIT = 4, 0x04
ZSTD_CHECKSUM_BYTES = 4
ZSTD_BLOCK_HEADER_BYTES = 3
ZSTD_BLOCK_KIND_RLE = 1
ZSTD_BLOCK_BYTES_MAX = 128 << 10
ZSTD_WINDOW_BYTES_MAX = 8 << 20
"""What every decoder should have for a window, and what zstd's levels up to 19 want. The library keeps it allocated."""

Way = Callable[[memoryview, memoryview], int]
"""Inflates the first into the second, and answers how many bytes there are now, or REFUSED; or raises of REFUSALS."""
REFUSED = -1
REFUSALS: tuple[type[Exception], ...] = (
    cramjam.DecompressionError,
    igzip_lib.IsalError,  # type: ignore[assignment]  # its stub has an instance where the class is
    ZstdError,
)


class Inflater:
    """Give it batches one after the other, and `take` what has gathered: valid until the next is added.

    For one thread: zstd's decompressor is kept, since to make one takes two fifths of the time of a batch of 16 KiB.
    """

    def __init__(self) -> None:
        self._allocate(SPACE_BYTES_MIN)
        self.size = 0
        self._ways: dict[int, Way] = {
            Compression.GZIP: _gzip_into,
            # Java's framing is no snappy: its magic reads as a copy of what is not there, so this refuses it.
            Compression.SNAPPY: cramjam.snappy.decompress_raw_into,
            Compression.LZ4: cramjam.lz4.decompress_into,
            Compression.ZSTD: partial(_zstd_into, ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)),
        }

    def take(self) -> Any:
        """All that was added; read-only, as kernels like it."""
        content = self._buffer[: self.size]
        content.flags.writeable = False
        self.size = 0
        if len(self._buffer) > KEPT_BYTES_MAX:
            self._allocate(SPACE_BYTES_MIN)
        return content

    def add(self, codec: int, packed: memoryview) -> tuple[int, int]:
        """Where the records lie now; Malformed if they do not decompress, or to more than any batch may hold."""
        start = self.size
        written = self._inflate(codec, packed)
        if written == REFUSED:
            content = decompress(codec, packed)
            written = _put(content, self._room(len(content)))
        self.size += written
        return start, self.size

    def _inflate(self, codec: int, packed: memoryview) -> int:
        way = self._ways.get(codec)
        if way is None:
            return REFUSED
        space = max(SPACE_BYTES_MIN, RATIO_USUAL * len(packed))
        try:
            return way(packed, self._room(min(space, DECOMPRESSED_BYTES_MAX)))
        except REFUSALS:
            return REFUSED

    def _room(self, space: int) -> memoryview:
        """So many bytes behind what is there already."""
        if len(self._buffer) - self.size < space:
            gathered = self._buffer[: self.size]
            self._allocate(2 * (self.size + space))
            self._buffer[: self.size] = gathered
        return self._view[self.size : self.size + space]

    def _allocate(self, size: int) -> None:
        buffer: Any = np.empty(size, np.uint8)
        self._buffer, self._view = buffer, memoryview(buffer)


def _put(content: bytes, room: memoryview) -> int:
    room[: len(content)] = content
    return len(content)


def _gzip_into(packed: memoryview, room: memoryview) -> int:
    stream = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    content = stream.decompress(packed, len(room))
    if not stream.eof or stream.unused_data or packed[GZIP_FLAGS_AT] & GZIP_FLAGS_RESERVED:
        return REFUSED
    return _put(content, room)


def _zstd_into(decompressor: ZstdDecompressor, packed: memoryview, room: memoryview) -> int:
    # The library allocates what a frame says that it holds, and does not always say when another one follows.
    limit = min(_zstd_bytes_max(packed), len(room))
    if limit <= 0 or frame_content_size(packed) > limit:
        return REFUSED
    return _put(decompressor.decompress(packed, limit), room)


def _zstd_bytes_max(packed: memoryview) -> int:
    """What a frame can hold by the number of its blocks; REFUSED where `packed` is not exactly one whole frame."""
    if packed[: len(ZSTD_MAGIC)] != ZSTD_MAGIC:
        return REFUSED
    at, blocks, is_last = frame_header_size(packed), 0, 0
    while not is_last and at < len(packed):
        header = int.from_bytes(packed[at : at + ZSTD_BLOCK_HEADER_BYTES], "little")
        is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
        at += ZSTD_BLOCK_HEADER_BYTES + (1 if kind == ZSTD_BLOCK_KIND_RLE else size)
        blocks += 1
    if packed[ZSTD_DESCRIPTOR_AT] & ZSTD_CHECKSUM_BIT:
        at += ZSTD_CHECKSUM_BYTES
    return blocks * ZSTD_BLOCK_BYTES_MAX if is_last and at == len(packed) else REFUSED
