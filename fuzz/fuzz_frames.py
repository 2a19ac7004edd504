"""Any bytes as a request, or as a reply to our client: they decode, or raise Malformed, in little memory.

In: one frame without its size. Byte 0 of the fuzzed data says whether the rest is a request or a reply.
"""

from __future__ import annotations

from runnel.wire.apis import KAFKA_RANGES, ApiKey
from runnel.wire.errors import Malformed
from runnel.wire.fetch import decode_fetch_request, encode_fetch_request
from runnel.wire.fetch_reply import decode_fetch_response
from runnel.wire.frames import decode_request_header, decode_response_header
from runnel.wire.messages import decode_request, decode_response
from runnel.wire.produce import decode_produce_request, decode_produce_response, encode_produce_request

SERVED_FROM = {ApiKey.PRODUCE: 3}


def is_served(api_key: int, version: int) -> bool:
    try:
        low, high = KAFKA_RANGES[ApiKey(api_key)]
    except (KeyError, ValueError):
        return False
    return SERVED_FROM.get(ApiKey(api_key), low) <= version <= high


def check_frame(data: bytes) -> None:
    """The target: returns quietly, or something is wrong with a decoder."""
    try:
        if data[:1] == b"R":
            check_reply(data[1:])
        else:
            check_request(data[1:])
    except Malformed:
        return


def check_request(payload: bytes) -> None:
    view = memoryview(bytearray(payload))
    header, position = decode_request_header(view)
    if not 0 <= position <= len(payload):
        raise RuntimeError(f"the header ends at {position} of {len(payload)}")
    if not is_served(header.api_key, header.api_version):
        return
    if header.api_key == ApiKey.PRODUCE:
        produced = decode_produce_request(header.api_version, view, position)
        encode_produce_request(header.api_version, produced)
    elif header.api_key == ApiKey.FETCH:
        fetched = decode_fetch_request(header.api_version, view, position)
        encode_fetch_request(header.api_version, fetched)
    else:
        decode_request(header.api_key, header.api_version, view, position).to_dict()


def check_reply(payload: bytes) -> None:
    """Bytes 0 and 1 choose the API and version that our client would have asked for."""
    if len(payload) < 2 or not is_served(payload[0], payload[1]):
        return
    api_key, version = payload[0], payload[1]
    view = memoryview(payload)[2:]
    _, position = decode_response_header(view, 1 if version > 8 and api_key != ApiKey.API_VERSIONS else 0)
    if api_key == ApiKey.PRODUCE:
        decode_produce_response(version, view, position)
    elif api_key == ApiKey.FETCH:
        decode_fetch_response(version, view, position)
    else:
        decode_response(api_key, version, view, position).to_dict()
