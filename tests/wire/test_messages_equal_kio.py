"""Every version of every message, both directions: our bytes are kio's bytes, and they decode to what went in."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runnel.wire.apis import ApiKey
from runnel.wire.messages import decode_request, decode_response, encode_request, encode_response
from runnel.wire.schemas import Direction, versions
from wire.kio_oracle import kio_bytes, messages_of

ALL = [(key, direction) for key in ApiKey if versions(key) for direction in get_args(Direction)]
ENCODE = {"request": encode_request, "response": encode_response}
DECODE = {"request": decode_request, "response": decode_response}


@pytest.mark.parametrize(("api_key", "direction"), ALL, ids=lambda value: getattr(value, "name", value))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_same_bytes_both_ways(api_key: ApiKey, direction: Direction, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api_key)), label="version")
    message = data.draw(messages_of(api_key, direction, version), label="message")
    expected = kio_bytes(api_key, direction, version, message)

    assert ENCODE[direction](api_key, version, message) == expected
    assert DECODE[direction](api_key, version, expected).to_dict() == message


@pytest.mark.parametrize(("api_key", "direction"), ALL, ids=lambda value: getattr(value, "name", value))
def test_every_version_compiles_and_has_defaults(api_key: ApiKey, direction: Direction) -> None:
    for version in versions(api_key):
        empty = ENCODE[direction](api_key, version, {})
        decoded = DECODE[direction](api_key, version, b"frame" + empty, 5)
        assert ENCODE[direction](api_key, version, decoded.to_dict()) == empty
