"""Avro schemas as fastavro is to see them.

In: a schema as JSON. Out: it parsed, with names written out in full; and what is to be known of one that wrote values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WRAPPER, WRAPPED = "__runnel", "value"
DECIMAL_DIGITS_MAX = 10_000


def parsed_schema(schema: Any) -> Any:
    """Wrapped: as the only field of a record, which has the same bytes.

    fastavro keeps parsed records only. Anything else it parses again for each value, and refuses decoded defaults.
    """
    import fastavro

    return fastavro.parse_schema({"type": "record", "name": WRAPPER, "fields": [{"name": WRAPPED, "type": schema}]})


def unwrapped(parsed: Any) -> Any:
    return parsed["fields"][0]["type"]


def keep_all_digits(schema: Any) -> None:
    """fastavro rounds a decimal to the digits that its writer promised: with this one it finds those that are there,
    and the column that they are for takes them or not."""
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        schema["precision"] = DECIMAL_DIGITS_MAX
    for part in _parts(schema):
        keep_all_digits(part)


def contains_itself(schema: Any, inside: tuple[str, ...] = ()) -> bool:
    if isinstance(schema, dict) and "name" in schema:
        inside = (*inside, schema["name"])
    return schema in inside or any(contains_itself(part, inside) for part in _parts(schema))


def _parts(schema: Any) -> Iterator[Any]:
    if isinstance(schema, list):
        yield from schema
    if isinstance(schema, dict):
        yield from (schema[name] for name in ("type", "items", "values") if name in schema)
        yield from (field["type"] for field in schema.get("fields", ()))
