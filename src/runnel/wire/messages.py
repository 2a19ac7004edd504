"""Every Kafka message but Produce and Fetch, in any version, through one door.

In: API key, version and bytes, out: a `Struct`; or a mapping in and bytes out. Schemas come from kio; the
code that reads and writes a version is generated from its schema on first use and kept. Field names are
kio's, except that a duration `x` is `x_ms`. Values are plain: durations, timestamps and error codes are
ints, a missing uuid is ZERO_UUID, arrays are lists. Reading: a field that this version lacks has its
default. Writing: see `encoders`.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error as StructError
from typing import Any

from runnel.wire.decoders import Decoder, compile_decoder
from runnel.wire.encoders import Encoder, compile_encoder
from runnel.wire.errors import Malformed
from runnel.wire.schemas import Direction, UnknownVersion, load
from runnel.wire.structs import Struct
from runnel.wire.types import ZERO_UUID, ReadBuffer

__all__ = ["ZERO_UUID", "Struct", "decode_request", "decode_response", "encode_request", "encode_response"]

REQUEST_ITEMS_MAX = 500_000
"""Array items in one request, all arrays together: a request of this many partitions is honest, a larger
one an attack."""
RESPONSE_ITEMS_MAX = 10_000_000

_decoders: dict[tuple[Direction, int, int], Decoder] = {}
_encoders: dict[tuple[Direction, int, int], Encoder] = {}


def decode_request(api_key: int, version: int, buffer: ReadBuffer, offset: int = 0) -> Struct:
    """The request body at `offset`."""
    return _decode("request", api_key, version, buffer, offset, REQUEST_ITEMS_MAX)


def decode_response(api_key: int, version: int, buffer: ReadBuffer, offset: int = 0) -> Struct:
    """The response body at `offset`, for clients."""
    return _decode("response", api_key, version, buffer, offset, RESPONSE_ITEMS_MAX)


def encode_response(api_key: int, version: int, body: Mapping[str, Any]) -> bytes:
    """The response body, without header."""
    return _encode("response", api_key, version, body)


def encode_request(api_key: int, version: int, body: Mapping[str, Any]) -> bytes:
    """The request body, without header, for clients."""
    return _encode("request", api_key, version, body)


def _decode(
    direction: Direction, api_key: int, version: int, buffer: ReadBuffer, offset: int, items_max: int
) -> Struct:
    decode = _decoders.get((direction, api_key, version)) or _new_decoder(direction, api_key, version)
    data = bytes(buffer[offset:])
    try:
        message, position = decode(data, items_max)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise Malformed(f"a {direction} of API {api_key} v{version} does not parse: {error}") from error
    # Bytes that are left are ignored, as Kafka does: librdkafka appends three to its Metadata v13.
    if position > len(data):
        raise Malformed(f"a {direction} of API {api_key} v{version} is cut short")
    return message


def _encode(direction: Direction, api_key: int, version: int, body: Mapping[str, Any]) -> bytes:
    encode = _encoders.get((direction, api_key, version))
    if encode is None:
        encode = compile_encoder(load(api_key, direction, version))
        _encoders[direction, api_key, version] = encode
    return bytes(encode(body))


def _new_decoder(direction: Direction, api_key: int, version: int) -> Decoder:
    try:
        decoder = compile_decoder(load(api_key, direction, version))
    except UnknownVersion as error:
        raise Malformed(str(error)) from error
    _decoders[direction, api_key, version] = decoder
    return decoder
