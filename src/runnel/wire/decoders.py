"""Generates, for one version of one message, the function that decodes it into a `Struct`.

In: an `EntitySchema`; out: a function `(data: bytes, items: int) -> (Struct, position)`. The source is
straight-line Python: runs of fixed-size fields become one `Struct.unpack_from`, nested arrays become nested
loops. kio's own reader is not used: it reserves memory for as many items as the peer claims, and five
hostile bytes abort the whole process; it also refuses unknown tagged fields, which KIP-482 says to skip.
Here a claimed count is checked against the bytes that remain and against a budget of `items` for the whole
message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct as Layout
from struct import unpack_from
from typing import TypeAlias

from runnel.wire import primitives
from runnel.wire.emitter import Emitter
from runnel.wire.errors import Malformed
from runnel.wire.schemas import FIXED_CODES, EntitySchema, FieldSchema
from runnel.wire.structs import Struct, default_value, struct_class

Decoder: TypeAlias = Callable[[bytes, int], tuple[Struct, int]]

_MIN_BYTES = {"string": 2, "bytes": 4, "records": 4}


def compile_decoder(schema: EntitySchema) -> Decoder:
    """The decoder of one message; compiled once per version and kept by `messages`."""
    emitter = _Reader()
    emitter.line("def decode(data, items):")
    emitter.depth += 1
    emitter.line("p = 0")
    target = emitter.entity(schema)
    emitter.line(f"return {target}, p")
    namespace = emitter.namespace
    exec(compile("\n".join(emitter.lines), f"<decoder of {schema.name} v{schema.version}>", "exec"), namespace)
    decoder: Decoder = namespace["decode"]
    return decoder


def bytes_min(schema: EntitySchema) -> int:
    """The fewest bytes that an entity can take: what makes a claimed array length believable."""
    total = 1 if schema.flexible else 0
    for field in schema.fields:
        if field.tag is None:
            total += _field_bytes_min(field, schema.flexible)
    return total


def _field_bytes_min(field: FieldSchema, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    if field.entity is not None:
        return 1 if field.nullable else bytes_min(field.entity)
    if field.kind in FIXED_CODES:
        return Layout(">" + FIXED_CODES[field.kind]).size
    return 1 if flexible else _MIN_BYTES[field.kind]


def _refuse_null(name: str) -> None:
    raise Malformed(f"field {name} is null where null is not allowed")


def _refuse_items(name: str) -> None:
    raise Malformed(f"the message holds too many items (at field {name})")


def _refuse_size(name: str) -> None:
    raise Malformed(f"tagged field {name} is longer or shorter than its size says")


class _Reader(Emitter):
    """Writes the source that reads entities."""

    def __init__(self) -> None:
        names = {
            "unpack_from": unpack_from, "uuid_from_bytes": primitives.uuid_from_bytes,
            "refuse_null": _refuse_null, "refuse_items": _refuse_items, "refuse_size": _refuse_size,
        }  # fmt: skip
        super().__init__(names)

    def entity(self, schema: EntitySchema) -> str:
        """Source that reads an entity at `p`; returns the variable that holds it."""
        variables: dict[str, str] = {}
        run: list[tuple[FieldSchema, str]] = []
        for field in schema.fields:
            if field.tag is not None:
                continue
            if field.kind in FIXED_CODES and not field.is_array:
                variables[field.name] = self.fresh()
                run.append((field, variables[field.name]))
                continue
            self._fixed_run(run)
            variables[field.name] = self._field(field, schema.flexible)
        self._fixed_run(run)
        if schema.flexible:
            variables |= self._tagged_section(schema)
        made = self.constant(struct_class(schema), "Made")
        target = self.fresh()
        self.line(f"{target} = {made}({', '.join(variables[field.name] for field in schema.fields)})")
        return target

    def _fixed_run(self, run: list[tuple[FieldSchema, str]]) -> None:
        if not run:
            return
        layout = Layout(">" + "".join(FIXED_CODES[field.kind] for field, _ in run))
        unpack = self.constant(layout.unpack_from, "unpack")
        self.line(f"{', '.join(variable for _, variable in run)}, = {unpack}(data, p)")
        self.line(f"p += {layout.size}")
        for field, variable in run:
            if field.kind == "uuid":
                self.line(f"{variable} = uuid_from_bytes({variable})")
        run.clear()

    def _field(self, field: FieldSchema, flexible: bool) -> str:
        if field.is_array:
            return self._array(field, flexible)
        if field.entity is not None:
            return self._entity_field(field, field.entity)
        style = "compact" if flexible else "legacy"
        noun = "string" if field.kind == "string" else "bytes"
        reader = self.primitive(f"read_{style}_{noun}{'_nullable' if field.nullable else ''}")
        target = self.fresh()
        self.line(f"{target}, p = {reader}(data, p)")
        return target

    def _entity_field(self, field: FieldSchema, entity: EntitySchema) -> str:
        if not field.nullable or field.tag is not None:
            return self.entity(entity)
        # A nullable struct has a byte in front: negative means null (KIP-893).
        target = self.fresh()
        self.line(f"{target} = None")
        self.line("p += 1")
        self.line("if data[p - 1] < 128:")
        self.depth += 1
        inner = self.entity(entity)
        self.line(f"{target} = {inner}")
        self.depth -= 1
        return target

    def _array(self, field: FieldSchema, flexible: bool) -> str:
        count, target = self.fresh("n"), self.fresh()
        reader = self.primitive("read_compact_count" if flexible else "read_legacy_count")
        item_bytes = bytes_min(field.entity) if field.entity is not None else _item_bytes_min(field, flexible)
        self.line(f"{count}, p = {reader}(data, p, {item_bytes})")
        self.line(f"if {count} < 0:")
        self.line(f"    {target} = None" if field.nullable else f"    refuse_null({field.name!r})")
        self.line("else:")
        self.depth += 1
        self.line(f"items -= {count}")
        self.line("if items < 0:")
        self.line(f"    refuse_items({field.name!r})")
        self._array_items(field, flexible, count, target)
        self.depth -= 1
        return target

    def _array_items(self, field: FieldSchema, flexible: bool, count: str, target: str) -> None:
        code = FIXED_CODES.get(field.kind)
        if code is not None and code != "16s":
            size = Layout(">" + code).size
            self.line(f"{target} = list(unpack_from(f'>{{{count}}}{code}', data, p))")
            self.line(f"p += {count} * {size}")
            return
        self.line(f"{target} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        if field.entity is not None:
            item = self.entity(field.entity)
        elif code == "16s":
            item = self.fresh()
            self.line(f"{item}, p = {self.primitive('read_uuid')}(data, p)")
        else:
            item = self._field(_item_of(field), flexible)
        self.line(f"{target}.append({item})")
        self.depth -= 1

    def _tagged_section(self, schema: EntitySchema) -> dict[str, str]:
        fields = [field for field in schema.fields if field.tag is not None]
        if not fields:
            self.line(f"p = {self.primitive('skip_tagged')}(data, p)")
            return {}
        variables = {field.name: self.fresh() for field in fields}
        found = self.fresh("tags")
        known = self.constant(frozenset(field.tag for field in fields), "known")
        self.line(f"{found}, p = {self.primitive('read_tagged')}(data, p, {known})")
        for field in fields:
            self._tagged_field(field, found, variables[field.name])
        return variables

    def _tagged_field(self, field: FieldSchema, found: str, target: str) -> None:
        following, end = self.fresh("p"), self.fresh("e")
        self.line(f"if {field.tag} in {found}:")
        self.depth += 1
        self.line(f"{following} = p")
        self.line(f"p, {end} = {found}[{field.tag}]")
        if field.kind in FIXED_CODES and not field.is_array:
            self._fixed_run([(field, target)])
        else:
            value = self._field(field, True)
            self.line(f"{target} = {value}")
        self.line(f"if p != {end}:")
        self.line(f"    refuse_size({field.name!r})")
        self.line(f"p = {following}")
        self.depth -= 1
        self.line("else:")
        if field.is_array or field.entity is not None:
            self.line(f"    {target} = {self.constant(partial(default_value, field), 'absent')}()")
        else:
            self.line(f"    {target} = {self.constant(field.default, 'absent')}")


def _item_of(field: FieldSchema) -> FieldSchema:
    return FieldSchema(field.name, field.kind, False, False, None, None, None)


def _item_bytes_min(field: FieldSchema, flexible: bool) -> int:
    return _field_bytes_min(_item_of(field), flexible)
