"""The four codecs of record batches, with a hard limit on what decompression may produce.

In: compressed bytes; out: the bytes inside, or `Malformed`. A decompression bomb never gets more memory
than the limit: the output buffer is allocated by us, grows in steps, and the codec fails when it is full.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import cramjam

from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024

_OUTPUT_BYTES_FIRST = 64 * 1024
_OUTPUT_GROWTH = 4
OUTPUT_FULL = "failed to write whole buffer"
"""How cramjam says that the output is full (tests pin it); any other failure means corrupt input."""

# Java clients wrap snappy into the xerial library's framing: this magic, two versions, then sized blocks.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_BLOCK_SIZE = Struct(">i")
# A snappy copy turns three bytes into at most 64, so a longer claim is a lie made to provoke an allocation.
_SNAPPY_RATIO_MAX = 22
_SNAPPY_SLACK_BYTES = 64

DECOMPRESS_INTO = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def decompress(codec: int, data: ReadBuffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The bytes inside `data`, which must be whole and may not inflate beyond `bytes_max`."""
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(bytes(data), bytes_max)
    if codec not in DECOMPRESS_INTO:
        raise Malformed(f"compression codec {codec} does not exist")
    return _decompress_growing(Compression(codec), bytes(data), bytes_max)


def _decompress_growing(codec: Compression, data: bytes, bytes_max: int) -> bytes:
    decompress_into = DECOMPRESS_INTO[codec]
    size = min(bytes_max, max(_OUTPUT_BYTES_FIRST, _OUTPUT_GROWTH * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if OUTPUT_FULL not in str(error):
                raise Malformed(f"{codec.name.lower()} data does not decompress: {error}") from error
            if size >= bytes_max:
                raise Malformed(f"{codec.name.lower()} data inflates beyond {bytes_max} bytes") from error
            size = min(bytes_max, size * _OUTPUT_GROWTH)
            continue
        return bytes(memoryview(output)[:written])


def _decompress_snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(data, bytes_max)
    blocks: list[bytes] = []
    position, end = _XERIAL_HEADER_BYTES, len(data)
    while position < end:
        if end - position < _BLOCK_SIZE.size:
            raise Malformed("a snappy block header is cut short")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if size <= 0 or size > end - position:
            raise Malformed(f"a snappy block claims {size} of {end - position} bytes")
        blocks.append(_decompress_snappy_block(data[position : position + size], bytes_max))
        bytes_max -= len(blocks[-1])
        position += size
    return b"".join(blocks)


def _decompress_snappy_block(block: bytes, bytes_max: int) -> bytes:
    snappy_block_size(block, bytes_max)
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise Malformed(f"snappy data does not decompress: {error}") from error


def snappy_block_size(block: ReadBuffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> int:
    """How many bytes a block says it holds, if that is possible and allowed."""
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise Malformed(f"snappy data does not decompress: {error}") from error
    if size > bytes_max:
        raise Malformed("snappy data inflates beyond its limit")
    if size > _SNAPPY_RATIO_MAX * len(block) + _SNAPPY_SLACK_BYTES:
        raise Malformed(f"{len(block)} bytes of snappy data cannot hold {size} bytes")
    return size


def compress(codec: int, data: ReadBuffer) -> bytes:
    """`data` compressed so that every Kafka client can read it."""
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec == Compression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == Compression.LZ4:
        # Kafka's Java reader refuses frames whose blocks depend on each other. Level 1 is lz4 as Kafka's clients use
        # it: cramjam's own default compresses a fifth better, five times slower.
        compressor = cramjam.lz4.Compressor(level=1, block_linked=False)
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    if codec == Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"compression codec {codec} does not exist")
