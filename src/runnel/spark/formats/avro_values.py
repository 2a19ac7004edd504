"""Avro to columns, by fastavro: records without a container, with or without a schema registry's prefix of 5 bytes.

In: a binary column and the schema that rows are to have; for framed values, the schemas of writers by their number.
Out: `struct<data, error>`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from datetime import time
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from runnel.spark.errors import OptionError
from runnel.spark.formats.avro_defaults import decode_defaults, is_null
from runnel.spark.formats.avro_schemas import WRAPPED, contains_itself, keep_all_digits, parsed_schema, unwrapped
from runnel.spark.formats.outcome import python_column, unframed

if TYPE_CHECKING:
    from pyspark.sql import Column

AvroSchema: TypeAlias = str | dict[str, Any] | list[Any]

PRIMITIVES: dict[str, DataType] = {
    "null": StringType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
# By what they annotate: on anything else a logical type means nothing.
LOGICAL: dict[str, DataType] = {
    "int-date": DateType(),
    "long-timestamp-millis": TimestampType(),
    "long-timestamp-micros": TimestampType(),
    "long-local-timestamp-millis": TimestampNTZType(),
    "long-local-timestamp-micros": TimestampNTZType(),
    "string-uuid": StringType(),
}
DECIMALS = ("bytes-decimal", "fixed-decimal")
DECIMAL_PRECISION_MAX = 38

Conversion: TypeAlias = Callable[[Any], Any] | None
"""None where all values are fine as they are."""


def from_avro(
    column: str | Column,
    schema: AvroSchema,
    *,
    framed: bool = False,
    writers: Mapping[int, AvroSchema] | None = None,
) -> Column:
    """`schema` is what rows are to have, as a dict or as JSON.

    With `framed`, values begin with a registry's prefix. `writers` then gives the schemas by their number, and each
    value is read by the schema that wrote it; without `writers`, all were written with `schema`.
    """
    wanted = _loaded(schema)
    by_number = {number: _loaded(writer) for number, writer in (writers or {}).items()}
    data_type = spark_type(wanted)
    decode = AvroDecoder(wanted, framed, by_number)
    decode.reader()  # here too: a default that does not fit is no error of the rows
    return python_column(column, data_type, decode)


class AvroDecoder:
    """Picklable: the parsed schemas are made where the values are."""

    def __init__(self, schema: AvroSchema, framed: bool, writers: Mapping[int, AvroSchema]) -> None:
        self._schema = schema
        self._framed = framed
        self._writers = dict(writers)
        self._reader: Any = None
        self._parsed_writers: dict[int, tuple[Any, bool]] = {}
        self._convert: Conversion = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_parsed_writers": {}, "_convert": None}

    def __call__(self, value: bytes) -> Any:
        import fastavro

        number: int | None = None
        if self._framed:
            number, value = unframed(value)
        source = io.BytesIO(value)
        if self._writers and number is not None:
            found = self._resolved(source, number)
        else:
            found = fastavro.schemaless_reader(source, self.reader())
        left = len(value) - source.tell()
        if left:
            raise ValueError(f"{left} bytes are left after the record: it was written with another schema")
        return found[WRAPPED] if self._convert is None else self._convert(found[WRAPPED])

    def reader(self) -> Any:
        if self._reader is None:
            parsed = parsed_schema(self._schema)
            decode_defaults(parsed, {})
            self._convert = _conversion(unwrapped(parsed), {})
            self._reader = parsed
        return self._reader

    def _resolved(self, source: io.BytesIO, number: int) -> Any:
        import fastavro
        from fastavro import _read_py

        if number not in self._parsed_writers:
            self._parsed_writers[number] = self._writer(number)
        writer, is_endless = self._parsed_writers[number]
        read = _read_py.schemaless_reader if is_endless else fastavro.schemaless_reader
        return read(source, writer, self.reader())

    def _writer(self, number: int) -> tuple[Any, bool]:
        """Its parsed schema, and whether values may nest without end: the compiled reader would follow them until the
        process dies of it; the one in Python has a limit."""
        if number not in self._writers:
            raise ValueError(f"its schema {number} is not among those given ({', '.join(map(str, self._writers))})")
        if self._writers[number] == self._schema:
            # The same one, so that fastavro sees that there is nothing to resolve: decoded defaults are not equal.
            return self.reader(), False
        parsed = parsed_schema(self._writers[number])
        keep_all_digits(parsed)
        return parsed, contains_itself(parsed)


def _loaded(schema: AvroSchema) -> AvroSchema:
    if not isinstance(schema, str):
        return schema
    try:
        loaded: AvroSchema = json.loads(schema)
    except ValueError as error:
        raise OptionError(f"the Avro schema is no JSON: {error}") from error
    return loaded


def spark_type(schema: Any) -> DataType:
    """The Spark type that an Avro schema's values have."""
    try:
        parsed = parsed_schema(schema)
    except Exception as error:
        raise OptionError(f"not an Avro schema: {error}") from error
    return _type(unwrapped(parsed), {}, ())


