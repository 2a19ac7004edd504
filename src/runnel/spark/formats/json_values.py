"""JSON to columns, by Spark's own parser, so at its speed.

In: a binary or string column, a schema or a sample to infer it from. Out: `struct<data, error>`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from runnel.spark.errors import OptionError
from runnel.spark.formats.outcome import DATA, ERROR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHOLE, END, CORRUPT = "whole", "end", "corrupt"
SAMPLE_ROWS = 1000
SAMPLE_CHARACTERS_MAX = 16 << 20
"""The sample goes to Spark as a part of a query, of which the JVM makes several copies."""
NUMBER_CHARACTERS_MAX = 1000
"""Longer numbers are errors to Spark's parser."""
DEPTH_MAX = 100
"""Spark's parser goes deeper; a table does not."""
STRUCT = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)


def from_json(column: str | Column, schema: StructType | str) -> Column:
    """`schema` as a StructType or as DDL (`"id long, total double"`). Fields that the JSON lacks are null."""
    value = functions.col(column) if isinstance(column, str) else column
    secret = secrets.token_hex(8)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = functions.from_json(_in_map(value.cast("string"), secret), _schema_of_map(schema), options)
    data, end = parsed[WHOLE][secret], parsed[WHOLE][secret + END]
    has_no_more = functions.size(parsed[WHOLE]) == functions.lit(2)
    right = data.isNotNull() & end.isNotNull() & has_no_more & parsed[CORRUPT].isNull()
    described = f"not JSON of the schema {schema if isinstance(schema, str) else schema.simpleString()}"
    error = functions.when(value.isNotNull() & ~right, functions.lit(described))
    return functions.struct(functions.when(right, data).alias(DATA), error.alias(ERROR))


def _in_map(text: Column, secret: str) -> Column:
    """Spark's parser stops where the first object ends, whatever follows, and passes over fields that it does not
    know. So the text is the first of two entries of a map, whose names no record can know: what ends the map early
    lacks the second, and what adds to it is counted."""
    return functions.concat(
        functions.lit(f'{{"{WHOLE}":{{"{secret}":'), text, functions.lit(f',"{secret}{END}":{{}}}}}}')
    )


def infer_json_schema(frame: DataFrame, column: str = "value", rows: int = SAMPLE_ROWS) -> StructType:
    """The schema of the first rows that are JSON objects, all their fields together."""
    sample = frame.select(functions.col(column).cast("string").alias("text")).filter("text is not null").limit(rows)
    texts = list(_first([text for (text,) in sample.collect() if _is_object(text)]))
    if not texts:
        raise OptionError(f"none of the first {rows} rows of column '{column}' is a JSON object: give the schema")
    array = functions.schema_of_json(functions.lit(f"[{','.join(texts)}]"))
    described = frame.sparkSession.range(1).select(array).collect()[0][0]
    found = DataType.fromDDL(described)
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        raise OptionError(f"column '{column}' holds {described}, which is no table: give the schema")
    return found.elementType


def _first(texts: list[str]) -> Iterator[str]:
    """One at least, and not too much of them."""
    left = SAMPLE_CHARACTERS_MAX
    for number, text in enumerate(texts):
        left -= len(text)
        if number and left < 0:
            return
        yield text


def _is_object(text: str) -> bool:
    """Whether it is one to infer from: one value that Spark's parser refuses would fail all of them, and a name that
    is there twice would be two columns that nobody can tell apart."""
    try:
        found = json.loads(text, parse_int=_number, parse_float=_number, object_pairs_hook=_fields)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and _depth(found) <= DEPTH_MAX


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _number(text: str) -> str:
    if len(text) > NUMBER_CHARACTERS_MAX:
        raise ValueError(f"a number of {len(text)} characters")
    return text


def _depth(value: Any) -> int:
    depth, layer = 0, [value]
    while layer := [
        child
        for each in layer
        if isinstance(each, dict | list)
        for child in (each.values() if isinstance(each, dict) else each)
    ]:
        depth += 1
    return depth


def _schema_of_map(schema: StructType | str) -> StructType | str:
    """Around the schema, what tells whether a value is like it. Text stays text: to parse it, Python would ask Spark,
    which a pipeline's query function may not."""
    if isinstance(schema, str):
        whole = STRUCT.fullmatch(schema.strip())
        fields: Any = (whole[1] if whole else schema).strip()
        made: StructType | str = f"struct<{WHOLE}: map<string, struct<{fields}>>, {CORRUPT}: string>"
    else:
        fields = getattr(schema, "fields", None)
        made = StructType().add(WHOLE, MapType(StringType(), schema)).add(CORRUPT, StringType())
    if not fields:
        raise OptionError("the schema must be a struct with at least one field, e.g. 'id long, total double'")
    return made
