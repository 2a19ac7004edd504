"""Records from text and to text, by values: what one side writes the other reads back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.cli.output import human_bytes, iso_time
from runnel.cli.records_in import InputRecord, JsonParser, LineParser, Splitter, parse_header, unescape
from runnel.cli.records_out import OutputFormat, compile_format, json_record
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.wire.batch import Record

TARGET = TopicPartition("orders", 3)
RECORD = Record(42, 1767225600005, b"k", b"v", (("h", b"1"), ("n", None)))


@given(st.binary(max_size=200), st.sampled_from([b"\n", b"\r\n", b"--", b"aa"]), st.integers(1, 20))
def test_a_stream_is_cut_the_same_whatever_its_chunks(data: bytes, delimiter: bytes, chunk_bytes: int) -> None:
    whole, pieces = Splitter(delimiter), Splitter(delimiter)
    expected = whole.feed(data) + whole.finish()
    found = []
    for start in range(0, len(data), chunk_bytes):
        found += pieces.feed(data[start : start + chunk_bytes])
    found += pieces.finish()
    assert delimiter.join(found) == delimiter.join(expected)
    if delimiter in (b"\n", b"--"):
        assert b"".join(found).replace(b"-", b"") == data.replace(delimiter, b"").replace(b"-", b"")


def test_lines_end_with_a_newline_or_with_the_input() -> None:
    splitter = Splitter(b"\n")
    assert splitter.feed(b"a\n\nb") == [b"a", b""]
    assert splitter.finish() == [b"b"]
    assert splitter.finish() == []
    assert splitter.feed(b"c\n") == [b"c"]
    assert splitter.finish() == []


def test_lines_with_keys() -> None:
    parser = LineParser(key_separator=b":", key=b"default", headers=(("h", b"1"),))
    assert parser.parse(b"k:v:w", 1) == InputRecord(b"v:w", b"k", (("h", b"1"),))
    assert parser.parse(b"no key", 1) == InputRecord(b"no key", b"default", (("h", b"1"),))
    assert parser.parse(b":", 1) == InputRecord(b"", b"", (("h", b"1"),))
    assert LineParser(key_separator=b":", empty_is_null=True).parse(b":", 1) == InputRecord(None, None)


def test_json_lines() -> None:
    line = b'{"key": "k", "value": {"a": [1, "\xc3\xbc"]}, "headers": {"h": "1"}, "partition": 2, "timestamp": 5}'
    assert JsonParser().parse(line, 1) == InputRecord('{"a":[1,"ü"]}'.encode(), b"k", (("h", b"1"),), 2, 5)
    assert JsonParser(keep_partition=False).parse(line, 1).partition is None
    assert JsonParser(key=b"d").parse(b'{"value": null}', 1) == InputRecord(None, b"d")
    assert JsonParser().parse(b'{"value_hex": "00ff", "key_base64": "/w=="}', 1) == InputRecord(b"\0\xff", b"\xff")
    iso = JsonParser().parse(b'{"value": "x", "timestamp": "2026-01-01T00:00:00.005Z"}', 1)
    assert iso.timestamp_ms == 1767225600005


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b'"x"', b'{"value_base64": "*"}', b'{"value_hex": 1}', b'{"headers": "x"}', b'{"headers": [1]}',
     b'{"partition": "0"}', b'{"partition": true}', b'{"timestamp": "soon"}', b"\xff"],
)  # fmt: skip
def test_what_is_no_record_is_refused_with_its_line_number(line: bytes) -> None:
    with pytest.raises(ClientError, match="line 7 is not a record"):
        JsonParser().parse(line, 7)


@given(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
    st.integers(0, 1 << 41),
    st.sampled_from(["text", "base64", "hex"]),
)
def test_json_output_is_json_input(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...], time_ms: int, encoding: str
) -> None:
    line = json_record(TARGET, Record(1, time_ms, key, value, headers), encoding)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert JsonParser().parse(line, 1) == InputRecord(value, key, headers, TARGET.partition, time_ms)


def test_json_fields() -> None:
    assert json.loads(json_record(TARGET, RECORD)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1767225600005,
        "time": "2026-01-01T00:00:00.005Z",
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
    }
    embedded = json.loads(json_record(TARGET, Record(0, -1, b'{"a":1}', b"plain", ()), "json"))
    assert (embedded["key"], embedded["value"], embedded["time"]) == ({"a": 1}, "plain", None)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"%t/%p@%o\n", b"orders/3@42\n"),
        (r"%k=%v %h", b"k=v h=1,n=NULL"),
        (r"%T|%d", b"2026-01-01T00:00:00.005Z|1767225600005"),
        (r"%K %V %S %s", b"1 1 1 v"),
        (r"100%%\t\x41\\n\0", b"100%\tA\\n\0"),
        ("ü", "ü".encode()),
    ],
)
def test_formats(template: str, expected: bytes) -> None:
    assert compile_format(template, OutputFormat(null=b"NULL"))(TARGET, RECORD) == expected


@pytest.mark.parametrize(
    ("encoding", "expected"), [("hex", b"6b 76 h=31,n="), ("base64", b"aw== dg== h=MQ==,n="), ("text", b"k v h=1,n=")]
)
def test_encodings_in_formats(encoding: str, expected: bytes) -> None:
    assert compile_format("%k %v %h", OutputFormat(encoding))(TARGET, RECORD) == expected


def test_an_unfinished_field_is_an_error() -> None:
    with pytest.raises(ClientError, match="is not a field"):
        compile_format("50%", OutputFormat())


@pytest.mark.parametrize(
    ("text", "expected"),
    [(r"\\", b"\\"), (r"a\\\\b", rb"a\\b"), (r"\q", rb"\q"), (r"\x4", rb"\x4"), (r"\xzz", rb"\xzz")],
)
def test_escapes(text: str, expected: bytes) -> None:
    assert unescape(text) == expected


def test_headers_of_an_option() -> None:
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a=") == ("a", b"")
    assert parse_header("a") == ("a", None)


def test_figures_for_people() -> None:
    assert iso_time(-1) == "-"
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(10**18) == "1000000000000000000ms"
    assert [human_bytes(size) for size in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
