"""Records from text: lines with or without keys, JSON lines, or whole files.

In: chunks of bytes as they arrive. Out: `InputRecord`s. What cannot be read is a `ClientError` that
names the line.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from runnel.client.errors import ClientError
from runnel.client.offsets import parse_timestamp_ms

RECORD_BYTES_MAX = 512 << 20
Headers = tuple[tuple[str, bytes | None], ...]


class InputRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Splitter:
    """Cuts a stream at a delimiter, whatever the chunks in which it arrives."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        # Only what is new can complete a delimiter: a long record is not searched again with every chunk.
        seen = max(0, len(self._rest) - len(self._delimiter) + 1)
        self._rest += chunk
        last = self._rest.rfind(self._delimiter, seen)
        if last < 0:
            if len(self._rest) > RECORD_BYTES_MAX:
                raise ClientError(f"no delimiter within {RECORD_BYTES_MAX >> 20} MiB of input")
            return []
        pieces = bytes(self._rest[:last]).split(self._delimiter)
        del self._rest[: last + len(self._delimiter)]
        return pieces

    def finish(self) -> list[bytes]:
        """What came after the last delimiter, if anything did."""
        piece = bytes(self._rest)
        self._rest.clear()
        return [piece] if piece else []


@dataclass(frozen=True, slots=True)
class LineParser:
    """A line is a value, or with a key separator a key and a value."""

    key_separator: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    empty_is_null: bool = False

    def parse(self, line: bytes, _number: int) -> InputRecord:
        key, value = self.key, line
        if self.key_separator is not None:
            before, found, after = line.partition(self.key_separator)
            if found:
                key, value = before, after
        if self.empty_is_null:
            return InputRecord(value or None, key or None, self.headers)
        return InputRecord(value, key, self.headers)


@dataclass(frozen=True, slots=True)
class JsonParser:
    """A line is an object with `value`, `key`, `headers`, ... as `consume --json` writes it."""

    key: bytes | None = None
    headers: Headers = ()
    keep_partition: bool = True

    def parse(self, line: bytes, number: int) -> InputRecord:
        try:
            document = json.loads(line)
            if not isinstance(document, dict):
                raise ClientError("a JSON object is expected")
            return self._record(document)
        except (ValueError, ClientError) as error:
            raise ClientError(
                f'line {number} is not a record: {error}; a record looks like {{"key": "k", "value": "v"}}'
            ) from error

    def _record(self, document: dict[str, Any]) -> InputRecord:
        key = _content(document, "key")
        partition = document.get("partition") if self.keep_partition else None
        if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
            raise ClientError("'partition' must be a number")
        timestamp = document.get("timestamp")
        return InputRecord(
            value=_content(document, "value"),
            key=self.key if key is None else key,
            headers=self.headers + _headers(document.get("headers")),
            partition=partition,
            timestamp_ms=None if timestamp is None else parse_timestamp_ms(str(timestamp)),
        )


def _content(document: dict[str, Any], name: str) -> bytes | None:
    """Text as it is; base64 or hex where the field says so; any other JSON value as compact JSON."""
    try:
        if f"{name}_base64" in document:
            return base64.b64decode(document[f"{name}_base64"], validate=True)
        if f"{name}_hex" in document:
            return bytes.fromhex(document[f"{name}_hex"])
    except (TypeError, ValueError, binascii.Error) as error:
        raise ClientError(f"'{name}': {error}") from error
    value = document.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _headers(given: Any) -> Headers:
    """A list of {"key", "value"}, because names may repeat; a plain object is fine too."""
    if given is None:
        return ()
    if isinstance(given, dict):
        given = [{"key": key, "value": value} for key, value in given.items()]
    if not isinstance(given, list) or not all(isinstance(row, dict) and "key" in row for row in given):
        raise ClientError('\'headers\' must be an object, or a list of {"key": ..., "value": ...}')
    return tuple((str(row["key"]), _content(row, "value")) for row in given)


def parse_header(text: str) -> tuple[str, bytes | None]:
    """`name=value`; `name` alone has a null value, as in kcat."""
    name, found, value = text.partition("=")
    if not name:
        raise ClientError(f"'{text}' is not a header: write NAME=VALUE")
    return name, value.encode("utf-8", "surrogateescape") if found else None


def unescape(text: str) -> bytes:
    r"""Text of an option as bytes, with \n \t \r \0 \\ \xHH as everywhere in Unix."""
    return b"".join(_unescaped(text.encode("utf-8", "surrogateescape")))


_ESCAPES = {
    b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"a": b"\a", b"e": b"\x1b", b"\\": b"\\",
}  # fmt: skip


def _unescaped(data: bytes) -> Iterator[bytes]:
    pieces = data.split(b"\\")
    yield pieces[0]
    position = 1
    while position < len(pieces):
        piece = pieces[position]
        if piece == b"" and position + 1 < len(pieces):  # a doubled backslash
            yield b"\\" + pieces[position + 1]
            position += 2
            continue
        if piece[:1] == b"x" and len(piece) >= 3:
            try:
                yield bytes.fromhex(piece[1:3].decode("ascii")) + piece[3:]
            except ValueError:
                yield b"\\" + piece
        elif piece[:1] in _ESCAPES:
            yield _ESCAPES[piece[:1]] + piece[1:]
        else:
            yield b"\\" + piece
        position += 1
