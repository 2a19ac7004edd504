"""The compiled half of decoding: headers of batches to a table, records to index columns, index columns to buffers.

In: arrays. Out: numbers in arrays that the caller made, and a status. A kernel never reads or writes outside of what
it was given, whatever the bytes claim; it says so with a status other than OK.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from runnel.spark.compiling import kernel
from runnel.spark.crc import crc32c
from runnel.spark.memory import copy_bytes

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
MAGIC_AT = 16
MAGIC = 2
OLD_MESSAGE_BYTES_MIN = 14
"""Without the prefix. What Kafka had before batches may be shorter than the header of one."""
RECORD_BYTES_MIN = 7
LOG_APPEND_TIME_BIT = 0x08
VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
MICROS_PER_MS = 1000
TIMESTAMP_MS_LIMIT = (1 << 63) // MICROS_PER_MS

# Columns of the table of batches.
POSITION, END, BASE_OFFSET, LAST_OFFSET, ATTRIBUTES, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, COUNT, CRC_MATCHES = (
    range(10)
)
TABLE_COLUMNS = 10

OK = 0
BAD_LENGTH = 1
BAD_MAGIC = 2
BAD_COUNT = 3
BAD_RECORD = 4
TABLE_FULL = 5

# Columns of the index of records. Lengths are -1 for null; the header count is 0 where there are none.
OFFSET, TIMESTAMP, TIMESTAMP_TYPE, KEY_AT, KEY_LENGTH, VALUE_AT, VALUE_LENGTH, HEADERS_AT, HEADER_COUNT = range(9)
INDEX_COLUMNS = 9
# Sums over the records that were taken, so that the buffers can be made in their right sizes.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS = range(4)
# How far the walk over the records has come: whole batches, and of the one after them records and bytes.
BATCHES_DONE, RECORDS_DONE, BYTES_DONE = range(3)


@kernel
def _read_i16(data: Any, at: int) -> Any:
    return np.int64(np.int16((np.uint16(data[at]) << np.uint16(8)) | np.uint16(data[at + 1])))


@kernel
def _read_u32(data: Any, at: int) -> Any:
    value = np.int64(0)
    for index in range(4):
        value = (value << 8) | np.int64(data[at + index])
    return value


@kernel
def _read_i32(data: Any, at: int) -> Any:
    return np.int64(np.int32(_read_u32(data, at)))


@kernel
def _read_i64(data: Any, at: int) -> Any:
    return (_read_i32(data, at) << 32) | _read_u32(data, at + 4)


@kernel
def scan_batches(data: Any, position: int, check_crc: bool, table: Any) -> Any:
    """Each whole batch from `position` on becomes a row. Answers rows, status, and where the walk ended.

    A batch that is cut off ends the walk with OK: the next fetch brings it whole.
    """
    rows, limit = 0, len(data)
    while limit - position > MAGIC_AT:
        length = _read_i32(data, position + 8)
        end = position + LENGTH_PREFIX_BYTES + length
        if data[position + MAGIC_AT] < MAGIC and length >= OLD_MESSAGE_BYTES_MIN and end <= limit:
            return rows, BAD_MAGIC, position
        if limit - position < HEADER_BYTES:
            break
        if length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
            return rows, BAD_LENGTH, position
        if end > limit:
            break
        if data[position + MAGIC_AT] != MAGIC:
            return rows, BAD_MAGIC, position
        if rows == len(table):
            return rows, TABLE_FULL, position
        base_offset = _read_i64(data, position)
        row = table[rows]
        row[POSITION] = position
        row[END] = end
        row[BASE_OFFSET] = base_offset
        row[LAST_OFFSET] = base_offset + _read_i32(data, position + 23)
        row[ATTRIBUTES] = _read_i16(data, position + 21)
        row[BASE_TIMESTAMP] = _read_i64(data, position + 27)
        row[MAX_TIMESTAMP] = _read_i64(data, position + 35)
        row[PRODUCER_ID] = _read_i64(data, position + 43)
        row[COUNT] = _read_i32(data, position + 57)
        row[CRC_MATCHES] = 1
        if check_crc:
            row[CRC_MATCHES] = np.int64(crc32c(data, position + 21, end)) == _read_u32(data, position + 17)
        rows += 1
        position = end
    return rows, OK, position


@kernel
def _short_varint(data: Any, at: int, end: int) -> Any:
    """A zigzag varint of one or two bytes, as nearly all are; the position after it is -1 where it is another.

    Without a loop it costs half: this is the most of what parsing a record takes.
    """
    if at < end:
        value = np.int64(data[at])
        if value < 128:
            return (value >> 1) ^ -(value & 1), at + 1
        if at + 1 < end and data[at + 1] < 128:
            value = (value & 127) | (np.int64(data[at + 1]) << 7)
            return (value >> 1) ^ -(value & 1), at + 2
    return np.int64(0), -1


@kernel
def _varint(data: Any, at: int, end: int) -> Any:
    """A zigzag varint of 32 bits and the position after it; the position is -1 where it is cut short or too long."""
    short, after = _short_varint(data, at, end)
    if after >= 0:
        return short, after
    value, shift = np.int64(0), 0
    limit = min(end, at + VARINT_BYTES_MAX)
    while at < limit:
        byte = np.int64(data[at])
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return np.int64(0), -1


@kernel
def _varlong(data: Any, at: int, end: int) -> Any:
    """The same for 64 bits."""
    short, after = _short_varint(data, at, end)
    if after >= 0:
        return short, after
    value, shift = np.uint64(0), np.uint64(0)
    limit = min(end, at + VARLONG_BYTES_MAX)
    while at < limit:
        byte = np.uint64(data[at])
        value |= (byte & np.uint64(127)) << shift
        at += 1
        if byte < np.uint64(128):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), -1


@kernel
def _skip_bytes(data: Any, at: int, end: int) -> Any:
    """The length (negative: null) of a sized field, and the position of its content; -1 where it does not fit."""
    length, at = _varint(data, at, end)
    if at < 0 or length > end - at:
        return 0, -1
    return length, at


@kernel
def _skip_headers(data: Any, at: int, end: int, count: int) -> Any:
    """Whether `count` headers lie between `at` and `end`, filling it exactly."""
    for _ in range(count):
        length, at = _skip_bytes(data, at, end)
        if at < 0 or length < 0:
            return False
        at += length
        length, at = _skip_bytes(data, at, end)
        if at < 0:
            return False
        at += max(length, 0)
    return at == end


@kernel
def micros(timestamp_ms: int) -> Any:
    """Milliseconds as microseconds; what lies 290 000 years away stays at the edge."""
    if timestamp_ms >= TIMESTAMP_MS_LIMIT:
        return 0x7FFFFFFFFFFFFFFF
    if timestamp_ms <= -TIMESTAMP_MS_LIMIT:
        return -0x7FFFFFFFFFFFFFFF
    return timestamp_ms * MICROS_PER_MS


@kernel
def _index_batch(
    data: Any, start: int, end: int, batch: Any, first_offset: int, last_offset: int, index: Any, sums: Any, place: Any
) -> Any:
    """The records of one batch that lie in the range, from `place` on; TABLE_FULL leaves there where to go on."""
    at, row, append_time = start + place[BYTES_DONE], sums[ROWS], (batch[ATTRIBUTES] & LOG_APPEND_TIME_BIT) != 0
    room = index.shape[1]
    for number in range(place[RECORDS_DONE], batch[COUNT]):
        if row == room:
            sums[ROWS] = row
            place[RECORDS_DONE], place[BYTES_DONE] = number, at - start
            return TABLE_FULL
        length, at = _varint(data, at, end)
        if at < 0 or length < RECORD_BYTES_MIN - 1 or length > end - at:
            return BAD_RECORD
        stop = at + length
        timestamp_delta, at = _varlong(data, at + 1, stop)
        if at < 0:
            return BAD_RECORD
        offset_delta, at = _varint(data, at, stop)
        if at < 0:
            return BAD_RECORD
        key_length, key_at = _skip_bytes(data, at, stop)
        if key_at < 0:
            return BAD_RECORD
        value_length, value_at = _skip_bytes(data, key_at + max(key_length, 0), stop)
        if value_at < 0:
            return BAD_RECORD
        header_count, at = _varint(data, value_at + max(value_length, 0), stop)
        if at < 0 or header_count < 0 or header_count * 2 > stop - at:
            return BAD_RECORD
        if at != stop if header_count == 0 else not _skip_headers(data, at, stop, header_count):
            return BAD_RECORD
        offset = batch[BASE_OFFSET] + offset_delta
        if first_offset <= offset <= last_offset:
            index[OFFSET, row] = offset
            index[TIMESTAMP, row] = micros(
                batch[MAX_TIMESTAMP] if append_time else batch[BASE_TIMESTAMP] + timestamp_delta
            )
            index[TIMESTAMP_TYPE, row] = append_time
            index[KEY_AT, row], index[KEY_LENGTH, row] = key_at, key_length
            index[VALUE_AT, row], index[VALUE_LENGTH, row] = value_at, value_length
            index[HEADERS_AT, row], index[HEADER_COUNT, row] = at, header_count
            sums[KEY_BYTES] += max(key_length, 0)
            sums[VALUE_BYTES] += max(value_length, 0)
            sums[HEADERS] += header_count
            row += 1
        at = stop
    sums[ROWS] = row
    place[RECORDS_DONE], place[BYTES_DONE] = 0, 0
    return OK if at == end else BAD_RECORD


@kernel
def index_records(
    data: Any, spans: Any, batches: Any, first_offset: int, last_offset: int, index: Any, sums: Any, place: Any
) -> Any:
    """The records of every batch, in order. `spans` says where in `data` each batch's records lie.

    Answers how many batches were taken and a status; `sums` holds what was taken of them. Where `index` is full, the
    status is TABLE_FULL, and the next call with the same `place` goes on from there, in the middle of a batch.
    """
    for number in range(place[BATCHES_DONE], len(batches)):
        batch = batches[number]
        start, end, count = spans[number, 0], spans[number, 1], batch[COUNT]
        if start < 0 or end > len(data) or count < 0 or count * RECORD_BYTES_MIN > end - start:
            return number, BAD_COUNT
        place[BATCHES_DONE] = number
        status = _index_batch(data, start, end, batch, first_offset, last_offset, index, sums, place)
        if status != OK:
            return number, status
    return len(batches), OK


@kernel
def gather(data: Any, starts: Any, lengths: Any, rows: int, ends: Any, content: Any, validity: Any) -> Any:
    """A column of bytes as Arrow has it: offsets, content, and a bit per row that is not null. Answers the nulls.

    `starts` and `lengths` come from `index_records`, which has checked them; `content` is as long as their sum.
    """
    at, nulls = 0, 0
    for row in range(rows):
        ends[row] = at
        length = lengths[row]
        if length < 0:
            nulls += 1
        else:
            validity[row >> 3] |= np.uint8(1 << (row & 7))
            copy_bytes(content, at, data, starts[row], length)
            at += length
    ends[rows] = at
    return nulls


@kernel
def index_headers(data: Any, starts: Any, counts: Any, rows: int, ends: Any, index: Any, validity: Any) -> Any:
    """Where each header's key and value lie (rows of `index`: key at, key length, value at, value length).

    A record without headers has none at all: null, as in Spark's own connector. Answers how many have none.
    """
    header, without, limit = 0, 0, len(data)
    for row in range(rows):
        ends[row] = header
        if counts[row] == 0:
            without += 1
            continue
        validity[row >> 3] |= np.uint8(1 << (row & 7))
        at = starts[row]
        for _ in range(counts[row]):
            length, at = _varint(data, at, limit)
            index[0, header], index[1, header] = at, length
            length, at = _varint(data, at + length, limit)
            index[2, header], index[3, header] = at, length
            at += max(length, 0)
            header += 1
    ends[rows] = header
    return without
