"""The row of Spark's Kafka connector, column by column, as Arrow arrays.

In: an index of records and the bytes that it points into. Out: a RecordBatch of exactly the columns that were asked
for, in their order, with the types that Spark insists on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from runnel.spark.decode import kernels
from runnel.spark.decode.kernels import (
    HEADER_COUNT,
    HEADERS,
    HEADERS_AT,
    KEY_AT,
    KEY_BYTES,
    KEY_LENGTH,
    OFFSET,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE_AT,
    VALUE_BYTES,
    VALUE_LENGTH,
)

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(HEADER_TYPE),
}

Numbers: TypeAlias = Any
"""A numpy array: numbers for kernels, bytes for memoryviews."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one partition, still where they lie in `data`."""

    topic: str
    partition: int
    data: Numbers
    index: Numbers
    sums: Sequence[int]
    count: int


def record_batch(rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that the schema names, in any case, as Spark's own resolution has it."""
    return pa.RecordBatch.from_arrays([_MAKERS[name.lower()](rows) for name in schema.names], schema=schema)


def _bytes_array(
    data: Numbers, starts: Numbers, lengths: Numbers, count: int, size: int, kind: pa.DataType
) -> pa.Array:
    # Arrow's allocator keeps its pages; fresh ones from the kernel would cost more than the copying.
    ends, content = pa.allocate_buffer(4 * (count + 1)), pa.allocate_buffer(size)
    validity = np.zeros((count + 7) >> 3, np.uint8)
    nulls = kernels.gather(
        data,
        starts,
        lengths,
        count,
        np.frombuffer(ends, np.int32),
        np.frombuffer(content, np.uint8) if size else np.empty(0, np.uint8),
        validity,
    )
    bitmap = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(kind, count, [bitmap, ends, content], nulls)


def _key(rows: Rows) -> pa.Array:
    index = rows.index
    return _bytes_array(rows.data, index[KEY_AT], index[KEY_LENGTH], rows.count, rows.sums[KEY_BYTES], pa.binary())


def _value(rows: Rows) -> pa.Array:
    index = rows.index
    size = rows.sums[VALUE_BYTES]
    return _bytes_array(rows.data, index[VALUE_AT], index[VALUE_LENGTH], rows.count, size, pa.binary())


def _headers(rows: Rows) -> pa.Array:
    count, total = rows.count, rows.sums[HEADERS]
    ends = pa.allocate_buffer(4 * (count + 1))
    validity, index = np.zeros((count + 7) >> 3, np.uint8), np.empty((4, total), np.int64)
    without = kernels.index_headers(
        rows.data,
        rows.index[HEADERS_AT],
        rows.index[HEADER_COUNT],
        count,
        np.frombuffer(ends, np.int32),
        index,
        validity,
    )
    key_bytes, value_bytes = int(index[1].sum()), int(np.maximum(index[3], 0).sum())
    keys = _text_array(_bytes_array(rows.data, index[0], index[1], total, key_bytes, pa.binary()))
    values = _bytes_array(rows.data, index[2], index[3], total, value_bytes, pa.binary())
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    bitmap = pa.py_buffer(validity) if without else None
    return pa.Array.from_buffers(TYPES["headers"], count, [bitmap, ends], without, children=[pairs])


def _text_array(keys: pa.Array) -> pa.Array:
    """Header keys as text; bytes that are not UTF-8 become the replacement character, as Java reads them."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


_MAKERS: dict[str, Callable[[Rows], pa.Array]] = {
    "key": _key,
    "value": _value,
    "topic": lambda rows: pa.repeat(pa.scalar(rows.topic, pa.string()), rows.count),
    "partition": lambda rows: pa.array(np.full(rows.count, rows.partition, np.int32)),
    "offset": lambda rows: pa.array(rows.index[OFFSET]),
    "timestamp": lambda rows: pa.array(rows.index[TIMESTAMP]).view(TYPES["timestamp"]),
    "timestamptype": lambda rows: pa.array(rows.index[TIMESTAMP_TYPE].astype(np.int32)),
    "headers": _headers,
}
