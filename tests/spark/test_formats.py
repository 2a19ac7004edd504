"""Values to columns: what each decoder makes of good values and of bad ones, and all of them inside Spark."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2, timestamp_pb2, wrappers_pb2
from pyspark.sql.types import IntegerType, StructType

from runnel.spark import from_avro, from_json, from_protobuf, infer_json_schema
from runnel.spark.errors import OptionError
from runnel.spark.formats import json_values
from runnel.spark.formats.avro_values import AvroDecoder, spark_type
from runnel.spark.formats.outcome import outcomes
from runnel.spark.formats.protobuf_values import ProtobufDecoder, _describe, _struct
from spark.records import Sent, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "boolean"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "first", "type": ["null", "shop.Line"], "default": None},
    ],
}  # fmt: skip
ORDER: dict[str, Any] = {
    "id": 7,
    "note": None,
    "lines": [{"sku": "a", "count": 2}],
    "tags": {"gift": True},
    "state": "PAID",
    "at": datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("12.50"),
    "uid": "6b0e33ce-26fc-4f5c-9c2c-5a8a3bc1f0d2",
    "first": {"sku": "b", "count": 1},
}


def avro(record: dict[str, Any], schema: Any = AVRO) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def framed(number: int, content: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


def test_avro_types_and_values() -> None:
    assert spark_type(AVRO).simpleString() == (
        "struct<id:bigint,note:string,lines:array<struct<sku:string,count:int>>,tags:map<string,boolean>,state:string,"
        "at:timestamp,day:date,price:decimal(9,2),uid:string,first:struct<sku:string,count:int>>"
    )
    decode = pickle.loads(pickle.dumps(AvroDecoder(AVRO, False, {})))
    assert decode(avro(ORDER)) == ORDER
    (row,) = outcomes(pa.array([avro(ORDER)]), spark_type(AVRO), decode).to_pylist()
    assert row == {"data": {**ORDER, "tags": [("gift", True)]}, "error": None}


def test_avro_of_a_registry_is_read_by_the_schema_that_wrote_it() -> None:
    older = {"type": "record", "name": "E", "fields": [{"name": "id", "type": "int"}]}
    newer = {"type": "record", "name": "E", "fields": [*older["fields"], {"name": "x", "type": "int", "default": 9}]}
    decode = AvroDecoder(newer, True, {1: older, 2: newer})
    assert decode(framed(1, avro({"id": 5}, older))) == {"id": 5, "x": 9}
    assert decode(framed(2, avro({"id": 5, "x": 1}, newer))) == {"id": 5, "x": 1}
    assert AvroDecoder(newer, True, {})(framed(77, avro({"id": 5, "x": 1}, newer))) == {"id": 5, "x": 1}
    with pytest.raises(ValueError, match=r"its schema 3 is not among those given \(1, 2\)"):
        decode(framed(3, b""))


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def one_field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "E", "fields": [{"name": "x", "type": kind, **more}]}


MILLIS = logical("long", "timestamp-millis")
FIXED = {"type": "fixed", "name": "F", "size": 2}
AT_MS = 1_767_323_045_678
UUID = "6b0e33ce-26fc-4f5c-9c2c-5a8a3bc1f0d2"


@pytest.mark.parametrize(
    ("written", "value", "wanted", "found"),
    [
        ("long", AT_MS, MILLIS, ORDER["at"]),
        (["null", "long"], AT_MS, ["null", MILLIS], ORDER["at"]),
        ({"type": "array", "items": "long"}, [AT_MS], {"type": "array", "items": MILLIS}, [ORDER["at"]]),
        ({"type": "map", "values": "long"}, {"a": AT_MS}, {"type": "map", "values": MILLIS}, [("a", ORDER["at"])]),
        ("long", AT_MS, logical("long", "local-timestamp-millis"), ORDER["at"].replace(tzinfo=None)),
        (MILLIS, ORDER["at"], logical("long", "timestamp-micros"), ORDER["at"]),
        (logical("string", "uuid"), UUID, "string", UUID),
        ("string", UUID, logical("string", "uuid"), UUID),
        (logical("int", "time-millis"), time(1, 2, 3, 4000), logical("int", "time-millis"), 3_723_004),
        (logical("long", "time-micros"), time(1, 2, 3, 4), logical("long", "time-micros"), 3_723_000_004),
        ("string", "soon", logical("string", "timestamp-millis"), "soon"),
        (FIXED, b"ab", {**FIXED, "logicalType": "uuid"}, b"ab"),
    ],
)
def test_avro_values_are_what_the_reader_calls_them(written: Any, value: Any, wanted: Any, found: Any) -> None:
    """A logical type may be added to a schema, change its unit, stand where it means nothing, or have no Spark type."""
    schema, writer = one_field(wanted), one_field(written)
    decode = AvroDecoder(schema, True, {1: writer})
    (row,) = outcomes(pa.array([framed(1, avro({"x": value}, writer))]), spark_type(schema), decode).to_pylist()
    assert row == {"data": {"x": found}, "error": None}


def test_an_avro_default_is_in_the_units_of_its_field() -> None:
    empty, schema = {"type": "record", "name": "E", "fields": []}, one_field(MILLIS, default=AT_MS)
    decode = AvroDecoder(schema, True, {1: empty})
    rows = outcomes(pa.array([framed(1, b"")] * 2), spark_type(schema), decode).to_pylist()
    assert rows == [{"data": {"x": ORDER["at"]}, "error": None}] * 2


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"\0\0", "2 bytes long, shorter than the registry's prefix"),
        (b"{}{}{}", "does not begin with the registry's prefix"),
        (framed(1, b""), "EOFError"),
        (framed(1, b"\x02\x04junk"), "bytes are left after the record"),
    ],
)
def test_bad_avro_is_the_rows_error(value: bytes, complaint: str) -> None:
    schema = {"type": "record", "name": "E", "fields": [{"name": "id", "type": "int"}]}
    values = pa.array([value, None, framed(1, avro({"id": 5}, schema))])
    bad, tombstone, good = outcomes(values, spark_type(schema), AvroDecoder(schema, True, {})).to_pylist()
    assert bad["data"] is None
    assert complaint in bad["error"]
    assert tombstone == {"data": None, "error": None}
    assert good == {"data": {"id": 5}, "error": None}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("{", "is no JSON"),
        ({"type": "recrod"}, "not an Avro schema"),
        (["int", "string"], "union of 2 types"),
        (logical("bytes", "decimal", precision=39), "decimal of 39 digits has no Spark type"),
        (logical("bytes", "decimal"), "an Avro decimal has no precision"),
        (logical("bytes", "decimal", precision=0), "an Avro decimal has no precision"),
        (
            {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]},
            "record T contains itself",
        ),
    ],
)
def test_avro_schemas_that_have_no_columns(schema: Any, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        from_avro("value", schema)


def test_a_value_that_does_not_fit_its_column_spoils_no_other() -> None:
    rows = outcomes(pa.array([b"1", b"99999999999", b"2"]), IntegerType(), int).to_pylist()
    assert [row["data"] for row in rows] == [1, None, 2]
    assert rows[1]["error"]


# Protobuf -------------------------------------------------------------------------------------------------------

FIELD = descriptor_pb2.FieldDescriptorProto


def proto_file() -> bytes:
    """What protoc makes of a message with one field of every kind."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.dependency.append("google/protobuf/wrappers.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    line = file.message_type.add(name="Line")
    line.field.add(name="sku", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    single, repeated = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    fields = [
        ("id", FIELD.TYPE_INT64, single, ""),
        ("big", FIELD.TYPE_UINT64, single, ""),
        ("raw", FIELD.TYPE_BYTES, single, ""),
        ("lines", FIELD.TYPE_MESSAGE, repeated, ".shop.Line"),
        ("tags", FIELD.TYPE_MESSAGE, repeated, ".shop.Order.TagsEntry"),
        ("state", FIELD.TYPE_ENUM, single, ".shop.State"),
        ("at", FIELD.TYPE_MESSAGE, single, ".google.protobuf.Timestamp"),
        ("maybe", FIELD.TYPE_MESSAGE, single, ".google.protobuf.Int32Value"),
        ("first", FIELD.TYPE_MESSAGE, single, ".shop.Line"),
    ]
    for number, (name, kind, label, type_name) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    imports = [describe(name) for name in ("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto")]
    content: bytes = descriptor_pb2.FileDescriptorSet(file=[*imports, file]).SerializeToString()
    return content


def describe(name: str) -> Any:
    assert timestamp_pb2.DESCRIPTOR.name != wrappers_pb2.DESCRIPTOR.name, "imported, so that the pool knows them"
    found = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(found)
    return found


def proto_order(decoder: ProtobufDecoder) -> bytes:
    order = decoder.message_class()(id=7, big=2**64 - 1, raw=b"\xff", state=1, tags={"a": 1})
    order.lines.add(sku="x")
    order.at.FromJsonString("2026-01-02T03:04:05.678Z")
    content: bytes = order.SerializeToString()
    return content


PROTO_ROW: dict[str, Any] = {
    "id": 7,
    "big": Decimal(2**64 - 1),
    "raw": b"\xff",
    "lines": [{"sku": "x"}],
    "tags": [("a", 1)],
    "state": "PAID",
    "at": datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
    "maybe": None,
    "first": None,
}


def test_protobuf_types_and_values() -> None:
    decoder: ProtobufDecoder = pickle.loads(pickle.dumps(ProtobufDecoder("shop.Order", proto_file(), False)))
    kind = _struct(decoder.message_class().DESCRIPTOR, ())
    assert kind.simpleString() == (
        "struct<id:bigint,big:decimal(20,0),raw:binary,lines:array<struct<sku:string>>,tags:map<string,int>,"
        "state:string,at:timestamp,maybe:int,first:struct<sku:string>>"
    )
    rows = outcomes(pa.array([proto_order(decoder), b"\xff\xff", None]), kind, decoder).to_pylist()
    assert rows[0] == {"data": PROTO_ROW, "error": None}
    assert rows[1]["data"] is None
    assert "DecodeError" in rows[1]["error"]
    assert rows[2] == {"data": None, "error": None}


def test_protobuf_without_a_required_field() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=2)
    decoder = ProtobufDecoder("old.Order", descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), False)
    assert decoder(b"\x08\x07") == {"id": 7}
    with pytest.raises(ValueError, match="it lacks the required id"):
        decoder(b"")


