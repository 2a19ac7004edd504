"""Random and damaged bytes into every decoder: Malformed or a value, never another exception, memory bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel.wire import fetch_values, produce
from runnel.wire.apis import ApiKey
from runnel.wire.batch import check_crc, decode_records, encode_batch, iterate_headers, read_header
from runnel.wire.errors import Malformed
from runnel.wire.fetch import decode_fetch_request, decode_fetch_response
from runnel.wire.frames import decode_request_header, decode_response_header
from runnel.wire.messages import decode_request, decode_response
from runnel.wire.produce import decode_produce_request, decode_produce_response
from runnel.wire.schemas import versions
from wire.kio_oracle import kio_bytes, messages_of

RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
HOT: dict[tuple[int, str], Callable[..., Any]] = {
    (0, "request"): decode_produce_request,
    (0, "response"): decode_produce_response,
    (1, "request"): decode_fetch_request,
    (1, "response"): decode_fetch_response,
}
HOT_VERSIONS = {
    0: range(produce.VERSION_MIN, produce.VERSION_MAX + 1),
    1: range(fetch_values.VERSION_MIN, fetch_values.VERSION_MAX + 1),
}
BYTES_FROM_SMALL_INPUT = 4_000_000
"""What any decoder may allocate for an input of a few hundred bytes, generously."""


def only_malformed(decode: Callable[[], object]) -> None:
    try:
        decode()
    except Malformed:
        pass


@st.composite
def damaged(draw: st.DrawFn, raw: bytes) -> bytes:
    """Valid bytes with a few of them overwritten, cut out or repeated."""
    data = bytearray(raw)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, max(0, len(data) - 1)))
        action = draw(st.sampled_from(["set", "cut", "insert", "huge"]))
        if action == "set" and data:
            data[position] = draw(st.integers(0, 255))
        elif action == "cut":
            del data[position : position + draw(st.integers(1, 8))]
        elif action == "insert":
            data[position:position] = draw(st.binary(min_size=1, max_size=8))
        else:
            data[position : position + 5] = b"\xff\xff\xff\xff\x0f" if draw(st.booleans()) else b"\x7f\xff\xff\xff"
    return bytes(data)


@pytest.mark.parametrize("key_and_direction", HOT, ids=str)
@settings(max_examples=200, **RELAXED)
@given(data=st.data())
def test_hot_codecs(key_and_direction: tuple[int, Any], data: st.DataObject) -> None:
    api_key, direction = key_and_direction
    decode = HOT[key_and_direction]
    version = data.draw(st.sampled_from(HOT_VERSIONS[api_key]))
    raw = kio_bytes(api_key, direction, version, data.draw(messages_of(api_key, direction, version)))
    broken = data.draw(damaged(raw))
    only_malformed(lambda: decode(version, memoryview(broken), 0))
    only_malformed(lambda: decode(version, memoryview(data.draw(st.binary(max_size=80))), 0))


@pytest.mark.parametrize("api_key", [key for key in ApiKey if versions(key)], ids=lambda key: key.name)
@settings(max_examples=20, **RELAXED)
@given(data=st.data())
def test_every_other_message(api_key: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api_key)))
    raw = kio_bytes(api_key, "request", version, data.draw(messages_of(api_key, "request", version)))
    broken = data.draw(damaged(raw))
    only_malformed(lambda: decode_request(api_key, version, broken))
    garbage = data.draw(st.binary(max_size=80))
    only_malformed(lambda: decode_request(api_key, version, garbage))
    only_malformed(lambda: decode_response(api_key, version, garbage))


@settings(max_examples=300, **RELAXED)
@given(data=st.binary(max_size=60), header_version=st.integers(0, 1))
def test_frame_headers(data: bytes, header_version: int) -> None:
    only_malformed(lambda: decode_request_header(data))
    only_malformed(lambda: decode_response_header(data, header_version))


def walk(data: bytes) -> None:
    for position, header in iterate_headers(data):
        check_crc(data, position, header)
        decode_records(data, position, decompressed_bytes_max=1_000_000)


@settings(max_examples=300, **RELAXED)
@given(data=st.data(), codec=st.integers(0, 4))
def test_batches(data: st.DataObject, codec: int) -> None:
    records = [(index, b"key", b"value" * 30, [("header", b"x")]) for index in range(5)]
    raw = bytes(encode_batch(records, compression=codec))
    broken = data.draw(damaged(raw))
    only_malformed(lambda: walk(broken))
    only_malformed(lambda: walk(data.draw(st.binary(max_size=200))))
    only_malformed(lambda: decode_records(broken))
    only_malformed(lambda: read_header(broken))


@settings(max_examples=300, **RELAXED)
@given(body=st.binary(max_size=120), count=st.integers(-1, 30) | st.just(2**31 - 1))
def test_records_of_a_batch_with_a_valid_header(body: bytes, count: int) -> None:
    raw = encode_batch([(0, None, None, [])])[:61] + body
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[57:61] = count.to_bytes(4, "big", signed=True)
    only_malformed(lambda: decode_records(raw))


@settings(max_examples=60, **RELAXED)
@given(data=st.data())
def test_memory_stays_bounded(data: st.DataObject) -> None:
    api_key = data.draw(st.sampled_from([key for key in ApiKey if versions(key)]))
    version = data.draw(st.sampled_from(versions(api_key)))
    raw = kio_bytes(api_key, "request", version, data.draw(messages_of(api_key, "request", version)))
    broken = data.draw(damaged(raw))
    only_malformed(lambda: decode_request(api_key, version, broken))  # compiles the decoder outside the measurement
    tracemalloc.start()
    try:
        only_malformed(lambda: decode_request(api_key, version, broken))
        if (api_key, "request") in HOT:
            only_malformed(lambda: HOT[api_key, "request"](version, memoryview(broken), 0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < BYTES_FROM_SMALL_INPUT
