"""JSON to columns, by Spark's own parser, so at its speed.

In: a binary or string column, a schema or a sample to infer it from. Out: `struct<data, error>`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from runnel.spark.errors import OptionError
from runnel.spark.formats.outcome import DATA, ERROR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CORRUPT = "_corrupt_record"
SAMPLE_ROWS = 1000
STRUCT = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)


def from_json(column: str | Column, schema: StructType | str) -> Column:
    """`schema` as a StructType or as DDL (`"id long, total double"`). Fields that the JSON lacks are null."""
    value = functions.col(column) if isinstance(column, str) else column
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = functions.from_json(value.cast("string"), _with_corrupt(schema), options)
    wrong = parsed[CORRUPT].isNotNull() | (parsed.isNull() & value.isNotNull())
    data = functions.when(value.isNotNull() & ~wrong, parsed.dropFields(CORRUPT))
    described = f"not JSON of the schema {schema if isinstance(schema, str) else schema.simpleString()}"
    return functions.struct(data.alias(DATA), functions.when(wrong, functions.lit(described)).alias(ERROR))


def infer_json_schema(frame: DataFrame, column: str = "value", rows: int = SAMPLE_ROWS) -> StructType:
    """The schema of the first rows that are JSON objects, all their fields together."""
    sample = frame.select(functions.col(column).cast("string").alias("text")).filter("text is not null").limit(rows)
    texts = [text for (text,) in sample.collect() if _is_object(text)]
    if not texts:
        raise OptionError(f"none of the first {rows} rows of column '{column}' is a JSON object: give the schema")
    array = functions.schema_of_json(functions.lit(f"[{','.join(texts)}]"))
    described = frame.sparkSession.range(1).select(array).collect()[0][0]
    found = DataType.fromDDL(described)
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        raise OptionError(f"column '{column}' holds {described}, which is no table: give the schema")
    return found.elementType


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _with_corrupt(schema: StructType | str) -> StructType | str:
    """The schema and a column for what is not like it. Text stays text: to parse it, Python would ask Spark, which a
    pipeline's query function may not."""
    if isinstance(schema, str):
        whole = STRUCT.fullmatch(schema.strip())
        fields = (whole[1] if whole else schema).strip()
        made: StructType | str = f"struct<{fields}, {CORRUPT}: string>"
    else:
        fields = getattr(schema, "fields", None)
        made = StructType([*(fields or ()), StructField(CORRUPT, StringType())])
    if not fields:
        raise OptionError("the schema must be a struct with at least one field, e.g. 'id long, total double'")
    return made