@pytest.mark.parametrize("path", [b"\x02\x02", b"\x02\x04", b"\x02\x01", b"\x04\x00\x02"])
def test_protobuf_of_a_registry(path: bytes) -> None:
    """The message's own path; or one that its file does not have, so that the registry's must be another version."""
    plain, decoder = (ProtobufDecoder("shop.Order", proto_file(), framed) for framed in (False, True))
    decoder = pickle.loads(pickle.dumps(decoder))
    assert decoder(framed(3, path + proto_order(plain))) == PROTO_ROW


@pytest.mark.parametrize("path", [b"\0", b"\x02\0"])
def test_protobuf_of_another_message_of_the_file(path: bytes) -> None:
    """Its bytes alone would do: to the wanted message they are fields that it does not know."""
    line = framed(3, path + b"\x0a\x01x")
    with pytest.raises(ValueError, match=r"it is a shop\.Line, not a shop\.Order"):
        ProtobufDecoder("shop.Order", proto_file(), True)(line)
    assert ProtobufDecoder("shop.Line", proto_file(), True)(line) == {"sku": "x"}


def nested_file() -> bytes:
    """A map's entry is a message too, and before A, B and C: some serializers count it, some do not."""
    file = descriptor_pb2.FileDescriptorProto(name="nested.proto", package="p", syntax="proto3")
    outer = file.message_type.add(name="Outer")
    single, repeated = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    outer.field.add(name="tags", number=1, type=FIELD.TYPE_MESSAGE, label=repeated, type_name=".p.Outer.TagsEntry")
    entry = outer.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=FIELD.TYPE_INT32, label=single)
    for name in ("A", "B", "C"):
        outer.nested_type.add(name=name).field.add(name="id", number=1, type=FIELD.TYPE_INT32, label=single)
    content: bytes = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return content


