"""Decompression for the Spark source: whatever the quick ways take or leave, the result is that of wire.compression."""

from __future__ import annotations

import gzip
import resource
import struct
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runnel.spark.decode import inflating
from runnel.spark.decode.inflating import Inflater
from runnel.wire.compression import Compression, compress, decompress
from runnel.wire.errors import Malformed

CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
WORDS = b"records of a topic, " * 40
ZEROS = bytes(3 << 20)
GZIPPED = gzip.compress(WORDS, mtime=0)
ZSTD_SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0skip"


def streamed(content: bytes, *, checksum: bool = False, window: int = 0) -> bytes:
    """zstd as Java's client and librdkafka write it: a frame that does not say how much it holds."""
    parameters = zstandard.ZstdCompressionParameters(write_checksum=checksum, window_log=window)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return compressor.compress(content[:1]) + compressor.compress(content[1:]) + compressor.flush()


def sized(content: bytes, *, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(content)


def claiming(size: int) -> bytes:
    """A zstd frame of one small raw block whose header states another size."""
    return inflating.ZSTD_MAGIC + b"\xa0" + struct.pack("<I", size) + (1 | 4 << 3).to_bytes(3, "little") + b"abcd"


def with_gzip_header(flags: int, extra: bytes = b"") -> bytes:
    return GZIPPED[:3] + bytes((flags,)) + GZIPPED[4:10] + extra + GZIPPED[10:]


def header_checksum(packed: bytes) -> bytes:
    return struct.pack("<H", zlib.crc32(packed[:10]) & 0xFFFF)


def flipped(packed: bytes, at: int) -> bytes:
    changed = bytearray(packed)
    changed[at] ^= 1
    return bytes(changed)


def xerial(*blocks: bytes) -> bytes:
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


SNAPPED = bytes(cramjam.snappy.compress_raw(WORDS))
SHAPES: dict[str, tuple[int, bytes]] = {
    "gzip": (1, GZIPPED),
    "gzip of nothing": (1, gzip.compress(b"")),
    "gzip, far more than usual": (1, gzip.compress(ZEROS)),
    "gzip, several members": (1, GZIPPED + gzip.compress(b"more") + GZIPPED),
    "gzip, the same member twice": (1, GZIPPED * 2),
    "gzip, a member of nothing first": (1, gzip.compress(b"") + GZIPPED),
    "gzip with a name": (1, with_gzip_header(8, b"name\0")),
    "gzip with an extra field": (1, with_gzip_header(4, b"\3\0abc")),
    "gzip with a checksum of its header": (1, with_gzip_header(2, header_checksum(with_gzip_header(2)))),
    "gzip with a wrong checksum of its header": (1, with_gzip_header(2, b"zz")),
    "gzip with a reserved flag": (1, with_gzip_header(0x20)),
    "gzip with a wrong checksum": (1, flipped(GZIPPED, -6)),
    "gzip with a wrong size": (1, flipped(GZIPPED, -2)),
    "gzip that says one byte more or less": (1, flipped(GZIPPED, -4)),
    "gzip that says another size, and is of two members": (1, GZIPPED + gzip.compress(WORDS[1:], mtime=0)),
    "gzip followed by noise": (1, GZIPPED + b"noise"),
    "gzip followed by zeros": (1, GZIPPED + bytes(20)),
    "gzip followed by its trailer": (1, GZIPPED + GZIPPED[-8:]),
    "zlib for gzip": (1, zlib.compress(WORDS)),
    "snappy": (2, SNAPPED),
    "snappy of nothing": (2, bytes(cramjam.snappy.compress_raw(b""))),
    "snappy, far more than usual": (2, bytes(cramjam.snappy.compress_raw(ZEROS))),
    "snappy in Java's framing": (2, xerial(SNAPPED, SNAPPED)),
    "snappy in Java's framing, nothing in it": (2, xerial()),
    "snappy in Java's framing, cut off": (2, xerial(SNAPPED)[:-1]),
    "snappy that claims too much": (2, b"\xff\xff\xff\x3f" + SNAPPED[2:]),
    "snappy followed by noise": (2, SNAPPED + b"noise"),
    "lz4": (3, compress(3, WORDS)),
    "lz4 of nothing": (3, compress(3, b"")),
    "lz4 that says its size": (3, lz4.frame.compress(WORDS, store_size=True)),
    "lz4, far more than usual": (3, compress(3, ZEROS)),
    "lz4, several frames": (3, compress(3, WORDS) + compress(3, b"more")),
    "lz4 with a wrong checksum": (3, flipped(compress(3, WORDS), -1)),
    "lz4 followed by noise": (3, compress(3, WORDS) + b"noise"),
    "zstd": (4, sized(WORDS)),
    "zstd of nothing": (4, sized(b"")),
    "zstd, far more than usual": (4, sized(ZEROS)),
    "zstd with a checksum": (4, sized(WORDS, checksum=True)),
    "zstd with a wrong checksum": (4, flipped(sized(WORDS, checksum=True), -1)),
    "zstd without its checksum": (4, sized(WORDS, checksum=True)[:-4]),
    "zstd without its size": (4, streamed(WORDS)),
    "zstd without its size, several blocks": (4, streamed(bytes(range(256)) * 2000)),
    "zstd without its size, far more than usual": (4, streamed(ZEROS)),
    "zstd without its size, wrong checksum": (4, flipped(streamed(WORDS, checksum=True), -1)),
    "zstd with a large window": (4, streamed(WORDS, window=27)),
    "zstd, several frames": (4, sized(WORDS) + sized(b"more")),
    "zstd, several frames without size": (4, streamed(WORDS) + streamed(b"more")),
    "zstd, a frame of nothing first": (4, sized(b"") + sized(WORDS)),
    "zstd, something to skip": (4, ZSTD_SKIPPABLE),
    "zstd behind something to skip": (4, ZSTD_SKIPPABLE + streamed(WORDS)),
    "zstd before something to skip": (4, streamed(WORDS) + ZSTD_SKIPPABLE),
    "zstd followed by noise": (4, sized(WORDS) + b"noise"),
    "zstd without its size followed by noise": (4, streamed(WORDS) + b"noise"),
    "zstd of nothing followed by noise": (4, sized(b"") + b"noise"),
    "zstd that claims too much": (4, claiming(100 << 20)),
    "zstd that claims more than is allowed": (4, claiming(3 << 30)),
    "zstd that claims too little": (4, claiming(3)),
    "zstd that claims what it holds": (4, claiming(4)),
    "not compressed": (0, WORDS),
    "a codec that does not exist": (5, WORDS),
}


def result_of(inflate: Callable[[int, bytes], bytes], codec: int, packed: bytes) -> bytes | str:
    try:
        return inflate(codec, packed)
    except Malformed as error:
        return str(error)


def inflated(codec: int, packed: bytes) -> bytes:
    """Behind another batch, as most are."""
    inflater = Inflater()
    inflater.add(Compression.LZ4, memoryview(compress(3, b"before")))
    start, end = inflater.add(codec, memoryview(packed))
    content = bytes(inflater.take())
    assert (content[:start], end) == (b"before", len(content))
    return content[start:]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_bytes_or_the_error_of_wire(shape: str) -> None:
    assert result_of(inflated, *SHAPES[shape]) == result_of(decompress, *SHAPES[shape])


@pytest.mark.parametrize("shape", [shape for shape, (codec, _) in SHAPES.items() if codec])
def test_so_does_every_shape_that_is_cut_off(shape: str) -> None:
    codec, packed = SHAPES[shape]
    for end in {*range(min(len(packed), 40)), *range(max(0, len(packed) - 20), len(packed))}:
        assert result_of(inflated, codec, packed[:end]) == result_of(decompress, codec, packed[:end]), end


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(list(SHAPES)), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1))
@example("gzip", [(3, 0xE0)])
def test_and_every_shape_that_is_damaged(shape: str, changes: list[tuple[int, int]]) -> None:
    codec, packed = SHAPES[shape]
    damaged = bytearray(packed)
    for at, byte in changes[:4]:
        damaged[at % len(damaged)] = byte
    assert result_of(inflated, codec, bytes(damaged)) == result_of(decompress, codec, bytes(damaged))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CODECS), st.binary(max_size=3000), st.integers(1, 100)), max_size=10))
