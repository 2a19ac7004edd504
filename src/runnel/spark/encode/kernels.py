"""The compiled half of encoding: which partition a key belongs to, records behind each other, the header in front.

In: arrays. Out: bytes in a buffer that the caller made, never more than it holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runnel.spark.compiling import kernel
from runnel.spark.crc import crc32c
from runnel.spark.decode.kernels import LENGTH_PREFIX_BYTES
from runnel.spark.memory import copy_bytes

MURMUR_SEED = 0x9747B28C
MURMUR_MULTIPLIER = 0x5BD1E995
MAGIC = 2

# Columns of `fields`: where a row's key and value lie (length -1: null), and which of the headers are its own.
KEY_AT, KEY_LENGTH, VALUE_AT, VALUE_LENGTH, FIRST_HEADER, HEADER_COUNT = range(6)
FIELDS = 6
NOT_GIVEN = -(1 << 40)
"""In place of a partition, and beyond any that a row can name."""


@kernel
def _murmur2(data: Any, start: int, length: int) -> Any:
    """As Kafka's Java client computes it, so that equal keys meet in equal partitions whoever wrote them."""
    multiplier = np.uint32(MURMUR_MULTIPLIER)
    state = np.uint32(MURMUR_SEED) ^ np.uint32(length)
    whole = length & ~3
    for at in range(start, start + whole, 4):
        word = np.uint32(data[at]) | (np.uint32(data[at + 1]) << np.uint32(8))
        word |= (np.uint32(data[at + 2]) << np.uint32(16)) | (np.uint32(data[at + 3]) << np.uint32(24))
        word = np.uint32(word * multiplier)
        word = np.uint32((word ^ (word >> np.uint32(24))) * multiplier)
        state = np.uint32(state * multiplier) ^ word
    if length > whole:
        for rest in range(length - whole):
            state ^= np.uint32(data[start + whole + rest]) << np.uint32(8 * rest)
        state = np.uint32(state * multiplier)
    state = np.uint32((state ^ (state >> np.uint32(13))) * multiplier)
    return state ^ (state >> np.uint32(15))


@kernel
def choose_partitions(
    keys: Any, fields: Any, partition_count: int, sticky: int, given: Any, wanted: Any, chosen: Any
) -> Any:
    """The partition of each row in `wanted`: as given, by its key, or the one that keyless rows stick to.

    Answers the first row whose given partition does not exist, or -1.
    """
    for row in wanted:
        if given[row] != NOT_GIVEN:
            if given[row] >= partition_count or given[row] < 0:
                return row
            chosen[row] = given[row]
        elif fields[row, KEY_LENGTH] < 0:
            chosen[row] = sticky
        else:
            positive = _murmur2(keys, fields[row, KEY_AT], fields[row, KEY_LENGTH]) & np.uint32(0x7FFFFFFF)
            chosen[row] = np.int64(positive) % partition_count
    return -1


@kernel
def _varint_size(value: int) -> Any:
    rest = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)
    size = 1
    while rest > np.uint64(127):
        rest >>= np.uint64(7)
        size += 1
    return size


@kernel
def _put_varint(out: Any, at: int, value: int) -> Any:
    rest = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)
    while rest > np.uint64(127):
        out[at] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@kernel
def _put_bytes(out: Any, at: int, data: Any, start: int, length: int) -> Any:
    at = _put_varint(out, at, length if length >= 0 else -1)
    if length > 0:
        copy_bytes(out, at, data, start, length)
        at += length
    return at


@kernel
def _sized(length: int) -> Any:
    return _varint_size(length if length >= 0 else -1) + max(length, 0)


@kernel
def _body_size(fields: Any, row: int, headers: Any, timestamp_delta: int, offset_delta: int) -> Any:
    size = 1 + _varint_size(timestamp_delta) + _varint_size(offset_delta)
    size += _sized(fields[row, KEY_LENGTH]) + _sized(fields[row, VALUE_LENGTH])
    first, count = fields[row, FIRST_HEADER], fields[row, HEADER_COUNT]
    size += _varint_size(count)
    for header in range(first, first + count):
        size += _sized(headers[header, 1]) + _sized(headers[header, 3])
    return size


@kernel
def append_records(
    out: Any,
    at: int,
    limit: int,
    rows: Any,
    fields: Any,
    keys: Any,
    values: Any,
    headers: Any,
    header_keys: Any,
    header_values: Any,
    timestamp_delta: int,
    offset_delta: int,
) -> Any:
    """Records of `rows` behind each other from `at` on, as long as they end before `limit`.

    Answers how many were written, where the last one ends, and the size of the one that did not fit (0: all did).
    """
    taken = 0
    for row in rows:
        body = _body_size(fields, row, headers, timestamp_delta, offset_delta + taken)
        size = _varint_size(body) + body
        if at + size > limit:
            return taken, at, size
        at = _put_varint(out, at, body)
        out[at] = 0
        at = _put_varint(out, at + 1, timestamp_delta)
        at = _put_varint(out, at, offset_delta + taken)
        at = _put_bytes(out, at, keys, fields[row, KEY_AT], fields[row, KEY_LENGTH])
        at = _put_bytes(out, at, values, fields[row, VALUE_AT], fields[row, VALUE_LENGTH])
        first, count = fields[row, FIRST_HEADER], fields[row, HEADER_COUNT]
        at = _put_varint(out, at, count)
        for header in range(first, first + count):
            at = _put_bytes(out, at, header_keys, headers[header, 0], headers[header, 1])
            at = _put_bytes(out, at, header_values, headers[header, 2], headers[header, 3])
        taken += 1
    return taken, at, 0


@kernel
def _put_big_endian(out: Any, at: int, value: Any, size: int) -> None:
    for index in range(size):
        out[at + index] = np.uint8((value >> (8 * (size - 1 - index))) & 255)


@kernel
def seal(
    out: Any,
    end: int,
    attributes: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    """Write the header in front of the records that lie from HEADER_BYTES to `end`, CRC and all."""
    _put_big_endian(out, 0, 0, 8)
    _put_big_endian(out, 8, end - LENGTH_PREFIX_BYTES, 4)
    _put_big_endian(out, 12, -1, 4)
    out[16] = MAGIC
    _put_big_endian(out, 21, attributes, 2)
    _put_big_endian(out, 23, count - 1, 4)
    _put_big_endian(out, 27, base_timestamp, 8)
    _put_big_endian(out, 35, max_timestamp, 8)
    _put_big_endian(out, 43, producer_id, 8)
    _put_big_endian(out, 51, producer_epoch, 2)
    _put_big_endian(out, 53, base_sequence, 4)
    _put_big_endian(out, 57, count, 4)
    _put_big_endian(out, 17, np.int64(crc32c(out, 21, end)), 4)