@pytest.mark.parametrize(
    ("name", "right", "wrong", "complaint"),
    [
        ("p.Outer.A", [0, 1], 3, r"it is a p\.Outer\.C, not a p\.Outer\.A"),
        ("p.Outer.B", [1, 2], 0, r"it is a p\.Outer\.A, not a p\.Outer\.B"),
        ("p.Outer.C", [2, 3], 1, r"it is a p\.Outer\.A or p\.Outer\.B, not a p\.Outer\.C"),
    ],
)
def test_protobuf_of_messages_inside_messages(name: str, right: list[int], wrong: int, complaint: str) -> None:
    decoder = ProtobufDecoder(name, nested_file(), True)
    for index in right:
        assert decoder(framed(1, bytes([4, 0, 2 * index]) + b"\x08\x07")) == {"id": 7}
    with pytest.raises(ValueError, match=complaint):
        decoder(framed(1, bytes([4, 0, 2 * wrong]) + b"\x08\x07"))
    with pytest.raises(ValueError, match=rf"it is a p\.Outer, not a {name}"):
        decoder(framed(1, b"\0\x08\x07"))


def test_protobuf_of_a_message_in_an_imported_file() -> None:
    """Its path is in the file that it is in: serializers register that one."""
    main = descriptor_pb2.FileDescriptorProto(name="main.proto", package="m", syntax="proto3")
    main.dependency.append("nested.proto")
    main.message_type.add(name="Other")
    files = descriptor_pb2.FileDescriptorSet.FromString(nested_file())
    files.file.append(main)
    decoder = ProtobufDecoder("p.Outer", files.SerializeToString(), True)
    assert decoder(framed(1, b"\0")) == {"tags": []}