def test_batches_lie_behind_each_other(parts: list[tuple[int, bytes, int]]) -> None:
    inflater = Inflater()
    for _ in range(2):
        spans = [inflater.add(codec, memoryview(compress(codec, content * times))) for codec, content, times in parts]
        taken = bytes(inflater.take())
        assert [taken[start:end] for start, end in spans] == [content * times for _, content, times in parts]


@pytest.mark.parametrize("packed", [sized(WORDS), streamed(WORDS), GZIPPED, SNAPPED, compress(3, WORDS)])
def test_what_clients_write_goes_the_quick_way(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(inflating, "decompress")
    codec = {b"\x28": 4, b"\x1f": 1, b"\x04": 3}.get(packed[:1], 2)
    assert Inflater().add(codec, memoryview(packed)) == (0, len(WORDS))


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_malformed(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflating, "DECOMPRESSED_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(inflating, "decompress", lambda codec, packed: decompress(codec, packed, 1 << 20))
    with pytest.raises(Malformed, match="beyond"):
        inflated(codec, compress(codec, ZEROS))


def test_a_claim_alone_takes_no_memory() -> None:
    """A buffer as large as claimed would be touched by nobody, but a limit on the address space sees it."""
    inflater = Inflater()
    inflater.add(Compression.ZSTD, memoryview(streamed(WORDS)))
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (64 << 20), before[1]))
    try:
        with pytest.raises(Malformed):
            inflater.add(Compression.ZSTD, memoryview(claiming(120 << 20)))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
