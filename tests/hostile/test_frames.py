"""Frames that no honest client sends: the connection may die, the broker may not, and its memory stays flat."""

from __future__ import annotations

import os
import random
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.raw import RawConnection, encode_header
from hostile.frames import SIZES, damage, every_version, honest_payload
from hostile.victim import MEGABYTE, Victim

SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
GROWTH_BYTES_MAX = 48 * MEGABYTE
BOUNDED = settings(
    max_examples=150,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def throw(victim: Victim, *frames: bytes) -> None:
    """Send, say that nothing follows, and take whatever comes until the broker hangs up."""
    with victim.connect() as raw:
        try:
            for frame in frames:
                raw.socket.sendall(frame)
            raw.socket.shutdown(socket.SHUT_WR)
            while raw.socket.recv(65536):
                pass
        except ConnectionError:
            pass


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 1, 7, 104857601, 2**31 - 1])
def test_impossible_sizes(victim: Victim, size: int) -> None:
    for _ in range(20):
        throw(victim, struct.pack(">i", size) + b"\x00" * 100)


def test_a_promise_of_much_allocates_little(victim: Victim) -> None:
    """100 MB are announced on fifty connections, and never sent."""
    held = victim.forget_peak()
    connections = [victim.connect() for _ in range(50)]
    try:
        for raw in connections:
            raw.socket.sendall(struct.pack(">i", 100 * MEGABYTE) + encode_header(0, 9, 1, flexible=True))
        victim.check_healthy()
        assert victim.peak_bytes() - held < GROWTH_BYTES_MAX
    finally:
        for raw in connections:
            raw.socket.close()


@pytest.mark.parametrize(("api_key", "version"), every_version())
def test_huge_lengths_everywhere(victim: Victim, api_key: int, version: int) -> None:
    """A length field of two thousand million at every position of an honest request."""
    payload = honest_payload(api_key, version)
    held = victim.forget_peak()
    for position in range(8, len(payload)):
        for size in SIZES[:3]:
            throw(victim, framed(payload[:position] + size + payload[position + 1 :]))
    assert victim.peak_bytes() - held < GROWTH_BYTES_MAX


def test_every_api_and_version_with_a_random_body(victim: Victim) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    held = victim.forget_peak()
    for api_key in range(-2, 95):
        for version in range(-1, 20):
            header = encode_header(api_key, version, 1, flexible=chance.random() < 0.5)
            throw(victim, framed(header + chance.randbytes(chance.randrange(0, 80))))
    assert victim.peak_bytes() - held < GROWTH_BYTES_MAX


def test_damaged_requests(victim: Victim) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    held = victim.forget_peak()
    for api_key, version in every_version():
        for _ in range(10):
            throw(victim, framed(damage(honest_payload(api_key, version), chance)))
    assert victim.peak_bytes() - held < GROWTH_BYTES_MAX


@pytest.mark.parametrize(("api_key", "version"), every_version())
def test_truncated_requests(victim: Victim, api_key: int, version: int) -> None:
    payload = honest_payload(api_key, version)
    for length in range(len(payload)):
        throw(victim, framed(payload[:length]))


@BOUNDED
@given(noise=st.binary(min_size=1, max_size=300))
def test_noise(victim: Victim, noise: bytes) -> None:
    throw(victim, noise)
    assert victim.broker.is_alive()


@BOUNDED
@given(
    pair=st.sampled_from(every_version()),
    seed=st.integers(0, 2**32),
    cut=st.integers(0, 3),
)
def test_damage_by_hypothesis(victim: Victim, pair: tuple[int, int], seed: int, cut: int) -> None:
    frame = framed(damage(honest_payload(*pair), random.Random(seed)))
    throw(victim, frame[: len(frame) - cut])
    assert victim.broker.is_alive()


@BOUNDED
@given(api_key=st.integers(-32768, 32767), version=st.integers(-32768, 32767), body=st.binary(max_size=100))
def test_headers_by_hypothesis(victim: Victim, api_key: int, version: int, body: bytes) -> None:
    throw(victim, framed(struct.pack(">hhi", api_key, version, 7) + body))
    assert victim.broker.is_alive()


def test_a_bad_frame_after_good_ones(victim: Victim) -> None:
    """What was asked before the damage may be answered; the connection then ends."""
    with victim.connect() as raw:
        good = framed(honest_payload(3, 12))
        raw.socket.sendall(good + good + struct.pack(">i", -5) + good)
        answers = b""
        while chunk := _receive(raw):
            answers += chunk
        assert len(answers) < 10_000


def _receive(raw: RawConnection) -> bytes:
    try:
        return raw.socket.recv(65536)
    except ConnectionError:
        return b""