def test_files_that_import_each_other_many_times_over() -> None:
    pool = descriptor_pool.DescriptorPool()
    for number in range(60):
        file = descriptor_pb2.FileDescriptorProto(name=f"{number}.proto", package="p", syntax="proto3")
        file.dependency.extend(f"{before}.proto" for before in range(max(0, number - 2), number))
        file.message_type.add(name=f"M{number}")
        pool.Add(file)
    described = descriptor_pb2.FileDescriptorSet.FromString(_describe(pool.FindFileByName("59.proto")))
    assert [file.name for file in described.file] == [f"{number}.proto" for number in range(60)]


def test_messages_that_cannot_be_found_or_have_no_columns() -> None:
    with pytest.raises(OptionError, match=r"a descriptor_set is needed to find message 'shop\.Order'"):
        from_protobuf("value", "shop.Order")
    with pytest.raises(OptionError, match=r"has no message 'shop\.Nothing'"):
        from_protobuf("value", "shop.Nothing", descriptor_set=proto_file())
    with pytest.raises(OptionError, match=r"google\.protobuf\.Struct contains itself"):
        from_protobuf("value", struct_pb2.Struct)


# Inside Spark ---------------------------------------------------------------------------------------------------


def decoded(frame: DataFrame, column: Any) -> list[tuple[Any, Any]]:
    rows = frame.select("offset", column.alias("decoded")).orderBy("offset").collect()
    return [(row.decoded.data and row.decoded.data.asDict(recursive=True), row.decoded.error) for row in rows]


@pytest.fixture
def frame_of(
    bootstrap: str, new_topic: Callable[..., str], load: Callable[..., DataFrame]
) -> Callable[[list[bytes | None]], DataFrame]:
    def make(values: list[bytes | None]) -> DataFrame:
        topic = new_topic()
        produce(bootstrap, topic, [Sent(value, b"k") for value in values])
        return load(subscribe=topic)

    return make


JSON_SCHEMAS = (
    "id long, total double",
    "STRUCT<id: long, total: double>",
    StructType().add("id", "long").add("total", "double"),
)


def test_json_inside_spark(frame_of: Callable[..., DataFrame]) -> None:
    good = json.dumps({"id": 1, "total": 2.5, "more": {"a": [1]}}).encode()
    frame = frame_of([good, b'{"id": "x"}', b"no json", None, b'{"id": 2}', b""])
    for schema in JSON_SCHEMAS:
        rows = decoded(frame, from_json("value", schema))
        assert rows[0] == ({"id": 1, "total": 2.5}, None)
        assert rows[4] == ({"id": 2, "total": None}, None)
        assert rows[3] == (None, None)
        shown = schema if isinstance(schema, str) else "struct<id:bigint,total:double>"
        for bad in (1, 2, 5):
            assert rows[bad] == (None, f"not JSON of the schema {shown}")
    for empty in ("", "struct<>", StructType()):
        with pytest.raises(OptionError, match="a struct with at least one field"):
            from_json("value", empty)
    inferred = infer_json_schema(frame)
    assert inferred == StructType.fromDDL("id string, more struct<a: array<bigint>>, total double")
    with pytest.raises(OptionError, match="none of the first 1000 rows of column 'key' is a JSON object"):
        infer_json_schema(frame, "key")


