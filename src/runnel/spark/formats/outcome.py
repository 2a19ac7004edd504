"""The shape that all decoders answer in, and the column function around a decoder that is written in Python.

In: a function that decodes one value or raises. Out: a Spark column of `struct<data, error>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions
from pyspark.sql.types import DataType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

DATA, ERROR = "data", "error"
ERROR_CHARACTERS_MAX = 300
FRAME_BYTES = 5
"""A schema registry's prefix: a zero and the number of the schema."""
SHORT = "it is {size} bytes long, shorter than the registry's prefix of 5"
UNFRAMED = "it does not begin with the registry's prefix (its first byte is {byte}, not 0)"


def outcome_type(data: DataType) -> StructType:
    return StructType([StructField(DATA, data), StructField(ERROR, StringType())])


def python_column(column: str | Column, data_type: DataType, decode: Callable[[bytes], Any]) -> Column:
    """`decode` runs on executors, a value at a time; what it raises is the row's error."""
    import pyarrow as pa

    def decode_all(values: Any) -> Any:
        return outcomes(values, data_type, decode)

    # Spark tells the kinds of Arrow functions apart by their annotations, and wants them as types, not as text.
    decode_all.__annotations__ = {"values": pa.Array, "return": pa.Array}
    made: Any = functions  # whose type stubs do not know arrow_udf
    udf = made.arrow_udf(decode_all, outcome_type(data_type))
    found: Column = udf(functions.col(column) if isinstance(column, str) else column)
    return found


def outcomes(values: pa.Array, data_type: DataType, decode: Callable[[bytes], Any]) -> pa.Array:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    kind = to_arrow_type(outcome_type(data_type), timezone="UTC")
    rows = [_outcome(value, decode) for value in values.to_pylist()]
    try:
        return pa.array(rows, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # One of them does not fit its column, and Arrow does not say which: a row at a time, then.
        return pa.concat_arrays([_fitting(row, kind) for row in rows])


def _outcome(value: bytes | None, decode: Callable[[bytes], Any]) -> dict[str, Any] | None:
    if value is None:
        return {DATA: None, ERROR: None}
    try:
        return {DATA: decode(value), ERROR: None}
    except Exception as error:
        # Whatever a decoder does not like about a value is that row's error; the job goes on.
        return {DATA: None, ERROR: f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]}


def _fitting(row: Any, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array([row], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        return pa.array([{DATA: None, ERROR: f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]}], kind)


def unframed(value: bytes) -> tuple[int, bytes]:
    """The number of the schema, and what follows the prefix."""
    if len(value) < FRAME_BYTES:
        raise ValueError(SHORT.format(size=len(value)))
    if value[0] != 0:
        raise ValueError(UNFRAMED.format(byte=value[0]))
    return int.from_bytes(value[1:FRAME_BYTES], "big"), value[FRAME_BYTES:]
