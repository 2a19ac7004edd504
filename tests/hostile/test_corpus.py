"""The fuzzers' seeds and finds replayed without atheris, and the same checks driven by Hypothesis for a while."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fuzz.fuzz_batches import check_batches, resealed
from fuzz.fuzz_frames import check_frame
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.batches import CODECS, encode_batch
from hostile.frames import damage, every_version, honest_payload

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
BOUNDED = settings(max_examples=300, deadline=None, print_blob=True)


def seeds(kind: str) -> list[Path]:
    return sorted((CORPUS / kind).iterdir())


def test_there_are_seeds() -> None:
    assert len(seeds("frames")) >= len(every_version())
    assert len(seeds("batches")) >= len(CODECS)


@pytest.mark.parametrize("seed", seeds("frames"), ids=lambda path: path.name)
def test_frame_seeds(seed: Path) -> None:
    check_frame(seed.read_bytes())


@pytest.mark.parametrize("seed", seeds("batches"), ids=lambda path: path.name)
def test_batch_seeds(seed: Path) -> None:
    check_batches(seed.read_bytes())


@BOUNDED
@given(pair=st.sampled_from(every_version()), seed=st.integers(0, 2**32))
def test_damaged_frames(pair: tuple[int, int], seed: int) -> None:
    check_frame(b"Q" + damage(honest_payload(*pair), random.Random(seed)))


@BOUNDED
@given(api_key=st.integers(0, 80), version=st.integers(0, 18), body=st.binary(max_size=200))
def test_random_replies(api_key: int, version: int, body: bytes) -> None:
    """Our own client reads what a broker sends, and that may be anything too."""
    check_frame(b"R" + bytes([api_key, version]) + body)


@BOUNDED
@given(
    codec=st.sampled_from(sorted(CODECS)),
    seed=st.integers(0, 2**32),
    values=st.lists(st.binary(max_size=50), min_size=1),
)
def test_damaged_records(codec: str, seed: int, values: list[bytes]) -> None:
    chance = random.Random(seed)
    batch = bytearray(encode_batch(list(values), compression=codec))
    for _ in range(chance.randrange(1, 6)):
        batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
    check_batches(bytes(batch))
    check_batches(resealed(bytes(batch)))


@BOUNDED
@given(noise=st.binary(max_size=400))
def test_noise_as_batches(noise: bytes) -> None:
    check_batches(noise)
