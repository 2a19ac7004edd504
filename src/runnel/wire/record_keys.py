"""The keys of a batch's records, and where each record lies, without opening them.

In: where the records of one batch lie, decompressed; out: `Walked`. Compaction and the check for missing keys need
nothing else of a record, so values and headers are jumped over. This is the loop that compaction spends its time in:
it is written for speed, and everything that rarely happens is left to a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runnel.wire.errors import Malformed
from runnel.wire.varints import decode_varint, decode_varlong, encode_varint

KEY_BYTES_SHORT = 23
"""Longer keys go through `shorten`, which a caller may use to remember less of them."""
_SIZE_SHORT = KEY_BYTES_SHORT << 1  # as a zigzag varint


class Walked(NamedTuple):
    keys: list[bytes | None]
    starts: list[int]
    """Where each record starts, and at the end where the last one ends."""
    null_values: list[int]
    """The numbers of the records without a value."""


def walk_records(data: bytes, at: int, end_of_all: int, count: int, shorten: Callable[[bytes], bytes]) -> Walked:
    """Walk `count` records that lie exactly from `at` to `end_of_all`; Malformed where they do not."""
    keys: list[bytes | None] = []
    starts: list[int] = []
    null_values: list[int] = []
    add_key, add_start = keys.append, starts.append
    try:
        for number in range(count):
            add_start(at)
            length = data[at]
            at += 1
            if length > 127:
                byte = data[at]
                if byte > 127:
                    length, at = _long_length(data, at - 1)
                else:
                    at += 1
                    length = length & 127 | byte << 7
            if length & 1:
                raise Malformed("a record has a negative length")
            end = at + (length >> 1)
            at += 1  # the attributes of a record, unused in magic 2
            while data[at] > 127:  # timestamp delta
                at += 1
            at += 1
            while data[at] > 127:  # offset delta
                at += 1
            at += 1
            size = data[at]
            at += 1
            if size & 1 and size < 128:
                add_key(None)
            elif size > _SIZE_SHORT:
                key, at = _long_key(data, at - 1, shorten)
                add_key(key)
            else:
                following = at + (size >> 1)
                add_key(data[at:following])
                at = following
            if data[at] & 1:
                null_values.append(number)
            if at >= end:
                raise Malformed("a record is shorter than its key")
            at = end
    except IndexError:
        raise Malformed(f"{count} records do not fit into their batch") from None
    if at != end_of_all:
        raise Malformed(f"{count} records end {abs(end_of_all - at)} bytes off the end of their batch")
    add_start(at)
    return Walked(keys, starts, null_values)


def _long_length(data: bytes, at: int) -> tuple[int, int]:
    length, at = decode_varint(data, at)
    return length << 1 if length >= 0 else 1, at


def _long_key(data: bytes, at: int, shorten: Callable[[bytes], bytes]) -> tuple[bytes | None, int]:
    size, at = decode_varint(data, at)
    if size < 0:
        return None, at
    following = at + size
    if following > len(data):
        raise Malformed("a key is longer than its batch")
    key = data[at:following]
    return (shorten(key) if size > KEY_BYTES_SHORT else key), following


def timestamp_delta(data: bytes, start: int) -> tuple[int, int]:
    """Of the record that starts there: its timestamp less the base timestamp, and the position after that number."""
    return decode_varlong(data, _attributes_at(data, start) + 1)


def record_end(data: bytes, start: int) -> int:
    """Where the record that starts there ends."""
    length, at = decode_varint(data, start)
    return at + length


def has_null_value(data: bytes, start: int) -> bool:
    _, at = timestamp_delta(data, start)
    _, at = decode_varint(data, at)  # offset delta
    size, at = decode_varint(data, at)
    return data[at + max(size, 0)] & 1 == 1


def rebase(data: bytes, start: int, end: int, shift: int) -> bytes:
    """The record from `start` to `end` in a batch whose base timestamp is later by `shift`."""
    delta, after = timestamp_delta(data, start)
    attributes_at = _attributes_at(data, start)
    body = data[attributes_at : attributes_at + 1] + encode_varint(delta - shift) + data[after:end]
    return encode_varint(len(body)) + body


def _attributes_at(data: bytes, at: int) -> int:
    while data[at] > 127:
        at += 1
    return at + 1
