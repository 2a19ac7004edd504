"""What fields each version of each message has, read from kio's generated dataclasses.

In: API key, direction and version; out: an `EntitySchema`, our neutral description from which `decoders`
and `encoders` generate code. Here, and only here, kio's ways are translated into ours: durations become
`<name>_ms` integers, timestamps and error codes integers, "no uuid" the zero uuid. kio's modules are
imported on first use of a version, because each costs milliseconds; a field that a version lacks is looked
up in the other versions.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from runnel.wire.types import ZERO_UUID

Direction: TypeAlias = Literal["request", "response"]
Path: TypeAlias = tuple[str, ...]
"""Where an entity sits in its message: the field names from the top, () for the message itself."""

# The struct code of every kind of fixed size; uuids are handled as 16 bytes.
FIXED_CODES = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float64": "d", "bool": "?", "error_code": "h", "timedelta_i32": "i", "timedelta_i64": "q",
    "datetime_i64": "q", "uuid": "16s",
}  # fmt: skip
_ZERO_BY_KIND: dict[str, Any] = {
    "string": "", "bytes": b"", "records": None, "bool": False, "uuid": ZERO_UUID, "float64": 0.0,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSchema:
    name: str
    kind: str
    """A key of FIXED_CODES, or string, bytes, records, entity."""
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    """Of an array `()` or None, of an entity a mapping or None."""
    entity: EntitySchema | None


@dataclasses.dataclass(frozen=True, slots=True)
class EntitySchema:
    name: str
    api_key: int
    direction: Direction
    version: int
    path: Path
    flexible: bool
    fields: tuple[FieldSchema, ...]

    def field(self, name: str) -> FieldSchema | None:
        return next((field for field in self.fields if field.name == name), None)

    def defaults(self) -> dict[str, Any]:
        return {field.name: field.default for field in self.fields}


class UnknownVersion(ValueError):
    """No such API, or no such version of it."""


def versions(api_key: int) -> tuple[int, ...]:
    """Every version of an API that there is a schema for, rising."""
    name = api_key_map.get(api_key)
    return tuple(sorted(schema_name_map[name])) if name is not None else ()


@cache
def load(api_key: int, direction: Direction, version: int) -> EntitySchema:
    """The schema of one message."""
    if version not in versions(api_key):
        raise UnknownVersion(f"there is no version {version} of API {api_key}")
    targets = schema_name_map[api_key_map[api_key]][version]
    target = targets[EntityType.request if direction == "request" else EntityType.response]
    module_name, class_name = target.split(":")
    entity_class = getattr(import_module(module_name), class_name)
    return _entity(entity_class, direction, ())


@cache
def find_field(api_key: int, direction: Direction, path: Path, name: str) -> FieldSchema | None:
    """The field of that name at that place in any version, the newest first; None if no version has it."""
    for version in reversed(versions(api_key)):
        entity: EntitySchema | None = load(api_key, direction, version)
        for step in path:
            inner = entity.field(step) if entity is not None else None
            entity = inner.entity if inner is not None else None
        found = entity.field(name) if entity is not None else None
        if found is not None:
            return found
    return None


def _entity(entity_class: Any, direction: Direction, path: Path) -> EntitySchema:
    return EntitySchema(
        name=entity_class.__name__,
        api_key=int(entity_class.__api_key__),
        direction=direction,
        version=int(entity_class.__version__),
        path=path,
        flexible=entity_class.__flexible__,
        fields=tuple(_field(field, direction, path) for field in dataclasses.fields(entity_class)),
    )


def _field(field: dataclasses.Field[Any], direction: Direction, path: Path) -> FieldSchema:
    item_type, nullable = _without_none(field.type)
    is_array = typing.get_origin(item_type) is tuple
    if is_array:
        item_type, _ = _without_none(typing.get_args(item_type)[0])
    kind = "entity" if dataclasses.is_dataclass(item_type) else field.metadata["kafka_type"]
    name = f"{field.name}_ms" if kind.startswith("timedelta") else field.name
    entity = _entity(item_type, direction, (*path, name)) if kind == "entity" else None
    # A null uuid or timestamp is kio's way of saying zero or -1: on the wire both are always there.
    nullable = nullable and (is_array or kind not in FIXED_CODES)
    return FieldSchema(
        name,
        kind,
        is_array,
        nullable,
        field.metadata.get("tag"),
        _default(field, kind, is_array, entity),
        entity,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) is not types.UnionType:
        return annotation, False
    (inner,) = (part for part in typing.get_args(annotation) if part is not types.NoneType)
    return inner, True


def _default(field: dataclasses.Field[Any], kind: str, is_array: bool, entity: EntitySchema | None) -> Any:
    """kio's default in our terms. Where it has none: zero, empty, or of an entity its fields' defaults."""
    value = field.default
    if value is dataclasses.MISSING:
        if is_array:
            return ()
        return entity.defaults() if entity is not None else _ZERO_BY_KIND.get(kind, 0)
    if value is None:
        return {"uuid": ZERO_UUID, "datetime_i64": -1}.get(kind) if not is_array else None
    if entity is not None and not is_array:
        return entity.defaults()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
