"""Kafka's primitive types: strings, byte fields, uuids, array counts and tagged fields, legacy and compact.

In: a buffer and a position; out: the value and the position after it, or `Malformed`. And the encoders.
Used by the hand-written codecs and by the generated ones. Every length is checked against the bytes that
remain before anything is made from it. Legacy lengths are i16/i32 with -1 as null; compact ones are
uvarints of length + 1 with 0.
"""

from __future__ import annotations

import uuid
from collections.abc import Container
from functools import lru_cache
from struct import Struct

from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer
from runnel.wire.varints import decode_uvarint, encode_uvarint

_I16 = Struct(">h")
_I32 = Struct(">i")

_UUID_CACHE_ENTRIES = 4096
_LEGACY_STRING_BYTES_MAX = 0x7FFF


def read_legacy_string(buffer: ReadBuffer, position: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(buffer, position)
    position += 2
    end = position + length
    if length < 0 or end > len(buffer):
        raise Malformed(f"a string claims {length} of {len(buffer) - position} bytes")
    return str(buffer[position:end], "utf-8"), end


def read_legacy_string_nullable(buffer: ReadBuffer, position: int) -> tuple[str | None, int]:
    if _I16.unpack_from(buffer, position)[0] == -1:
        return None, position + 2
    return read_legacy_string(buffer, position)


def read_compact_string(buffer: ReadBuffer, position: int) -> tuple[str, int]:
    length = buffer[position]
    position += 1
    if length > 127:
        length, position = decode_uvarint(buffer, position - 1)
    end = position + length - 1
    if length == 0 or end > len(buffer):
        raise Malformed(f"a string claims {length - 1} of {len(buffer) - position} bytes")
    return str(buffer[position:end], "utf-8"), end


def read_compact_string_nullable(buffer: ReadBuffer, position: int) -> tuple[str | None, int]:
    if buffer[position] == 0:
        return None, position + 1
    return read_compact_string(buffer, position)


def read_legacy_bytes(buffer: ReadBuffer, position: int) -> tuple[bytes, int]:
    value, position = read_legacy_bytes_nullable(buffer, position)
    if value is None:
        raise Malformed("a byte field is null where null is not allowed")
    return value, position


def read_legacy_bytes_nullable(buffer: ReadBuffer, position: int) -> tuple[bytes | None, int]:
    (length,) = _I32.unpack_from(buffer, position)
    position += 4
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(buffer):
        raise Malformed(f"a byte field claims {length} of {len(buffer) - position} bytes")
    return bytes(buffer[position:end]), end


def read_compact_bytes(buffer: ReadBuffer, position: int) -> tuple[bytes, int]:
    value, position = read_compact_bytes_nullable(buffer, position)
    if value is None:
        raise Malformed("a byte field is null where null is not allowed")
    return value, position


def read_compact_bytes_nullable(buffer: ReadBuffer, position: int) -> tuple[bytes | None, int]:
    length, position = decode_uvarint(buffer, position)
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(buffer):
        raise Malformed(f"a byte field claims {length - 1} of {len(buffer) - position} bytes")
    return bytes(buffer[position:end]), end


@lru_cache(maxsize=_UUID_CACHE_ENTRIES)
def uuid_from_bytes(raw: bytes) -> uuid.UUID:
    """A UUID object costs a microsecond to make, and topic ids come back in every request."""
    return uuid.UUID(bytes=raw)


def read_uuid(buffer: ReadBuffer, position: int) -> tuple[uuid.UUID, int]:
    end = position + 16
    if end > len(buffer):
        raise Malformed("a uuid is cut short")
    return uuid_from_bytes(bytes(buffer[position:end])), end


def read_legacy_count(buffer: ReadBuffer, position: int, item_bytes_min: int) -> tuple[int, int]:
    """The length of an array of items that take at least `item_bytes_min` bytes each; -1 for null."""
    (count,) = _I32.unpack_from(buffer, position)
    position += 4
    if count < -1 or count * item_bytes_min > len(buffer) - position:
        raise Malformed(f"an array of {count} items does not fit into {len(buffer) - position} bytes")
    return count, position


def read_compact_count(buffer: ReadBuffer, position: int, item_bytes_min: int) -> tuple[int, int]:
    """As `read_legacy_count`, for compact arrays."""
    count = buffer[position] - 1
    position += 1
    if count > 126:
        count, position = decode_uvarint(buffer, position - 1)
        count -= 1
    if count * item_bytes_min > len(buffer) - position:
        raise Malformed(f"an array of {count} items does not fit into {len(buffer) - position} bytes")
    return count, position


def take(count: int, left: int, bytes_left: int) -> int:
    """What is left of the budget of items after an array of `count`, which must be there and fit."""
    if not 0 <= count <= left or count > bytes_left:
        raise Malformed(f"an array of {count} items is null, too long, or does not fit into {bytes_left} bytes")
    return left - count


def read_tagged(
    buffer: ReadBuffer, position: int, known: Container[int] = ()
) -> tuple[dict[int, tuple[int, int]], int]:
    """Where the `known` fields of a tagged section (KIP-482) start and end, and the position after it.

    Fields that are not known are skipped and not kept: their number is the peer's choice.
    """
    count, position = decode_uvarint(buffer, position)
    limit = len(buffer)
    if count * 2 > limit - position:
        raise Malformed(f"{count} tagged fields do not fit into {limit - position} bytes")
    fields: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        tag, position = decode_uvarint(buffer, position)
        size, position = decode_uvarint(buffer, position)
        if size > limit - position:
            raise Malformed(f"tagged field {tag} claims {size} of {limit - position} bytes")
        if tag in known:
            fields[tag] = (position, position + size)
        position += size
    return fields, position


def skip_tagged(buffer: ReadBuffer, position: int) -> int:
    """The position after a tagged section whose fields nobody wants."""
    if buffer[position] == 0:
        return position + 1
    return read_tagged(buffer, position)[1]


def legacy_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    if len(encoded) > _LEGACY_STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(encoded)} bytes is too long for this version of the message")
    return _I16.pack(len(encoded)) + encoded


def compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return encode_uvarint(len(encoded) + 1) + encoded


def legacy_bytes(value: ReadBuffer | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else b"".join((_I32.pack(len(value)), value))


def compact_bytes(value: ReadBuffer | None) -> bytes:
    return b"\0" if value is None else b"".join((encode_uvarint(len(value) + 1), value))


def legacy_count(count: int) -> bytes:
    return _I32.pack(count)


def compact_count(count: int) -> bytes:
    return encode_uvarint(count + 1)


def tagged(fields: list[tuple[int, bytes]]) -> bytes:
    """A tagged section from (tag, encoded value) pairs in rising order."""
    parts = [encode_uvarint(len(fields))]
    for tag, value in fields:
        parts += (encode_uvarint(tag), encode_uvarint(len(value)), value)
    return b"".join(parts)
