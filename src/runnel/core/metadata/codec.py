"""The flexible field encodings of Kafka's metadata records, as small values that a table can name.

A `Codec` is a pair: `write(out, value)` appends bytes, `read(buffer, position)` gives the value and the
position after it. `fields_codec` makes one out of a table of fields. Lengths are checked against the bytes
that remain; what does not fit is `Malformed`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer
from runnel.wire.varints import decode_uvarint, encode_uvarint


class Codec(NamedTuple):
    write: Callable[[bytearray, Any], None]
    read: Callable[[ReadBuffer, int], tuple[Any, int]]


class Field(NamedTuple):
    """One field of a record: `since` is the first version that has it, `tag` its number if it is a tagged field."""

    name: str
    codec: Codec
    since: int = 0
    tag: int | None = None


def _fixed(layout: str) -> Codec:
    packer = struct.Struct(layout)

    def write(out: bytearray, value: int | float | bool) -> None:
        out += packer.pack(value)

    def read(buffer: ReadBuffer, position: int) -> tuple[Any, int]:
        end = position + packer.size
        _require(buffer, end)
        return packer.unpack_from(buffer, position)[0], end

    return Codec(write, read)


def _require(buffer: ReadBuffer, end: int) -> None:
    if end > len(buffer):
        raise Malformed(f"a metadata record is cut short: {end - len(buffer)} bytes are missing")


def _write_string(out: bytearray, value: str) -> None:
    encoded = value.encode()
    out += encode_uvarint(len(encoded) + 1)
    out += encoded


def _write_nullable_string(out: bytearray, value: str | None) -> None:
    if value is None:
        out.append(0)
    else:
        _write_string(out, value)


def _read_nullable_string(buffer: ReadBuffer, position: int) -> tuple[str | None, int]:
    length, position = decode_uvarint(buffer, position)
    if length == 0:
        return None, position
    end = position + length - 1
    _require(buffer, end)
    try:
        return str(buffer[position:end], "utf-8"), end
    except UnicodeDecodeError:
        raise Malformed("a text in a metadata record is not UTF-8") from None


def _read_string(buffer: ReadBuffer, position: int) -> tuple[str, int]:
    value, position = _read_nullable_string(buffer, position)
    if value is None:
        raise Malformed("a text in a metadata record is null where it must not be")
    return value, position


def _write_bytes(out: bytearray, value: bytes) -> None:
    out += encode_uvarint(len(value) + 1)
    out += value


def _read_bytes(buffer: ReadBuffer, position: int) -> tuple[bytes, int]:
    length, position = decode_uvarint(buffer, position)
    if length == 0:
        raise Malformed("bytes in a metadata record are null where they must not be")
    end = position + length - 1
    _require(buffer, end)
    return bytes(buffer[position:end]), end


def _write_uuid(out: bytearray, value: UUID) -> None:
    out += value.bytes


def _read_uuid(buffer: ReadBuffer, position: int) -> tuple[UUID, int]:
    end = position + 16
    _require(buffer, end)
    return UUID(bytes=bytes(buffer[position:end])), end


def nullable_array(item: Codec) -> Codec:
    """A compact array that may be null; reads as a tuple or None."""

    def write(out: bytearray, values: Sequence[Any] | None) -> None:
        if values is None:
            out.append(0)
            return
        out += encode_uvarint(len(values) + 1)
        for value in values:
            item.write(out, value)

    def read(buffer: ReadBuffer, position: int) -> tuple[tuple[Any, ...] | None, int]:
        count, position = decode_uvarint(buffer, position)
        if count == 0:
            return None, position
        _require(buffer, position + count - 1)  # an item takes at least one byte
        values = []
        for _ in range(count - 1):
            value, position = item.read(buffer, position)
            values.append(value)
        return tuple(values), position

    return Codec(write, read)


def array(item: Codec) -> Codec:
    """A compact array that is never null; reads as a tuple."""
    codec = nullable_array(item)

    def read(buffer: ReadBuffer, position: int) -> tuple[tuple[Any, ...], int]:
        values, position = codec.read(buffer, position)
        if values is None:
            raise Malformed("an array in a metadata record is null where it must not be")
        return values, position

    return Codec(codec.write, read)


BOOLEAN = _fixed(">?")
INT8 = _fixed(">b")
INT16 = _fixed(">h")
UINT16 = _fixed(">H")
INT32 = _fixed(">i")
INT64 = _fixed(">q")
FLOAT64 = _fixed(">d")
STRING = Codec(_write_string, _read_string)
NULLABLE_STRING = Codec(_write_nullable_string, _read_nullable_string)
BYTES = Codec(_write_bytes, _read_bytes)
IDENTIFIER = Codec(_write_uuid, _read_uuid)


def fields_codec(shape: Callable[..., Any], fields: Sequence[Field], version: int) -> Codec:
    """The codec of an entity at one version: plain fields in order, then the tagged ones that differ from
    default.

    `shape` makes the entity from keyword arguments; its defaults stand for fields that were not written.
    """
    plain = [field for field in fields if field.since <= version and field.tag is None]
    tagged = sorted(
        ((field.tag, field) for field in fields if field.since <= version and field.tag is not None),
        key=lambda pair: pair[0],
    )
    by_tag = dict(tagged)
    defaults = getattr(shape, "__dataclass_fields__", {})

    def write(out: bytearray, value: Any) -> None:
        for field in plain:
            field.codec.write(out, getattr(value, field.name))
        present = [
            (tag, field, content)
            for tag, field in tagged
            if (content := getattr(value, field.name)) != defaults[field.name].default
        ]
        out += encode_uvarint(len(present))
        for tag, field, content in present:
            encoded = bytearray()
            field.codec.write(encoded, content)
            out += encode_uvarint(tag) + encode_uvarint(len(encoded)) + encoded

    def read(buffer: ReadBuffer, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for field in plain:
            values[field.name], position = field.codec.read(buffer, position)
        count, position = decode_uvarint(buffer, position)
        for _ in range(count):
            tag, position = decode_uvarint(buffer, position)
            size, position = decode_uvarint(buffer, position)
            _require(buffer, position + size)
            known = by_tag.get(tag)
            if known is not None:  # a tag from a later version is skipped
                values[known.name], _ = known.codec.read(buffer[position : position + size], 0)
            position += size
        return shape(**values), position

    return Codec(write, read)