@pytest.mark.parametrize(
    "rest", [b'{"id": 2}', b'\n{"id": 2}', b' {"id": 2}', b" more", b"}", b"]", b",", b'}{"id": 2}']
)
def test_json_with_something_after_it_is_no_row(frame_of: Callable[..., DataFrame], rest: bytes) -> None:
    assert decoded(frame_of([b'{"id": 1}' + rest]), from_json("value", "id long"))[0][0] is None


def test_json_that_goes_on_as_what_is_around_it_would_is_no_row(frame_of: Callable[..., DataFrame]) -> None:
    """Whatever a value is wrapped into, it must not be able to be a part of that."""
    rests = [
        ',"value":{"id":2}',
        ',"end":true} garbage',
        ',"other":{"id":2}',
        '],"other":[{"id":2}',
        '],"value":{"id":2},"end":true} garbage',
        '],"":[{"id":2}',
        "}} garbage",
        '},"other":{"x":{"id":2}',
        '},"whole":{"x":{"id":2}',
        ',"end":{}}} garbage',
        "] garbage",
        ',{"id":2}',
        ",null",
        "//",
        "/*",
        ',"',
    ]
    frame = frame_of([b'{"id": 1}' + rest.encode() for rest in rests] + [b'{"id": 1} \n'])
    rows = decoded(frame, from_json("value", "id long"))
    assert [data for data, _ in rows[:-1]] == [None] * len(rests)
    assert rows[-1] == ({"id": 1}, None)


def test_json_may_have_any_names(frame_of: Callable[..., DataFrame]) -> None:
    row = {"_corrupt_record": 1, "corrupt": 2, "end": 3, "value": 4}
    frame = frame_of([json.dumps(row).encode()])
    assert decoded(frame, from_json("value", infer_json_schema(frame))) == [(row, None)]


def test_a_sample_of_large_json_is_a_small_one(
    frame_of: Callable[..., DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of([b'{"id": 1}', b'{"total": 1}', b'{"note": ""}'])
    for most, names in ((24, ["id", "total"]), (23, ["id", "total"]), (20, ["id"]), (1, ["id"])):
        monkeypatch.setattr(json_values, "SAMPLE_CHARACTERS_MAX", most)
        assert infer_json_schema(frame).names == names


def test_json_with_a_name_twice_is_no_sample(frame_of: Callable[..., DataFrame]) -> None:
    frame = frame_of([b'{"id": 1, "id": 2}', b'{"at": {"x": 1, "x": 2}}', b'{"id": 3}'])
    schema = infer_json_schema(frame)
    assert schema == StructType.fromDDL("id bigint")
    rows = decoded(frame, from_json("value", schema))
    assert [data and data["id"] for data, _ in rows] == [2, None, 3]


@pytest.mark.parametrize("odd", [b"[" * 3000 + b"]" * 3000, b"[" * 500 + b"]" * 500, b"9" * 1500, b"0." + b"9" * 1500])
def test_json_that_spark_refuses_is_no_sample(frame_of: Callable[..., DataFrame], odd: bytes) -> None:
    frame = frame_of([b'{"id": 1}', b'{"id": ' + odd + b"}"])
    assert infer_json_schema(frame) == StructType.fromDDL("id bigint")


def test_avro_and_protobuf_inside_spark(frame_of: Callable[..., DataFrame], spark: SparkSession) -> None:
    proto = ProtobufDecoder("shop.Order", proto_file(), False)
    frame = frame_of([framed(1, avro(ORDER)), proto_order(proto), None])
    rows = decoded(frame, from_avro("value", json.dumps(AVRO), framed=True))
    assert rows[0][0] is not None
    assert (rows[0][0]["id"], rows[0][0]["price"], rows[0][0]["tags"]) == (7, Decimal("12.50"), {"gift": True})
    assert rows[0][0]["at"] == ORDER["at"].astimezone().replace(tzinfo=None)
    assert rows[1][0] is None
    assert "registry's prefix" in str(rows[1][1])
    assert rows[2] == (None, None)
    rows = decoded(frame, from_protobuf("value", "shop.Order", descriptor_set=proto_file()))
    assert rows[1][0] is not None
    assert (rows[1][0]["big"], rows[1][0]["tags"], rows[1][0]["state"]) == (Decimal(2**64 - 1), {"a": 1}, "PAID")
    assert rows[2] == (None, None)
