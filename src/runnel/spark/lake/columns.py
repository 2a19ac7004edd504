"""Types as lake tables have them: times in UTC, and columns that may be null.

In: Arrow schemas and batches as Spark makes them. Out: the same with other types, through all nesting.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

Change = Callable[[pa.Field], pa.Field]


def nullable(schema: pa.Schema) -> pa.Schema:
    """Every column, and every field in it, may be null; keys of maps cannot."""
    return pa.schema([_changed(field, lambda field: field.with_nullable(True)) for field in schema])


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark hands times over in the zone of its session: the same instants, with another zone's name."""
    schema = pa.schema([_changed(field, _utc) for field in batch.schema])
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _utc(field: pa.Field) -> pa.Field:
    kind = field.type
    return field.with_type(pa.timestamp(kind.unit, "UTC")) if pa.types.is_timestamp(kind) and kind.tz else field


def _changed(field: pa.Field, change: Change) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        field = field.with_type(pa.struct([_changed(inner, change) for inner in kind]))
    elif pa.types.is_map(kind):
        key = kind.key_field.with_type(_changed(kind.key_field, change).type)
        field = field.with_type(pa.map_(key, _changed(kind.item_field, change), kind.keys_sorted))
    elif pa.types.is_list(kind):
        field = field.with_type(pa.list_(_changed(kind.value_field, change)))
    return change(field)
