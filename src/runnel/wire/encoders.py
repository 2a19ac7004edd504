"""Generates, for one version of one message, the function that encodes a mapping into bytes.

In: an `EntitySchema`; out: a function `mapping -> bytearray`. The mapping may be written against the union
of all versions: what it lacks gets its default, what this version lacks is left out, and a key that no
version has raises KeyError, for that is our own mistake. kio's writer is not used: it needs dataclasses
built first and takes 16 ms for the metadata of 1200 partitions; property tests hold the two equal byte for
byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct as Layout
from typing import Any, TypeAlias

from runnel.wire.emitter import Emitter
from runnel.wire.schemas import FIXED_CODES, EntitySchema, FieldSchema, find_field
from runnel.wire.types import ZERO_UUID

Encoder: TypeAlias = Callable[[Mapping[str, Any]], bytearray]

_PACKERS_KEPT = 256


def compile_encoder(schema: EntitySchema) -> Encoder:
    """The encoder of one message; compiled once per version and kept by `messages`."""
    emitter = _Writer()
    emitter.line("def encode(m):")
    emitter.depth += 1
    emitter.line("out = bytearray()")
    emitter.entity(schema, "m", "out")
    emitter.line("return out")
    namespace = emitter.namespace
    exec(compile("\n".join(emitter.lines), f"<encoder of {schema.name} v{schema.version}>", "exec"), namespace)
    encoder: Encoder = namespace["encode"]
    return encoder


class _KnownKeys(set[str]):
    """The keys that a mapping for this entity may have; learns those of other versions when it meets them."""

    def __init__(self, schema: EntitySchema) -> None:
        super().__init__(field.name for field in schema.fields)
        self._schema = schema

    def learn(self, mapping: Mapping[str, Any]) -> None:
        schema = self._schema
        for key in mapping:
            if key in self:
                continue
            if find_field(schema.api_key, schema.direction, schema.path, key) is None:
                raise KeyError(f"no version of {schema.name} has a field {key!r}")
            self.add(key)


class _Packers(dict[int, Callable[..., bytes]]):
    """`pack` for n values of one struct code, by n; the common lengths are kept."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, count: int) -> Callable[..., bytes]:
        pack = Layout(f">{count}{self._code}").pack
        if count < _PACKERS_KEPT:
            self[count] = pack
        return pack


_PACKERS = {code: _Packers(code) for code in "bhiqBHIQd?"}


def _uuid_bytes(value: Any) -> bytes:
    raw: bytes = (value or ZERO_UUID).bytes
    return raw


def _differs(mapping: Mapping[str, Any] | None, defaults: Mapping[str, Any]) -> bool:
    """Whether a tagged entity says anything: one that equals its defaults is not written."""
    if mapping is None:
        return False
    return any(mapping.get(name, default) != default for name, default in defaults.items())


