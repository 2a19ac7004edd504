"""Varints, API ranges, error codes and frame headers: small tables and their edges."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from runnel.wire.apis import KAFKA_RANGES, ApiKey, request_header_version, response_header_version
from runnel.wire.errors import RETRIABLE, ErrorCode, Malformed, Refusal
from runnel.wire.frames import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_frame,
    encode_request_header,
    response_prefix,
)
from runnel.wire.schemas import versions
from runnel.wire.varints import (
    decode_uvarint,
    decode_uvarlong,
    decode_varint,
    decode_varlong,
    encode_uvarint,
    encode_varint,
)


@given(value=st.integers(0, 2**32 - 1) | st.integers(0, 300))
def test_uvarint_round_trip(value: int) -> None:
    encoded = encode_uvarint(value)
    assert decode_uvarint(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))
    assert decode_uvarlong(encoded, 0) == (value, len(encoded))


@given(value=st.integers(-(2**31), 2**31 - 1) | st.integers(-20_000, 20_000))
def test_varint_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(encoded, 0) == decode_varlong(encoded, 0) == (value, len(encoded))


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varlong_round_trip(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varlong(encoded, 0) == (value, len(encoded))


def test_known_varints() -> None:
    assert [encode_uvarint(value) for value in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]
    assert [encode_varint(value) for value in (0, -1, 1, -64, 64)] == [b"\0", b"\1", b"\2", b"\x7f", b"\x80\x01"]


@pytest.mark.parametrize("decode", [decode_uvarint, decode_varint, decode_uvarlong, decode_varlong])
@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff", b"\xff" * 4, b"\xff" * 11])
def test_cut_and_endless_varints_are_malformed(decode: object, data: bytes) -> None:
    with pytest.raises(Malformed):
        decode(data, 0)  # type: ignore[operator]


def test_a_negative_unsigned_varint_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        encode_uvarint(-1)


def test_error_codes_are_all_there_with_kafka_names() -> None:
    assert {code.name.lower(): code.value for code in ErrorCode} == {code.name: code.value for code in KioErrorCode}
    assert {code.value for code in RETRIABLE} == {code.value for code in KioErrorCode if code.retriable}


def test_a_refusal_carries_code_and_message() -> None:
    refusal = Refusal(ErrorCode.INVALID_CONFIG, "retention.ms is not a number")
    assert (refusal.code, refusal.message) == (ErrorCode.INVALID_CONFIG, "retention.ms is not a number")
    assert str(refusal) == "INVALID_CONFIG: retention.ms is not a number"


def test_every_advertised_version_has_a_schema_except_ancient_produce() -> None:
    for api_key, (lowest, highest) in KAFKA_RANGES.items():
        served = set(range(3 if api_key is ApiKey.PRODUCE else lowest, highest + 1))
        assert served <= set(versions(api_key)), api_key


def test_ranges_that_clients_look_at() -> None:
    assert KAFKA_RANGES[ApiKey.PRODUCE] == (0, 13)
    assert KAFKA_RANGES[ApiKey.FETCH] == (4, 18)
    assert KAFKA_RANGES[ApiKey.INIT_PRODUCER_ID] == (0, 5)
    assert KAFKA_RANGES[ApiKey.API_VERSIONS] == (0, 4)
    assert ApiKey.VOTE not in KAFKA_RANGES


def test_header_versions_equal_kio() -> None:
    for api_key in ApiKey:
        for version in versions(api_key):
            request, response = load_request_schema(api_key, version), load_response_schema(api_key, version)
            assert request_header_version(api_key, version) == request.__header_schema__.__version__
            assert response_header_version(api_key, version) == response.__header_schema__.__version__


@given(
    api_key=st.sampled_from(list(KAFKA_RANGES)),
    data=st.data(),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=30),
)
def test_request_headers_equal_kio(
    api_key: ApiKey, data: st.DataObject, correlation_id: int, client_id: str | None
) -> None:
    version = data.draw(st.sampled_from(versions(api_key)))
    header_class = load_request_schema(api_key, version).__header_schema__
    buffer = io.BytesIO()
    entity_writer(header_class)(
        buffer,
        header_class(
            request_api_key=api_key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
        ),
    )
    encoded = encode_request_header(api_key, version, correlation_id, client_id)
    assert encoded == buffer.getvalue()
    expected = RequestHeader(api_key, version, correlation_id, client_id)
    assert decode_request_header(memoryview(b"pad" + encoded + b"body"), 3) == (expected, 3 + len(encoded))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header = encode_request_header(18, 3, 7, "c")[:-1] + b"\x02\x05\x01a\x06\x00"
    assert decode_request_header(header) == (RequestHeader(18, 3, 7, "c"), len(header))


def test_unknown_apis_and_versions_keep_what_can_be_read() -> None:
    """The router answers an unknown ApiVersions version and closes on an unknown API; both need the header."""
    unknown_key = encode_request_header(999, 0, 7, "client", header_version=1)
    assert decode_request_header(unknown_key + b"body")[0] == RequestHeader(999, 0, 7, "client")
    future = encode_request_header(18, 99, 7, "client", header_version=2)
    assert decode_request_header(future + b"\x99junk")[0] == RequestHeader(18, 99, 7, "client")
    unreadable = encode_request_header(18, 99, 7, None)[:8] + b"\x7f\xff"
    assert decode_request_header(unreadable)[0] == RequestHeader(18, 99, 7, None)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\0\x03\0\0\0\0\0",
        encode_request_header(3, 0, 7, "client")[:-1],
        encode_request_header(3, 0, 7, None)[:9],
        b"\0\x03\0\0\0\0\0\1\x7f\xffabc",
        b"\0\x03\0\0\0\0\0\1\0\2\xff\xfe",
        encode_request_header(3, 12, 7, "client")[:-1],
        encode_request_header(3, 12, 7, "client")[:-1] + b"\xff\xff\xff\xff\x0f",
        encode_request_header(3, 12, 7, "client")[:-1] + b"\x01\x00\xff\xff\xff\xff\x0f",
    ],
)
def test_broken_headers_of_known_apis_are_malformed(header: bytes) -> None:
    with pytest.raises(Malformed):
        decode_request_header(header)


@pytest.mark.parametrize(("header_version", "expected"), [(0, b"\0\0\0\x0e\0\0\0\x07"), (1, b"\0\0\0\x0f\0\0\0\x07\0")])
def test_response_prefix(header_version: int, expected: bytes) -> None:
    prefix = response_prefix(7, header_version, 10)
    assert prefix == expected
    assert decode_response_header(prefix[4:] + b"body", header_version) == (7, len(prefix) - 4)


def test_request_frame() -> None:
    assert encode_request_frame(b"head", bytearray(b"body!")) == b"\0\0\0\x09headbody!"


@pytest.mark.parametrize(("header_version", "data"), [(0, b"\0\0\0"), (1, b"\0\0\0\1"), (1, b"\0\0\0\1\xff")])
def test_cut_response_headers_are_malformed(header_version: int, data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_response_header(data, header_version)
