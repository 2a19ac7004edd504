"""Decompression under attack: bombs, lies and garbage cost bounded memory and end as Malformed."""

from __future__ import annotations

import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.wire.compression import Compression, compress, decompress
from runnel.wire.errors import Malformed

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
MEGABYTE = 1024 * 1024


def xerial(*blocks: bytes) -> bytes:
    """Snappy as Java's clients frame it."""
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for block in blocks:
        packed = bytes(cramjam.snappy.compress_raw(block))
        framed += struct.pack(">i", len(packed)) + packed
    return framed


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100, 65_536, 65_537, 3_000_000])
def test_round_trip_across_the_steps_of_the_output_buffer(codec: Compression, size: int) -> None:
    data = bytes(size)
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = compress(codec, bytes(500_000))
    assert len(decompress(codec, packed, 500_000)) == 500_000
    with pytest.raises(Malformed, match="beyond"):
        decompress(codec, packed, 499_999)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_gets_no_more_memory_than_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(100 * MEGABYTE))
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="beyond"):
            decompress(codec, bomb, MEGABYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * MEGABYTE + len(bomb)


def test_xerial_framing() -> None:
    assert decompress(Compression.SNAPPY, xerial(b"one", b"two" * 50_000)) == b"one" + b"two" * 50_000
    assert decompress(Compression.SNAPPY, xerial()) == b""


def test_xerial_blocks_share_one_limit() -> None:
    with pytest.raises(Malformed):
        decompress(Compression.SNAPPY, xerial(bytes(600), bytes(600)), 1_000)


@pytest.mark.parametrize(
    "data",
    [xerial(b"one")[:-1], xerial(b"one") + b"\0\0", xerial() + struct.pack(">i", -1),
     xerial() + struct.pack(">i", 2**31 - 1), xerial() + struct.pack(">i", 0)],
    ids=["cut", "cut header", "negative", "huge", "empty block"],
)  # fmt: skip
def test_broken_xerial_framing(data: bytes) -> None:
    with pytest.raises(Malformed):
        decompress(Compression.SNAPPY, data)


def test_a_snappy_length_that_its_bytes_cannot_hold_is_refused_before_allocating() -> None:
    claims_100_mb = b"\x80\x80\x80\x32" + b"\0a"
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="cannot hold"):
            decompress(Compression.SNAPPY, claims_100_mb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_the_densest_snappy_is_not_mistaken_for_a_lie() -> None:
    """Runs of one byte are what snappy packs best: 64 bytes into three."""
    data = bytes(5 * MEGABYTE)
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    with pytest.raises(Malformed):
        decompress(codec, b"anything")
    with pytest.raises(ValueError, match="does not exist"):
        compress(codec, b"anything")


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=100, deadline=None)
@given(garbage=st.binary(max_size=200), flip=st.tuples(st.integers(0, 199), st.integers(0, 255)))
def test_garbage_and_damage_are_malformed_or_data(codec: Compression, garbage: bytes, flip: tuple[int, int]) -> None:
    damaged = bytearray(compress(codec, b"some text, some text" * 20))
    damaged[flip[0] % len(damaged)] = flip[1]
    for data in (garbage, bytes(damaged), xerial()[:8] + garbage):
        try:
            assert len(decompress(codec, data, MEGABYTE)) <= MEGABYTE
        except Malformed:
            pass
