"""The frame around every message: its size, the request header, the response header.

In: the bytes of one frame without its 4-byte size; out: a `RequestHeader` and where the body begins. And
the way back: the prefix of a response. Header v2 (flexible versions) adds tagged fields, of which Kafka
defines none: they are skipped.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from runnel.wire.apis import KAFKA_RANGES, ApiKey, request_header_version
from runnel.wire.errors import Malformed
from runnel.wire.primitives import skip_tagged
from runnel.wire.types import ReadBuffer

_FIXED = Struct(">hhih")
_KEY_VERSION_CORRELATION = Struct(">hhi")
_PREFIX_V0 = Struct(">ii")
_PREFIX_V1 = Struct(">iib")
_SIZE = Struct(">i")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buffer: ReadBuffer, offset: int = 0) -> tuple[RequestHeader, int]:
    """The header at `offset` and the position of the body.

    Of an unknown API or version we keep what can be read, so that the router can answer (ApiVersions) or
    close.
    """
    try:
        api_key, version, correlation_id, length = _FIXED.unpack_from(buffer, offset)
        position: int = offset + 10
        client_id: str | None = None
        if length >= 0:
            end = position + length
            if end > len(buffer):
                raise Malformed("the client id is longer than the frame")
            client_id = str(buffer[position:end], "utf-8")
            position = end
        if request_header_version(api_key, version) == 2:
            position = skip_tagged(buffer, position)
        return RequestHeader(api_key, version, correlation_id, client_id), position
    except (ValueError, IndexError, StructError) as error:
        return _header_of_unknown(buffer, offset, error)


def _header_of_unknown(buffer: ReadBuffer, offset: int, error: Exception) -> tuple[RequestHeader, int]:
    if len(buffer) - offset < _KEY_VERSION_CORRELATION.size:
        raise Malformed("the request header is cut short") from error
    api_key, version, correlation_id = _KEY_VERSION_CORRELATION.unpack_from(buffer, offset)
    if is_known(api_key, version):
        raise Malformed(f"the request header does not parse: {error}") from error
    return RequestHeader(api_key, version, correlation_id, None), len(buffer)


def is_known(api_key: int, version: int) -> bool:
    """Whether Kafka itself has this version of this API on a broker listener."""
    try:
        lowest, highest = KAFKA_RANGES[ApiKey(api_key)]
    except (KeyError, ValueError):
        return False
    return lowest <= version <= highest


def encode_request_header(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    header_version: int | None = None,
) -> bytes:
    """The header that a client sends, without the frame size."""
    if header_version is None:
        header_version = request_header_version(api_key, api_version)
    text = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(text)
    tagged = b"\0" if header_version >= 2 else b""
    return _FIXED.pack(api_key, api_version, correlation_id, length) + text + tagged


def encode_request_frame(header: bytes, body: bytes | bytearray) -> bytes:
    """A whole request as it goes over the socket."""
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


def response_prefix(correlation_id: int, header_version: int, body_size: int) -> bytes:
    """Frame size and response header for a body of `body_size` bytes."""
    if header_version == 0:
        return _PREFIX_V0.pack(4 + body_size, correlation_id)
    return _PREFIX_V1.pack(5 + body_size, correlation_id, 0)


def decode_response_header(buffer: ReadBuffer, header_version: int, offset: int = 0) -> tuple[int, int]:
    """The correlation id of a response and the position of its body."""
    if len(buffer) - offset < 4:
        raise Malformed("the response header is cut short")
    (correlation_id,) = _SIZE.unpack_from(buffer, offset)
    position = offset + 4
    if header_version == 0:
        return correlation_id, position
    if position >= len(buffer):
        raise Malformed("the response header is cut short")
    return correlation_id, skip_tagged(buffer, position)
