"""Record batches that lie: bombs, wrong counts, wrong lengths. They are refused, or stored and harmless."""

from __future__ import annotations

import gzip
import os
import random
import struct
import zlib
from collections.abc import Callable

import crc32c
import lz4.frame
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clients.protocol.calls import fetch, list_offset, produce, produce_body
from harness.batches import HEADER_BYTES, decode_values, encode_batch
from hostile.victim import MEGABYTE, Victim

SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
BASE_MS = 1_700_000_000_000
BOMB_BYTES = 1024 * MEGABYTE
# The broker opens a batch only to look up a time in it, with a cap of its own (128 MB) on what comes out.
GROWTH_BYTES_MAX = 300 * MEGABYTE
BOUNDED = settings(
    max_examples=150,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def sealed(payload: bytes, *, codec: int, records: int = 10, timestamp_ms: int = BASE_MS) -> bytes:
    """A batch with a right length and a right CRC around any payload."""
    body = struct.pack(">hiqqqhii", codec, records - 1, timestamp_ms, timestamp_ms + 100, -1, -1, -1, records) + payload
    after_length = struct.pack(">ib", 0, 2) + struct.pack(">I", crc32c.crc32c(body)) + body
    return struct.pack(">qi", 0, len(after_length)) + after_length


def reseal(batch: bytearray) -> bytes:
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return bytes(batch)


def zstd_bomb() -> bytes:
    block = b"\x00" * MEGABYTE
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join(packer.compress(block) for _ in range(BOMB_BYTES // MEGABYTE)) + packer.flush()


def gzip_bomb() -> bytes:
    block = b"\x00" * MEGABYTE
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(packer.compress(block) for _ in range(200)) + packer.flush()


def lz4_bomb() -> bytes:
    block = b"\x00" * MEGABYTE
    with lz4.frame.LZ4FrameCompressor(block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB) as packer:
        start = packer.begin()
        return start + b"".join(packer.compress(block) for _ in range(200)) + packer.flush()


def snappy_bomb() -> bytes:
    """A snappy block that claims four gigabytes."""
    return b"\xff\xff\xff\xff\x0f" + b"\x00" * 100


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [(1, gzip_bomb), (2, snappy_bomb), (3, lz4_bomb), (4, zstd_bomb)],
    ids=["gzip", "snappy", "lz4", "zstd"],
)
def test_bombs(victim: Victim, codec: int, bomb: Callable[[], bytes]) -> None:
    topic = victim.new_topic()
    batch = sealed(bomb(), codec=codec)
    assert len(batch) < MEGABYTE
    held = victim.forget_peak()
    with victim.connect() as raw:
        stored = produce(raw, topic, batch).error_code == 0
        # Looking for a time makes the broker open the batch that may hold it.
        for timestamp in (BASE_MS, BASE_MS + 50, -3):
            assert list_offset(raw, topic, timestamp) is not None
        if stored:
            assert fetch(raw, topic, 0).records[HEADER_BYTES:] == batch[HEADER_BYTES:]
    assert victim.peak_bytes() - held < GROWTH_BYTES_MAX


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_junk_in_place_of_compressed_records(victim: Victim, codec: int) -> None:
    """Stored unseen, as opaque bytes; whoever asks for a time in it gets an answer or an error, not a dead broker."""
    topic = victim.new_topic()
    with victim.connect() as raw:
        produce(raw, topic, sealed(b"this is not compressed at all" * 10, codec=codec))
        # The batch lies in the log, so this is no fault of the one who asks: an answer, not a closed connection.
        assert list_offset(raw, topic, BASE_MS + 50) is not None
        assert produce(raw, topic, encode_batch([b"next"])).error_code == 0


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(victim: Victim, codec: int) -> None:
    topic = victim.new_topic()
    with victim.connect() as raw:
        assert produce(raw, topic, sealed(b"whatever", codec=codec)).error_code != 0
        assert list_offset(raw, topic, -1).offset == 0


FIELDS = {
    "batch length": (8, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last offset delta": (23, ">i"),
    "base timestamp": (27, ">q"),
    "max timestamp": (35, ">q"),
    "producer id": (43, ">q"),
    "producer epoch": (51, ">h"),
    "base sequence": (53, ">i"),
    "record count": (57, ">i"),
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", ["min", "-1", "0", "max"])
def test_lying_headers(victim: Victim, name: str, value: str) -> None:
    """Whatever the header says with a right CRC: refused, or stored so that the log stays readable and goes on."""
    position, kind = FIELDS[name]
    top = 2 ** (8 * struct.calcsize(kind) - 1)
    batch = bytearray(encode_batch([b"a", b"b", b"c"]))
    struct.pack_into(kind, batch, position, {"min": -top, "-1": -1, "0": 0, "max": top - 1}[value])
    topic = victim.new_topic()
    with victim.connect() as raw:
        raw.send(0, 9, produce_body(raw, topic, reseal(batch)))
        try:
            raw.receive()
        except ConnectionError:
            pass
    with victim.connect() as raw:
        end = list_offset(raw, topic, -1).offset
        assert 0 <= end <= 3, f"three records moved the end to {end}"
        assert produce(raw, topic, encode_batch([b"after"])).base_offset == end
        served = fetch(raw, topic, end)
        assert [pair for pair in decode_values(served.records) if pair[0] >= end] == [(end, b"after")]


@BOUNDED
@given(seed=st.integers(0, 2**32), resealed=st.booleans())
def test_damaged_batches(victim: Victim, seed: int, resealed: bool) -> None:
    chance = random.Random(seed)
    batch = bytearray(
        encode_batch([chance.randbytes(20) for _ in range(5)], compression=chance.choice(["none", "lz4"]))
    )
    for _ in range(chance.randrange(1, 4)):
        batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
    payload = reseal(batch) if resealed else bytes(batch)
    topic = _shared_topic(victim)
    with victim.connect() as raw:
        before = list_offset(raw, topic, -1).offset
        raw.send(0, 9, produce_body(raw, topic, payload))
        try:
            raw.receive()
        except ConnectionError:
            pass
    with victim.connect() as raw:
        after = list_offset(raw, topic, -1).offset
        assert before <= after <= before + 5
        assert produce(raw, topic, encode_batch([b"after"])).base_offset == after


_topics: dict[str, str] = {}


def _shared_topic(victim: Victim) -> str:
    if victim.address not in _topics:
        _topics[victim.address] = victim.new_topic()
    return _topics[victim.address]


def test_gzip_is_what_python_says(victim: Victim) -> None:
    """The bombs above are built by hand; this shows that a small honest one of the same make is served."""
    topic = victim.new_topic()
    plain = encode_batch([b"x" * 1000])[HEADER_BYTES:]
    with victim.connect() as raw:
        assert produce(raw, topic, sealed(gzip.compress(plain), codec=1, records=1)).error_code == 0
        assert decode_values(fetch(raw, topic, 0).records) == [(0, b"x" * 1000)]
