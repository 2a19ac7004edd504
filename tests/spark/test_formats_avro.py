"""Defaults of an Avro schema: rows of an older writer get the values that decoding would have given."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from runnel.spark import from_avro
from runnel.spark.errors import OptionError
from runnel.spark.formats.avro_values import AvroDecoder, spark_type
from runnel.spark.formats.outcome import outcomes

FRAME = b"\0\0\0\0\1"
OLDER = FRAME
"""A value of a record that had no fields yet: nothing follows."""


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def rows_of(schema: Any, writers: dict[int, Any], *values: bytes) -> list[Any]:
    decode = pickle.loads(pickle.dumps(AvroDecoder(schema, True, writers)))
    rows: list[Any] = outcomes(pa.array(values), spark_type(schema), decode).to_pylist()
    assert [row["error"] for row in rows] == [None] * len(values)
    return [row["data"] for row in rows]


FIXED = {"type": "fixed", "name": "F", "size": 2}
DECIMAL = logical("bytes", "decimal", precision=4, scale=2)
WIDE = {**logical("fixed", "decimal", precision=38, scale=38), "name": "W", "size": 16}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
LINE = record("Line", field("sku", "bytes", default="\u00ff"), field("count", "long", default=1))
AT, AT_MS = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC), 1_767_323_045_678
UUID = "6b0e33ce-26fc-4f5c-9c2c-5a8a3bc1f0d2"


@pytest.mark.parametrize(
    ("kind", "default", "found"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        (FIXED, "\u00ff\u0001", b"\xff\x01"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (["bytes", "null"], None, None),
        ([{"type": "null"}, "bytes"], None, None),
        ("double", 1, 1.0),
        (DECIMAL, "\u0004\u00e2", Decimal("12.50")),
        (DECIMAL, "\u00ff", Decimal("-0.01")),
        (WIDE, "\0" * 15 + "\u0001", Decimal("1e-38")),
        (["null", DECIMAL], "\u0001", Decimal("0.01")),
        (STATE, "PAID", "PAID"),
        ({"type": "array", "items": DECIMAL}, ["\u0001"], [Decimal("0.01")]),
        ({"type": "map", "values": FIXED}, {"a": "\u00ff\u0001"}, [("a", b"\xff\x01")]),
        (LINE, {}, {"sku": b"\xff", "count": 1}),
        (LINE, {"sku": "\u0001", "more": 1}, {"sku": b"\1", "count": 1}),
        ({"type": "array", "items": LINE}, [{"count": 2}], [{"sku": b"\xff", "count": 2}]),
        (record("Outer", field("line", LINE, default={"count": 3})), {}, {"line": {"sku": b"\xff", "count": 3}}),
        (record("Outer", field("state", STATE, default="NEW"), field("at", "long", default=1)), {"at": 2},
         {"state": "NEW", "at": 2}),
        (logical("int", "date"), 20_455, date(2026, 1, 2)),
        (logical("long", "timestamp-millis"), AT_MS, AT),
        (logical("long", "timestamp-micros"), AT_MS * 1000, AT),
        (logical("long", "local-timestamp-millis"), AT_MS, AT.replace(tzinfo=None)),
        (logical("long", "local-timestamp-micros"), AT_MS * 1000, AT.replace(tzinfo=None)),
        ({"type": "map", "values": logical("long", "timestamp-millis")}, {"a": AT_MS}, [("a", AT)]),
        (logical("int", "time-millis"), 3_723_004, 3_723_004),
        (logical("long", "time-micros"), 3_723_000_004, 3_723_000_004),
        (logical("string", "uuid"), UUID.upper(), UUID),
    ],
)  # fmt: skip
def test_a_default_is_the_value_that_decoding_gives(kind: Any, default: Any, found: Any) -> None:
    schema = record("E", field("x", kind, default=default))
    assert rows_of(schema, {1: record("E")}, OLDER, OLDER) == [{"x": found}] * 2


def test_defaults_beside_values_that_were_written() -> None:
    """In one column, and by a type that a field before it has named."""
    older = record("E", field("first", LINE), field("day", logical("int", "date")))
    newer = record("E", field("first", LINE), field("day", logical("int", "date"), default=20_455),
                   field("second", "Line", default={}), field("price", DECIMAL, default="\u0001"))  # fmt: skip
    oldest = record("E", field("first", LINE))
    rest, day = b"\x02a\x04", b"\xce\xbf\x02"
    before = {"first": {"sku": b"a", "count": 2}, "day": date(2026, 1, 2), "second": {"sku": b"\xff", "count": 1}}
    found = rows_of(
        newer,
        {1: oldest, 2: older, 3: newer},
        FRAME + rest,
        b"\0\0\0\0\2" + rest + day,
        b"\0\0\0\0\3" + rest + day + rest + b"\x04\x04\xe2",
    )
    assert found[:2] == [{**before, "price": Decimal("0.01")}] * 2
    assert found[2] == {**before, "second": before["first"], "price": Decimal("12.50")}


@pytest.mark.parametrize("parse", [copy.deepcopy, fastavro.parse_schema])
def test_a_schema_is_left_as_it_was_given(parse: Any) -> None:
    """One that fastavro has parsed already, too: it goes to executors as it is, to be parsed there."""
    schema = parse(record("E", field("x", LINE, default={}), field("y", "bytes", default="\u00ff")))
    given = copy.deepcopy(schema)
    for _ in range(2):
        decode = AvroDecoder(schema, True, {1: record("E")})
        assert decode(OLDER) == {"x": {"sku": b"\xff", "count": 1}, "y": b"\xff"}
    assert schema == given


def test_defaults_below_a_schema_that_is_no_record() -> None:
    of_lines, of_nothing = ({"type": "array", "items": each} for each in (LINE, record("Line")))
    assert rows_of(of_lines, {1: of_nothing}, FRAME + b"\x04\x00") == [[{"sku": b"\xff", "count": 1}] * 2]
    optional = ["null", {"type": "map", "values": LINE}]
    found = rows_of(optional, {1: {"type": "map", "values": record("Line")}}, FRAME + b"\x02\x02a\x00")
    assert found == [[("a", {"sku": b"\xff", "count": 1})]]


def test_null_may_be_written_as_a_type_of_its_own() -> None:
    schema = record("E", field("x", [{"type": "null"}, logical("long", "timestamp-millis")]))
    assert spark_type(schema).simpleString() == "struct<x:timestamp>"
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert rows_of(schema, {}, FRAME + b"\x00", FRAME + b"\x02\x00") == [{"x": None}, {"x": epoch}]


@pytest.mark.parametrize(
    ("kind", "default", "complaint"),
    [
        ("bytes", "\u0100", "can't encode"),
        (FIXED, "\u00ff", "is 1 bytes, not 2"),
        (DECIMAL, "\u0027\u0010", "10000 has more than 4 digits"),
        (STATE, "LOST", "'LOST' is not among the symbols of State"),
        ("int", True, "True is no int"),
        ("int", 2**31, "2147483648 is out of range"),
        ("long", -(2**63) - 1, "is out of range"),
        (logical("long", "timestamp-millis"), -(2**63) // 1000, "is out of range"),
        ("double", "1", "'1' is no double"),
        ({"type": "array", "items": "double"}, [10**400], "too large"),
        ("string", "\ud800", "can't encode"),
        (logical("string", "uuid"), "", "badly formed"),
        (["null", STATE], 1, "1 is no enum"),
        ({"type": "array", "items": "int"}, [1, None], "None is no int"),
        ({"type": "map", "values": ["null", "int"]}, {"a": "b"}, "'b' is no int"),
        (record("Inner", field("y", "int")), {}, "it has no 'y', which has no default of its own"),
    ],
)
def test_a_default_that_does_not_fit_its_type(kind: Any, default: Any, complaint: str) -> None:
    schema = record("Outer", field("inner", record("E", field("x", kind, default=default))))
    with pytest.raises(OptionError, match=f"the default of 'x' in Avro record E does not fit its type: .*{complaint}"):
        from_avro("value", schema)


def test_values_that_nest_without_end_are_errors() -> None:
    """The compiled reader follows them until the process dies, even where the reader has no use for them."""
    node = record("Node", field("next", ["null", "Node"]))
    older, wanted = record("T", field("id", "int"), field("node", node)), record("T", field("id", "int"))
    decode = AvroDecoder(wanted, True, {1: older})
    values = pa.array([FRAME + b"\x02" + b"\x02" * depth + b"\x00" for depth in (3, 1_000_000)])
    good, bad = outcomes(values, spark_type(wanted), decode).to_pylist()
    assert good == {"data": {"id": 1}, "error": None}
    assert bad["data"] is None
    assert bad["error"].startswith("RecursionError")


@pytest.mark.parametrize("precision", [10, 4])
def test_decimals_keep_the_digits_that_their_writer_did_not_promise(precision: int) -> None:
    older, wanted = ({"type": "bytes", "logicalType": "decimal", "precision": p, "scale": 2} for p in (4, precision))
    value = FRAME + b"\x06" + (123_456).to_bytes(3, "big")
    (row,) = outcomes(pa.array([value]), spark_type(wanted), AvroDecoder(wanted, True, {1: older})).to_pylist()
    assert row["data"] == (Decimal("1234.56") if precision == 10 else None)
    assert (row["error"] is None) == (precision == 10)
