"""The defaults of an Avro schema, as values: in the schema they are JSON, and fastavro puts them into rows as they are.

In: a parsed schema that has a Spark type (so no record contains itself). Out: the same schema, each field's default now
what decoding would have given; an `OptionError` where one does not fit its type. Times stay the numbers that they are:
columns take those too, and of more years than Python has.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from runnel.spark.errors import OptionError

JSON: dict[str, type | tuple[type, ...]] = {
    "null": NoneType,
    "boolean": bool,
    "int": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "bytes": str,
    "fixed": str,
    "string": str,
    "enum": str,
    "array": list,
    "map": dict,
    "record": dict,
}
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
TIMES_OF_MILLIS = ("timestamp-millis", "local-timestamp-millis")
BYTES_ENCODING = "iso-8859-1"
"""A code point is a byte."""


def is_null(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, dict) and schema["type"] == "null")


def decode_defaults(schema: Any, named: dict[str, Any]) -> None:
    """Changes a parsed schema. Types come before fields that use them: what a record lacks is a value by then."""
    if isinstance(schema, list):
        for branch in schema:
            decode_defaults(branch, named)
    if not isinstance(schema, dict):
        return
    if "name" in schema:
        named[schema["name"]] = schema
    kind = schema["type"]
    if kind in ("array", "map"):
        decode_defaults(schema["items" if kind == "array" else "values"], named)
    elif kind == "record":
        for field in schema["fields"]:
            decode_defaults(field["type"], named)
            _decode_default(schema["name"], field, named)


def _decode_default(record: str, field: dict[str, Any], named: Mapping[str, Any]) -> None:
    if "default" not in field:
        return
    try:
        field["default"] = _value(field["type"], field["default"], named)
    except (ValueError, OverflowError) as error:
        raise OptionError(
            f"the default of '{field['name']}' in Avro record {record} does not fit its type: {error}"
        ) from error


def _value(schema: Any, given: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return _of_union(schema, given, named)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind = schema["type"]
    _check_kind(kind, given)
    if kind == "record":
        return {field["name"]: _of_field(field, given, named) for field in schema["fields"]}
    if kind == "array":
        return [_value(schema["items"], item, named) for item in given]
    if kind == "map":
        return {_text(key): _value(schema["values"], item, named) for key, item in given.items()}
    return _of_scalar(schema, given)


def _check_kind(kind: str, given: Any) -> None:
    # Python's booleans are numbers, JSON's are not.
    if not isinstance(given, JSON[kind]) or (isinstance(given, bool) and kind != "boolean"):
        raise ValueError(f"{given!r} is no {kind}")


def _of_union(branches: list[Any], given: Any, named: Mapping[str, Any]) -> Any:
    """Of the first branch, Avro said before 1.12; of any, it says now. Besides null there is only one to be had."""
    if given is None and any(map(is_null, branches)):
        return None
    return _value(next(branch for branch in branches if not is_null(branch)), given, named)


def _of_field(field: Mapping[str, Any], given: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    if field["name"] in given:
        return _value(field["type"], given[field["name"]], named)
    if "default" not in field:
        raise ValueError(f"it has no '{field['name']}', which has no default of its own")
    return field["default"]


def _of_scalar(schema: Mapping[str, Any], given: Any) -> Any:
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in ("float", "double"):
        return float(given)
    if kind in ("int", "long"):
        _check_range(given * 1000 if logical in TIMES_OF_MILLIS else given, INT_MAX if kind == "int" else LONG_MAX)
    if kind in ("bytes", "fixed"):
        content = _bytes(given, schema.get("size"))
        return _decimal(content, schema) if logical == "decimal" else content
    if kind == "enum" and given not in schema["symbols"]:
        raise ValueError(f"{given!r} is not among the symbols of {schema['name']}")
    if kind == "string":
        return str(UUID(given)) if logical == "uuid" else _text(given)
    return given


def _check_range(number: int, most: int) -> None:
    if not -most - 1 <= number <= most:
        raise ValueError(f"{number} is out of range")


def _text(given: str) -> str:
    given.encode()  # JSON can hold halves of characters; Arrow cannot
    return given


def _bytes(given: str, size: int | None) -> bytes:
    content = given.encode(BYTES_ENCODING)
    if size not in (None, len(content)):
        raise ValueError(f"{given!r} is {len(content)} bytes, not {size}")
    return content


def _decimal(content: bytes, schema: Mapping[str, Any]) -> Decimal:
    unscaled = Decimal(int.from_bytes(content, signed=True))
    if len(unscaled.as_tuple().digits) > schema["precision"]:
        raise ValueError(f"{unscaled} has more than {schema['precision']} digits")
    return unscaled.scaleb(-schema.get("scale", 0), Context(prec=schema["precision"]))
