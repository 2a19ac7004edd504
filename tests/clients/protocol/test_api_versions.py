"""ApiVersions: what is advertised, and how a client from the future is answered."""

from __future__ import annotations

import struct
import uuid

import pytest

from clients.protocol.calls import API_VERSIONS, PRODUCE, RANGES
from harness.raw import RawConnection, decode_reply, encode_header

BODY = {"client_software_name": "raw-test", "client_software_version": "1.0"}
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42


@pytest.mark.parametrize("version", range(5))
def test_the_ranges_are_kafkas(raw: RawConnection, version: int) -> None:
    reply = raw.request(API_VERSIONS, version, BODY)
    assert reply.error_code == 0
    advertised = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
    assert {key: advertised.get(key) for key in RANGES} == RANGES


def test_produce_is_advertised_from_zero(raw: RawConnection) -> None:
    """Older librdkafka stops compressing if Produce starts at 3 (KAFKA-18659)."""
    reply = raw.request(API_VERSIONS, 3, BODY)
    assert next(api.min_version for api in reply.api_keys if api.api_key == PRODUCE) == 0


@pytest.mark.parametrize("version", [5, 77, 32767])
def test_an_unknown_version_gets_a_v0_body_with_the_ranges(raw: RawConnection, version: int) -> None:
    """KIP-511: the client retries with a version out of this reply, on the same connection."""
    raw.send_bytes(encode_header(API_VERSIONS, version, 9, flexible=True) + b"\x05new\x02field\x00")
    correlation_id, reply = decode_reply(API_VERSIONS, 0, raw.receive())
    assert correlation_id == 9
    assert reply.error_code == UNSUPPORTED_VERSION
    assert (18, 0, 4) in [(api.api_key, api.min_version, api.max_version) for api in reply.api_keys]
    assert raw.request(API_VERSIONS, 3, BODY).error_code == 0


def test_the_response_header_is_v0(raw: RawConnection) -> None:
    """No tagged-field byte between the correlation id and the error code, though the body is flexible."""
    raw.send(API_VERSIONS, 3, BODY)
    payload = raw.receive()
    correlation_id, error_code, count = struct.unpack_from(">ihB", payload)
    assert (correlation_id, error_code) == (raw.correlation_id, 0)
    assert count - 1 >= len(RANGES)


def test_features_are_told(raw: RawConnection) -> None:
    """KIP-584. Version 3 cannot say that a feature may be off (minimum 0), so it leaves those out."""
    newest = raw.request(API_VERSIONS, 4, BODY)
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in newest.supported_features}
    assert supported == {"group.version": (0, 1), "metadata.version": (7, 30)}
    finalized = {(f.name, f.min_version_level, f.max_version_level) for f in newest.finalized_features}
    assert finalized == {("group.version", 1, 1), ("metadata.version", 30, 30)}
    assert newest.finalized_features_epoch > 0
    older = raw.request(API_VERSIONS, 3, BODY)
    assert [feature.name for feature in older.supported_features] == ["metadata.version"]


@pytest.mark.parametrize("name", ["", "bad name", "-dash", "ünïcode"])
def test_a_bad_client_name_is_refused(raw: RawConnection, name: str) -> None:
    reply = raw.request(API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "1"})
    assert reply.error_code == INVALID_REQUEST


def test_a_null_client_id_is_fine(raw: RawConnection) -> None:
    raw.send_bytes(encode_header(API_VERSIONS, 0, 1, flexible=False, client_id=None))
    assert decode_reply(API_VERSIONS, 0, raw.receive())[1].error_code == 0


def test_unknown_tagged_fields_are_passed_over(raw: RawConnection) -> None:
    """Newer clients add tags; they must not break older brokers (KIP-482)."""
    header = encode_header(API_VERSIONS, 3, 5, flexible=False) + b"\x01\xe3\x27\x04" + uuid.uuid4().bytes[:4]
    body = b"\x04raw\x041.0" + b"\x02\x63\x01a\xc8\x01\x02bc"
    raw.send_bytes(header + body)
    assert decode_reply(API_VERSIONS, 3, raw.receive())[1].error_code == 0
