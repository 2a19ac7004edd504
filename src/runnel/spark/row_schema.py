"""The columns of a topic: what a query gets by default, and what it may ask for with `.schema(...)`.

In: the schema that Spark hands over. Out: the Arrow schema that it expects back, or OptionError where a column does not
exist or has another type. Spark does not prune columns of Python sources: naming fewer is how a query reads less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from runnel.spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
NULLABLE = ("key", "value", "headers")
_BY_LOWER_NAME = {name.lower(): name for name in COLUMNS}


def default_schema(include_headers: bool) -> StructType:
    names = [name for name in COLUMNS if name != "headers" or include_headers]
    return StructType([StructField(name, COLUMNS[name]) for name in names])


def check_schema(schema: StructType) -> None:
    if not schema.fields:
        raise OptionError("the schema names no column, and rows of none are not counted: name one, e.g. 'offset long'")
    for field in schema.fields:
        name = _BY_LOWER_NAME.get(field.name.lower())
        if name is None:
            raise OptionError(f"a topic has no column '{field.name}': its columns are {', '.join(COLUMNS)}")
        wanted, given = COLUMNS[name].simpleString(), field.dataType.simpleString()
        if given != wanted:
            raise OptionError(f"column '{field.name}' is {wanted}, not {given}: read it as that, and cast it then")
        if name in NULLABLE and not field.nullable:
            raise OptionError(f"column '{field.name}' has nulls, whatever a schema says: leave NOT NULL out")


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark compares our batches with, field by field."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
