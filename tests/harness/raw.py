"""Kafka frames on a plain socket, encoded by kio: for what no ordinary client would send or show.

In: an API key, a version and a plain mapping. Out: kio's reply, or the bytes themselves.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import socket
import struct
import types
import typing
import uuid
from collections.abc import Mapping
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

SOCKET_TIMEOUT_SECONDS = 60.0
CLIENT_ID = "raw-test"


class Closed(ConnectionError):
    """The broker closed the connection."""


def versions_of(api_key: int) -> list[int]:
    """Every version that kio knows of this API."""
    return sorted(schema_name_map[api_key_map[api_key]])


@functools.cache
def _known_fields(api_key: int) -> frozenset[str]:
    names: set[str] = set()
    for version in versions_of(api_key):
        if EntityType.request in schema_name_map[api_key_map[api_key]][version]:
            _collect_fields(load_request_schema(api_key, version), names)
    return frozenset(names)


def _collect_fields(entity: type, names: set[str]) -> None:
    for name, hint in _hints(entity).items():
        names.add(name)
        inner = _entity_in(hint)
        if inner is not None:
            _collect_fields(inner, names)


@functools.cache
def _hints(entity: type) -> dict[str, Any]:
    hints = typing.get_type_hints(entity)
    return {field.name: hints[field.name] for field in dataclasses.fields(entity)}


def _entity_in(hint: Any) -> type | None:
    if dataclasses.is_dataclass(hint):
        return typing.cast(type, hint)
    for argument in typing.get_args(hint):
        found = _entity_in(argument)
        if found is not None:
            return found
    return None


def _is_array(hint: Any) -> bool:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(_is_array(argument) for argument in typing.get_args(hint))
    return typing.get_origin(hint) is tuple


def _convert(hint: Any, value: Any) -> Any:
    entity = _entity_in(hint)
    if value is None:
        return None
    if _is_array(hint):
        return tuple(_build(entity, item) if entity else item for item in value)
    if entity is not None:
        return _build(entity, value)
    if isinstance(value, int) and "Timedelta" in str(hint):
        return datetime.timedelta(milliseconds=value)
    return value


def _zero(hint: Any) -> Any:
    if _is_array(hint):
        return ()
    entity = _entity_in(hint)
    if entity is not None:
        return _build(entity, {})
    text = str(hint)
    for mark, value in (("Timedelta", datetime.timedelta()), ("UUID", None), ("None", None), ("bool", False)):
        if mark in text:
            return value
    return "" if "str" in text.lower() or "Name" in text or ("Id'" in text and "Transactional" in text) else 0


def _build(entity: type, values: Mapping[str, Any]) -> Any:
    arguments = {}
    for field in dataclasses.fields(entity):
        hint = _hints(entity)[field.name]
        if field.name in values:
            arguments[field.name] = _convert(hint, values[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            arguments[field.name] = _zero(hint)
    return entity(**arguments)


def _check_names(api_key: int, values: Any) -> None:
    if isinstance(values, Mapping):
        unknown = set(values) - _known_fields(api_key)
        if unknown:
            raise KeyError(f"no version of API {api_key} has {sorted(unknown)}")
        for value in values.values():
            _check_names(api_key, value)
    elif isinstance(values, list | tuple):
        for value in values:
            _check_names(api_key, value)


def encode_body(api_key: int, version: int, body: Mapping[str, Any]) -> bytes:
    """The request's body; fields that this version lacks are left out, misspelt ones raise KeyError."""
    _check_names(api_key, body)
    entity = load_request_schema(api_key, version)
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, _build(entity, body))
    return buffer.getvalue()


def is_flexible(api_key: int, version: int) -> bool:
    return bool(load_request_schema(api_key, version).__flexible__)


def encode_header(
    api_key: int, version: int, correlation_id: int, *, flexible: bool, client_id: str | None = CLIENT_ID
) -> bytes:
    """Header v1 or v2. The client id is never compact, even in v2."""
    client = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return struct.pack(">hhi", api_key, version, correlation_id) + client + (b"\x00" if flexible else b"")


def encode_frame(api_key: int, version: int, correlation_id: int, body: Mapping[str, Any]) -> bytes:
    payload = encode_header(api_key, version, correlation_id, flexible=is_flexible(api_key, version))
    payload += encode_body(api_key, version, body)
    return struct.pack(">i", len(payload)) + payload


def decode_reply(api_key: int, version: int, payload: bytes) -> tuple[int, Any]:
    """Correlation id and kio's entity; every byte must be used."""
    entity = load_response_schema(api_key, version)
    correlation_id = struct.unpack_from(">i", payload)[0]
    position = 4
    # KIP-511: the reply to ApiVersions keeps header v0, so that any client can read it.
    if entity.__flexible__ and api_key != 18:
        if payload[4] != 0:
            raise AssertionError(f"unexpected tagged fields in the response header: {payload[4:20]!r}")
        position = 5
    value, size = entity_reader(entity)(payload, position)
    if position + size != len(payload):
        raise AssertionError(f"API {api_key} v{version}: {len(payload) - position - size} trailing bytes")
    return correlation_id, value


class RawConnection:
    """One socket. Requests may be sent ahead of replies; replies are matched by order, as Kafka promises."""

    def __init__(self, address: str, timeout_seconds: float = SOCKET_TIMEOUT_SECONDS) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_seconds)
        self.correlation_id = 0

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, body: Mapping[str, Any]) -> int:
        self.correlation_id += 1
        self.socket.sendall(encode_frame(api_key, version, self.correlation_id, body))
        return self.correlation_id

    def send_bytes(self, payload: bytes) -> None:
        """A frame with any content."""
        self.socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive(self) -> bytes:
        """The next frame without its size. Raises Closed when the broker hangs up."""
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self.socket.recv(size - len(data))
            except ConnectionResetError as error:
                raise Closed("reset by the broker") from error
            if not chunk:
                raise Closed(f"closed by the broker after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)

    def request(self, api_key: int, version: int, body: Mapping[str, Any]) -> Any:
        correlation_id = self.send(api_key, version, body)
        answered, value = decode_reply(api_key, version, self.receive())
        if answered != correlation_id:
            raise AssertionError(f"asked {correlation_id}, the answer is for {answered}")
        return value

    def is_closed_by_peer(self) -> bool:
        """True once the broker has hung up; waits for that up to the socket's timeout."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def topic_id_of(connection: RawConnection, topic: str) -> uuid.UUID:
    reply = connection.request(3, 12, {"topics": [{"topic_id": None, "name": topic}]})
    found = reply.topics[0].topic_id
    if found is None:
        raise AssertionError(f"{topic} has no id: {reply.topics[0].error_code!r}")
    return typing.cast(uuid.UUID, found)
