"""`Struct`: what a decoded message is. Attributes by name, whatever the version.

Owns: the base class and the making of one subclass with slots per entity and version. A field that this
version lacks reads as its default in the versions that have it; a field that no version has is an
AttributeError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from runnel.wire.schemas import EntitySchema, FieldSchema, Path, find_field


class Struct:
    """A decoded message or a nested entity of one. Values are plain: int, str, bytes, UUID, list, Struct,
    None."""

    __slots__ = ()
    _schema: ClassVar[EntitySchema]

    def __getattr__(self, name: str) -> Any:
        # Python comes here only if there is no slot of that name, or it was never filled.
        schema = type(self)._schema
        if name.startswith("_"):
            raise AttributeError(name)
        field = find_field(schema.api_key, schema.direction, schema.path, name)
        if field is None:
            raise AttributeError(f"no version of {schema.name} has a field {name!r}")
        return default_value(field)

    def to_dict(self) -> dict[str, Any]:
        """The fields of this version as plain values, nested ones too: what the encoders take."""
        return {field.name: _plain(getattr(self, field.name)) for field in self._schema.fields}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Struct) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self._schema.fields)
        return f"{self._schema.name}V{self._schema.version}({values})"


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, list) else value


_classes: dict[tuple[int, str, int, Path], type[Struct]] = {}


def struct_class(schema: EntitySchema) -> type[Struct]:
    """The subclass of Struct that has this entity's fields as slots, filled by position."""
    key = (schema.api_key, schema.direction, schema.version, schema.path)
    if key not in _classes:
        _classes[key] = _make_class(schema)
    return _classes[key]


def _make_class(schema: EntitySchema) -> type[Struct]:
    names = [field.name for field in schema.fields]
    body = [f"    self.{name} = {name}" for name in names] or ["    pass"]
    source = "\n".join([f"def __init__(self, {', '.join(names)}):", *body])
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    attributes = {"__slots__": tuple(names), "__init__": namespace["__init__"], "_schema": schema}
    return type(schema.name, (Struct,), attributes)


def default_value(field: FieldSchema) -> Any:
    """A fresh default: lists are never shared, entities are Structs of their own defaults."""
    if field.default is None:
        return None
    if field.is_array:
        return list(field.default)
    if field.entity is not None and isinstance(field.default, Mapping):
        made = struct_class(field.entity)
        return made(*(default_value(inner) for inner in field.entity.fields))
    return field.default
