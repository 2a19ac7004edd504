"""Records as text: format strings in the manner of kcat, and JSON lines.

In: a record and where it came from. Out: the bytes to print. A format is compiled once into a list of
pieces.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from runnel.cli.output import iso_time, json_line
from runnel.cli.records_in import unescape
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.wire.batch import Record

Piece = Callable[[TopicPartition, Record], bytes]
Encoder = Callable[[bytes | None], bytes]
ENCODINGS = ("text", "base64", "hex", "json")


class OutputFormat(NamedTuple):
    encoding: str = "text"
    null: bytes = b""


def encoder(output: OutputFormat) -> Encoder:
    """How a key or a value is written inside a format string."""
    null = output.null
    if output.encoding == "base64":
        return lambda data: null if data is None else base64.b64encode(data)
    if output.encoding == "hex":
        return lambda data: null if data is None else data.hex().encode()
    if output.encoding == "json":
        return lambda data: json.dumps(None if data is None else _loose_json(data), ensure_ascii=False).encode()
    return lambda data: null if data is None else data


def compile_format(template: str, output: OutputFormat) -> Callable[[TopicPartition, Record], bytes]:
    """A function that prints one record; an unknown `%x` is an error that lists the known ones."""
    encode = encoder(output)
    pieces: list[Piece] = []
    rest = template
    while rest:
        literal, found, rest = rest.partition("%")
        if literal:
            pieces.append(_constant(unescape(literal)))
        if not found:
            break
        name, rest = rest[:1], rest[1:]
        pieces.append(_field(name, encode))
    return lambda target, record: b"".join([piece(target, record) for piece in pieces])


def _constant(text: bytes) -> Piece:
    return lambda _target, _record: text


def _field(name: str, encode: Encoder) -> Piece:
    fields: dict[str, Piece] = {
        "t": lambda target, _record: target.topic.encode(),
        "p": lambda target, _record: b"%d" % target.partition,
        "o": lambda _target, record: b"%d" % record.offset,
        "k": lambda _target, record: encode(record.key),
        "K": lambda _target, record: b"%d" % _length(record.key),
        "v": lambda _target, record: encode(record.value),
        "V": lambda _target, record: b"%d" % _length(record.value),
        "h": lambda _target, record: b",".join(_header(header, encode) for header in record.headers),
        "T": lambda _target, record: iso_time(record.timestamp).encode(),
        "d": lambda _target, record: b"%d" % record.timestamp,
        "%": _constant(b"%"),
    }
    fields["s"], fields["S"] = fields["v"], fields["V"]  # kcat's names
    if name not in fields:
        raise ClientError(f"'%{name}' is not a field of a format; known are " + " ".join(f"%{key}" for key in fields))
    return fields[name]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _header(header: tuple[str, bytes | None], encode: Encoder) -> bytes:
    name, value = header
    return name.encode("utf-8", "surrogateescape") + b"=" + encode(value)


def json_record(target: TopicPartition, record: Record, encoding: str = "text") -> bytes:
    """One JSON line. `produce --input json` reads it back."""
    return json_line({**target._asdict(), **record_document(record, encoding)}).encode() + b"\n"


def record_document(record: Record, encoding: str = "text") -> dict[str, Any]:
    document: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "time": None if record.timestamp < 0 else iso_time(record.timestamp),
    }
    _put(document, "key", record.key, encoding)
    _put(document, "value", record.value, encoding)
    document["headers"] = [_header_document(header, encoding) for header in record.headers]
    return document


def _header_document(header: tuple[str, bytes | None], encoding: str) -> dict[str, Any]:
    document: dict[str, Any] = {"key": header[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")}
    _put(document, "value", header[1], encoding)
    return document


def _put(document: dict[str, Any], name: str, data: bytes | None, encoding: str) -> None:
    """Under `name` if it is text; what is not UTF-8 goes to `name_base64`, so that nothing is lost."""
    if data is None:
        document[name] = None
    elif encoding == "hex":
        document[f"{name}_hex"] = data.hex()
    elif encoding == "base64" or (text := _text(data)) is None:
        document[f"{name}_base64"] = base64.b64encode(data).decode()
    else:
        document[name] = _loose_json(data) if encoding == "json" else text


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _loose_json(data: bytes) -> Any:
    """The JSON value inside, or the text if it is not JSON."""
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")