class _Writer(Emitter):
    """Writes the source that writes entities."""

    def __init__(self) -> None:
        super().__init__({"uuid_bytes": _uuid_bytes, "differs": _differs})

    def entity(self, schema: EntitySchema, mapping: str, out: str) -> None:
        """Source that appends the entity held by the variable `mapping` to the variable `out`."""
        known = self.constant(_KnownKeys(schema), "known")
        self.line(f"if not {known}.issuperset({mapping}): {known}.learn({mapping})")
        run: list[tuple[str, str]] = []
        for field in schema.fields:
            if field.tag is not None:
                continue
            if field.kind in FIXED_CODES and not field.is_array:
                run.append((FIXED_CODES[field.kind], self._fixed_value(field, self._get(field, mapping))))
                continue
            self._fixed_run(run, out)
            self._field(field, schema.flexible, self._value(field, mapping), out)
        tags = [field for field in schema.fields if field.tag is not None]
        if schema.flexible and not tags:
            run.append(("x", ""))  # no tagged fields: a zero byte, packed with what is before it
        self._fixed_run(run, out)
        if tags:
            self._tagged_section(tags, mapping, out)

    def _get(self, field: FieldSchema, mapping: str) -> str:
        default = field.default
        literal = repr(default) if default is None or isinstance(default, bool | int | str | bytes) else ""
        if default == () and field.is_array:
            literal = "()"
        return f"{mapping}.get({field.name!r}, {literal or self.constant(default, 'default')})"

    def _value(self, field: FieldSchema, mapping: str) -> str:
        variable = self.fresh()
        self.line(f"{variable} = {self._get(field, mapping)}")
        return variable

    def _fixed_value(self, field: FieldSchema, expression: str) -> str:
        if field.kind == "uuid":
            return f"uuid_bytes({expression})"
        return expression

    def _fixed_run(self, run: list[tuple[str, str]], out: str) -> None:
        if not run:
            return
        pack = self.constant(Layout(">" + "".join(code for code, _ in run)).pack, "pack")
        self.line(f"{out} += {pack}({', '.join(expression for _, expression in run if expression)})")
        run.clear()

    def _field(self, field: FieldSchema, flexible: bool, value: str, out: str) -> None:
        if field.is_array:
            self._array(field, flexible, value, out)
        elif field.entity is not None:
            self._entity_field(field, field.entity, value, out)
        else:
            style = "compact" if flexible else "legacy"
            noun = "string" if field.kind == "string" else "bytes"
            writer = self.primitive(f"{style}_{noun}")
            self._refuse_null(field, value)
            self.line(f"{out} += {writer}({value})")

    def _refuse_null(self, field: FieldSchema, value: str) -> None:
        if not field.nullable:
            self.line(f"if {value} is None: raise TypeError('field {field.name} cannot be null here')")

    def _entity_field(self, field: FieldSchema, entity: EntitySchema, value: str, out: str) -> None:
        if not field.nullable or field.tag is not None:
            self.entity(entity, value, out)
            return
        # A nullable struct has a byte in front: -1 for null, else 1 (KIP-893).
        self.line(f"if {value} is None: {out}.append(255)")
        self.line("else:")
        self.depth += 1
        self.line(f"{out}.append(1)")
        self.entity(entity, value, out)
        self.depth -= 1

    def _array(self, field: FieldSchema, flexible: bool, value: str, out: str) -> None:
        count_writer = self.primitive("compact_count" if flexible else "legacy_count")
        if not field.nullable:
            self._refuse_null(field, value)
            self._array_items(field, flexible, value, out, count_writer)
            return
        self.line(f"if {value} is None: {out} += {count_writer}(-1)")
        self.line("else:")
        self.depth += 1
        self._array_items(field, flexible, value, out, count_writer)
        self.depth -= 1

    def _array_items(self, field: FieldSchema, flexible: bool, value: str, out: str, count_writer: str) -> None:
        count = self.fresh("n")
        self.line(f"{count} = len({value})")
        if flexible:
            self.line(f"if {count} < 127: {out}.append({count} + 1)")
            self.line(f"else: {out} += {count_writer}({count})")
        else:
            self.line(f"{out} += {count_writer}({count})")
        code = FIXED_CODES.get(field.kind)
        if code is not None and code != "16s":
            self.line(f"{out} += {self.constant(_PACKERS[code], 'packers')}[{count}](*{value})")
            return
        item = self.fresh("m")
        self.line(f"for {item} in {value}:")
        self.depth += 1
        if field.entity is not None:
            self.entity(field.entity, item, out)
        elif code == "16s":
            self.line(f"{out} += uuid_bytes({item})")
        else:
            self._field(_item_of(field), flexible, item, out)
        self.depth -= 1

    def _tagged_section(self, fields: list[FieldSchema], mapping: str, out: str) -> None:
        """Fields that differ from their default, each written to a buffer of its own to know its size."""
        found = self.fresh("tags")
        self.line(f"{found} = []")
        for field in sorted(fields, key=lambda field: field.tag or 0):
            value = self._value(field, mapping)
            self.line(f"if {self._is_told(field, value)}:")
            self.depth += 1
            buffer = self.fresh("b")
            self.line(f"{buffer} = bytearray()")
            if field.kind in FIXED_CODES and not field.is_array:
                self._fixed_run([(FIXED_CODES[field.kind], self._fixed_value(field, value))], buffer)
            else:
                self._field(field, True, value, buffer)
            self.line(f"{found}.append(({field.tag}, {buffer}))")
            self.depth -= 1
        self.line(f"if {found}: {out} += {self.primitive('tagged')}({found})")
        self.line(f"else: {out}.append(0)")

    def _is_told(self, field: FieldSchema, value: str) -> str:
        if field.is_array:
            return value if field.default is not None else f"{value} is not None"
        default = self.constant(field.default, "default")
        if field.entity is not None:
            return f"differs({value}, {default})"
        return f"{value} is not None and {value} != {default}"


def _item_of(field: FieldSchema) -> FieldSchema:
    return FieldSchema(field.name, field.kind, False, False, None, None, None)
