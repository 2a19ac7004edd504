"""Columns of an Arrow batch as the kernels want them: plain arrays of positions, lengths and bytes.

In: a RecordBatch with some of the columns key, value, headers, topic, partition. Out: `Rows`, or RowError where a row
says something that cannot be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from runnel.spark.encode.kernels import (
    FIELDS,
    FIRST_HEADER,
    HEADER_COUNT,
    KEY_AT,
    KEY_LENGTH,
    NOT_GIVEN,
    VALUE_AT,
    VALUE_LENGTH,
)
from runnel.spark.errors import RowError

Numbers: TypeAlias = Any
"""A numpy array."""
KEY_SHOWN_BYTES = 60
_NO_BYTES = np.zeros(0, np.uint8)
_NO_BYTES.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Rows:
    count: int
    first_number: int
    """The number of the first row within its task, for messages."""
    fields: Numbers
    keys: Numbers
    values: Numbers
    headers: Numbers
    header_keys: Numbers
    header_values: Numbers
    partitions: Numbers
    """The partition that each row names, or NOT_GIVEN."""
    topics: list[tuple[str, Numbers]]
    """Each topic and its rows, in order."""

    def describe(self, row: int) -> str:
        start, length = int(self.fields[row, KEY_AT]), int(self.fields[row, KEY_LENGTH])
        return describe_row(self.first_number + row, None if length < 0 else self.keys[start : start + length])


def describe_row(number: int, key: Numbers | bytes | None) -> str:
    """What to call a row in a message, by its number within the task."""
    named = "without key" if key is None else f"with key {bytes(key[:KEY_SHOWN_BYTES])!r}"
    return f"row {number} of the task, {named}"


def read_rows(batch: pa.RecordBatch, topic: str | None, first_number: int) -> Rows:
    """`topic`, where given, is the topic of every row, whatever the column says; as in Spark's Kafka connector."""
    count = batch.num_rows
    fields = np.zeros((count, FIELDS), np.int64)
    keys = _take_bytes(_column(batch, "key"), fields, KEY_AT, KEY_LENGTH)
    values = _take_bytes(_column(batch, "value"), fields, VALUE_AT, VALUE_LENGTH)
    headers, header_keys, header_values = _take_headers(_column(batch, "headers"), fields, first_number)
    rows = Rows(
        count,
        first_number,
        fields,
        keys,
        values,
        headers,
        header_keys,
        header_values,
        _take_partitions(_column(batch, "partition"), count),
        [] if topic is None else [(topic, np.arange(count))],
    )
    if topic is None:
        rows.topics.extend(_by_topic(_column(batch, "topic"), rows))
    return rows


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """By name; Spark's own resolution has ignored case by then, and so do we."""
    for index, found in enumerate(batch.schema.names):
        if found.lower() == name:
            return batch.column(index)
    return None


def _take_bytes(column: pa.Array | None, fields: Numbers, at: int, length: int) -> Numbers:
    if column is None:
        fields[:, length] = -1
        return _NO_BYTES
    starts, lengths, data = bytes_of(column)
    fields[:, at], fields[:, length] = starts, lengths
    return data


def bytes_of(column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Where each value lies, how long it is (-1: null), and the bytes."""
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _, ends, content = column.buffers()
    if ends is None or not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), _NO_BYTES
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths[~column.is_valid().to_numpy(zero_copy_only=False)] = -1
    data = np.frombuffer(content, np.uint8).view() if content is not None and content.size else _NO_BYTES
    data.flags.writeable = False
    return offsets[:-1], lengths, data


def _take_headers(column: pa.Array | None, fields: Numbers, first_number: int) -> tuple[Numbers, Numbers, Numbers]:
    if column is None or column.null_count == len(column):
        return np.zeros((0, 4), np.int64), _NO_BYTES, _NO_BYTES
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.diff(offsets)
    counts[~column.is_valid().to_numpy(zero_copy_only=False)] = 0
    fields[:, FIRST_HEADER], fields[:, HEADER_COUNT] = offsets[:-1], counts
    # Flattened, a header that is null has a null key.
    pair_keys, pair_values = column.values.flatten()
    headers = np.zeros((len(pair_keys), 4), np.int64)
    headers[:, 0], headers[:, 1], header_keys = bytes_of(pair_keys)
    headers[:, 2], headers[:, 3], header_values = bytes_of(pair_values)
    without_key = np.concatenate(([0], np.cumsum(headers[:, 1] < 0)))
    wrong = (without_key[offsets[1:]] > without_key[offsets[:-1]]) & (counts > 0)
    if wrong.any():
        raise RowError(f"row {first_number + int(wrong.argmax())} of the task has a header without a key")
    return headers, header_keys, header_values


def _take_partitions(column: pa.Array | None, count: int) -> Numbers:
    if column is None:
        return np.full(count, NOT_GIVEN, np.int64)
    return column.cast(pa.int64()).fill_null(NOT_GIVEN).to_numpy(zero_copy_only=False)


def _by_topic(column: pa.Array | None, rows: Rows) -> list[tuple[str, Numbers]]:
    if column is None:
        raise RowError("there is no topic column and no option topic: give one of them")
    encoded = column.dictionary_encode()
    if column.null_count:
        row = int(np.flatnonzero(~column.is_valid().to_numpy(zero_copy_only=False))[0])
        raise RowError(f"{rows.describe(row)}, has a null topic: filter such rows out, or set the option topic")
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    return [(name, np.flatnonzero(indices == number)) for number, name in enumerate(encoded.dictionary.to_pylist())]
