"""kio as the oracle: random messages in our terms, and the bytes that kio writes for them.

`messages_of` draws a mapping as `runnel.wire.messages` takes it; `kio_bytes` walks kio's own dataclasses (not our
schemas) to build kio's entity from the mapping and serialises it with kio's writer.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import types
import typing
import uuid
from functools import cache
from typing import Any

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from runnel.wire.schemas import Direction, EntitySchema, FieldSchema, load
from runnel.wire.types import ZERO_UUID

TEXT = st.text(max_size=12) | st.just("ü" * 100) | st.just("x" * 200)
UUIDS = st.just(ZERO_UUID) | st.uuids()
# What survives kio's way through timedelta and datetime, which rounds larger values.
_DURATION_MS_MAX = 10**12
_TIMESTAMP_MS_MAX = 250_000_000_000_000


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "uint16": st.integers(0, 0xFFFF),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "error_code": st.sampled_from([int(code) for code in KioErrorCode]),
    "timedelta_i32": _integers(32),
    "timedelta_i64": st.integers(-_DURATION_MS_MAX, _DURATION_MS_MAX),
    "datetime_i64": st.integers(0, _TIMESTAMP_MS_MAX),
    "uuid": UUIDS,
    "string": TEXT,
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=20),
}


def _field_values(field: FieldSchema) -> st.SearchStrategy[Any]:
    values = _VALUES[field.kind] if field.entity is None else entity_values(field.entity)
    if field.is_array:
        values = st.lists(values, max_size=3)
    if field.nullable and not (field.tag is not None and field.kind == "string"):
        values = st.none() | values
    if field.tag is not None and field.entity is None:
        # Often the default, so that sections with some and with no fields are drawn.
        default = list(field.default) if field.is_array and field.default is not None else field.default
        values = st.just(default) | values
    return values


def entity_values(schema: EntitySchema) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: _field_values(field) for field in schema.fields})


@cache
def messages_of(api_key: int, direction: Direction, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return entity_values(load(api_key, direction, version))


def kio_bytes(api_key: int, direction: Direction, version: int, message: dict[str, Any]) -> bytes:
    load_schema = load_request_schema if direction == "request" else load_response_schema
    entity_class = load_schema(api_key, version)
    buffer = io.BytesIO()
    entity_writer(entity_class)(buffer, _to_kio(entity_class, message))
    return buffer.getvalue()


def _to_kio(entity_class: Any, message: dict[str, Any]) -> Any:
    values = {}
    for field in dataclasses.fields(entity_class):
        kind = field.metadata.get("kafka_type", "")
        name = f"{field.name}_ms" if kind.startswith("timedelta") else field.name
        values[field.name] = _value_to_kio(field.type, kind, message[name])
    return entity_class(**values)


def _value_to_kio(annotation: Any, kind: str, value: Any) -> Any:
    optional = typing.get_origin(annotation) is types.UnionType
    if optional:
        annotation = next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    if value is None:
        return None
    if typing.get_origin(annotation) is tuple:
        item_type = typing.get_args(annotation)[0]
        return tuple(_value_to_kio(item_type, kind, item) for item in value)
    if dataclasses.is_dataclass(annotation):
        return _to_kio(annotation, value)
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "datetime_i64":
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return None if optional and value == -1 else epoch + datetime.timedelta(milliseconds=value)
    if kind == "error_code":
        return KioErrorCode(value)
    if isinstance(value, uuid.UUID):
        return None if value == ZERO_UUID else value
    return value
