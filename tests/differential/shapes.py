"""Requests made from their schema alone, so that an API is compared from the day on which it is advertised.

In: API key, version. Out: bodies: all defaults; one item in every array; nulls wherever they may be; odd values.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from runnel.wire.schemas import EntitySchema, FieldSchema, load

NUMBERS = {"int8": 1, "int16": 1, "int32": 1, "int64": 1, "uint16": 1, "timedelta_i32": 1, "timedelta_i64": 1}
IN_TIME = {"timeout_ms": 30_000}  # Kafka does nothing in no time
ALWAYS: dict[int, dict[str, Any]] = {
    0: {"acks": 1, **IN_TIME},  # with acks=0 there is no reply to compare
    1: {"replica_id": -1},
    18: {"client_software_name": "differential", "client_software_version": "1"},
    **dict.fromkeys((19, 20, 21, 37, 43, 45, 46, 57), IN_TIME),
}
STRANGER = uuid.UUID("4d5a5ec4-5c5f-1f7f-8d0a-1c5ddc6f0a11")

Fill = Callable[[FieldSchema], Any]


def bodies(api_key: int, version: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What it is, and the body."""
    schema = load(api_key, "request", version)
    fixed = {name: value for name, value in ALWAYS.get(api_key, {}).items() if schema.field(name)}
    yield "defaults", fixed
    for name, fill in FILLS.items():
        yield name, filled(schema, fill) | fixed


def filled(schema: EntitySchema, fill: Fill) -> dict[str, Any]:
    """Every array has one item, every leaf is what `fill` says."""
    return {field.name: _value(field, fill) for field in schema.fields if field.tag is None}


def _value(field: FieldSchema, fill: Fill) -> Any:
    if field.nullable and fill is _null:
        return None
    item = filled(field.entity, fill) if field.entity is not None else fill(field)
    return [item] if field.is_array else item


def _default(field: FieldSchema) -> Any:
    return {"string": "", "bytes": b"", "records": None, "bool": False, "uuid": uuid.UUID(int=0), "float64": 0.0}.get(
        field.kind, 0
    )


def _null(field: FieldSchema) -> Any:
    return _default(field)


def _something(field: FieldSchema) -> Any:
    values = {"string": "nobody", "bytes": b"\0", "records": b"\0", "bool": True, "uuid": STRANGER, "float64": 1.0}
    return values.get(field.kind, 1)


def _negative(field: FieldSchema) -> Any:
    return -1 if field.kind in NUMBERS and field.kind != "uint16" else _something(field)


FILLS: dict[str, Fill] = {
    "one item of defaults": _default,
    "nulls": _null,
    "one item of something": _something,
    "negative numbers": _negative,
}