def _type(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return PRIMITIVES[schema]
        if schema in inside:
            raise OptionError(f"Avro record {schema} contains itself: Spark has no such type")
        return _type(named[schema], named, inside)
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    if "logicalType" in schema:
        return _logical(schema, named, inside)
    if kind == "record":
        within = (*inside, schema["name"])
        return StructType(
            [StructField(field["name"], _type(field["type"], named, within)) for field in schema["fields"]]
        )
    if kind == "array":
        return ArrayType(_type(schema["items"], named, inside))
    if kind == "map":
        return MapType(StringType(), _type(schema["values"], named, inside))
    return _type(kind, named, inside)


def _union(branches: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    others = [branch for branch in branches if not is_null(branch)]
    if len(others) != 1:
        raise OptionError(
            f"an Avro union of {len(others)} types besides null has no Spark type: {json.dumps(branches)}"
        )
    return _type(others[0], named, inside)


def _logical(schema: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    name = _logical_name(schema)
    if name in DECIMALS:
        precision = schema.get("precision")
        if not precision:
            raise OptionError(f"an Avro decimal has no precision: {json.dumps(schema)}")
        if precision > DECIMAL_PRECISION_MAX:
            raise OptionError(f"an Avro decimal of {precision} digits has no Spark type: those have 38")
        return DecimalType(precision, schema.get("scale", 0))
    plain = {name: value for name, value in schema.items() if name != "logicalType"}
    return LOGICAL.get(name) or _type(plain, named, inside)


def _logical_name(schema: Mapping[str, Any]) -> str:
    return f"{schema['type']}-{schema.get('logicalType')}"


# Values ---------------------------------------------------------------------------------------------------------


def _conversion(schema: Any, named: dict[str, Any]) -> Conversion:
    """What is still to be done to values of a schema that has a Spark type, so that Arrow takes them for it."""
    if isinstance(schema, list):
        return _optional(next((_conversion(each, named) for each in schema if not is_null(each)), None))
    if isinstance(schema, str):
        return _conversion(named[schema], named) if schema in named else CONVERSIONS.get(schema)
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    if kind == "record":
        return _of_record([(field["name"], _conversion(field["type"], named)) for field in schema["fields"]])
    if kind == "array":
        return _of_array(_conversion(schema["items"], named))
    if kind == "map":
        return _of_map(_conversion(schema["values"], named))
    return CONVERSIONS.get(_logical_name(schema)) or _conversion(kind, named)


def _optional(convert: Conversion) -> Conversion:
    return convert and (lambda value: None if value is None else convert(value))


def _of_record(fields: list[tuple[str, Conversion]]) -> Conversion:
    converted = [(name, convert) for name, convert in fields if convert is not None]
    # A copy: where a default stands in for a record, it is the same one every time.
    return (lambda row: {**row, **{name: convert(row[name]) for name, convert in converted}}) if converted else None


def _of_array(convert: Conversion) -> Conversion:
    return convert and (lambda items: [convert(item) for item in items])


def _of_map(convert: Conversion) -> Conversion:
    return convert and (lambda pairs: {key: convert(value) for key, value in pairs.items()})


def _micros(value: Any) -> Any:
    """A time that is still the number in the file: of a writer that did not call it one, or of a default."""
    return value * 1000 if isinstance(value, int) else value


def _time_micros(value: Any) -> Any:
    if not isinstance(value, time):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _time_millis(value: Any) -> Any:
    return _time_micros(value) // 1000 if isinstance(value, time) else value


# What a writer calls a UUID is one to fastavro, whatever it is to the reader.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "long-timestamp-millis": _micros,
    "long-local-timestamp-millis": _micros,
    "int-time-millis": _time_millis,
    "long-time-micros": _time_micros,
}
