"""Variable-length integers: unsigned (compact lengths, tags) and zigzag (record fields).

In: a buffer and a position; out: the value and the position after it. Seven bits per byte, low group first.
At most 5 bytes for 32 bits and 10 for 64, as in Kafka; anything longer or cut short is `Malformed`.
"""

from __future__ import annotations

from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer

UVARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10

_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF
_SINGLE = [bytes((value,)) for value in range(128)]


def encode_uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint; lengths below 128 come from a table."""
    if 0 <= value < 128:
        return _SINGLE[value]
    if value < 0:
        raise ValueError(f"an unsigned varint cannot hold {value}")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_uvarint(buffer: ReadBuffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the position after it. Most take up to three bytes."""
    try:
        value = buffer[position]
        if value < 128:
            return value, position + 1
        byte = buffer[position + 1]
        value = value & 127 | (byte & 127) << 7
        if byte < 128:
            return value, position + 2
        byte = buffer[position + 2]
    except IndexError:
        raise Malformed("a varint is cut short") from None
    if byte < 128:
        return value | byte << 14, position + 3
    return _decode(buffer, position, UVARINT_BYTES_MAX, _MASK_32)


def decode_uvarlong(buffer: ReadBuffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 64 bits, and the position after it."""
    return _decode(buffer, position, VARLONG_BYTES_MAX, _MASK_64)


def _decode(buffer: ReadBuffer, position: int, bytes_max: int, mask: int) -> tuple[int, int]:
    try:
        byte = buffer[position]
        if byte < 128:
            return byte, position + 1
        value = byte & 127
        for count in range(1, bytes_max):
            byte = buffer[position + count]
            value |= (byte & 127) << (7 * count)
            if byte < 128:
                return value & mask, position + count + 1
    except IndexError:
        raise Malformed("a varint is cut short") from None
    raise Malformed(f"a varint is longer than {bytes_max} bytes")


def encode_varint(value: int) -> bytes:
    """A signed (zigzag) varint: record lengths, deltas, header counts."""
    return encode_uvarint((value << 1) ^ (value >> 63))


def decode_varint(buffer: ReadBuffer, position: int) -> tuple[int, int]:
    """A signed varint of at most 32 bits, and the position after it. Most fit one byte or two."""
    try:
        low = buffer[position]
        if low < 128:
            return (low >> 1) ^ -(low & 1), position + 1
        high = buffer[position + 1]
    except IndexError:
        raise Malformed("a varint is cut short") from None
    if high < 128:
        return ((low & 127 | high << 7) >> 1) ^ -(low & 1), position + 2
    value, position = _decode(buffer, position, UVARINT_BYTES_MAX, _MASK_32)
    return (value >> 1) ^ -(value & 1), position


def decode_varlong(buffer: ReadBuffer, position: int) -> tuple[int, int]:
    """A signed varint of at most 64 bits, and the position after it."""
    value, position = _decode(buffer, position, VARLONG_BYTES_MAX, _MASK_64)
    return (value >> 1) ^ -(value & 1), position
