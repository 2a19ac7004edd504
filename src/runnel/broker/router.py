"""From a frame to its handler: header, version gate, quota, authorisation, dispatch.

The table of APIs is the protocol coverage: an API is advertised if and only if it has an entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from runnel.broker.charging import Charge, Timed, charge_for
from runnel.broker.connection import Buffers, Connection, Outcome
from runnel.core.metadata import Admission, admit_all
from runnel.wire import messages
from runnel.wire.apis import KAFKA_RANGES, ApiKey, response_header_version
from runnel.wire.errors import ErrorCode, Malformed
from runnel.wire.frames import RequestHeader, decode_request_header, response_prefix
from runnel.wire.schemas import find_field

if TYPE_CHECKING:
    from runnel.services.node import Node


class Access(NamedTuple):
    """What a request touches, in the words of ACLs: an operation on resources of one kind."""

    operation: str  # READ, WRITE, CREATE, …
    resource: str  # TOPIC, CLUSTER, GROUP, …
    names: Callable[[Node, Any], Iterable[str]] | None = (
        None  # which ones, read from the request; None: the kind itself
    )


class Authorizer(Protocol):
    allows_all: bool

    def denied(self, principal: str, host: str, access: Access, names: Iterable[str]) -> frozenset[str]: ...


class AllowAll:
    """No ACLs are configured: everybody may do everything, as in Kafka without an authorizer."""

    allows_all = True

    def denied(self, principal: str, host: str, access: Access, names: Iterable[str]) -> frozenset[str]:
        return frozenset()


NOTHING_DENIED: frozenset[str] = frozenset()


class Context(NamedTuple):
    """One request as a handler sees it, besides its body."""

    header: RequestHeader
    connection: Connection
    node: Node
    denied: frozenset[str]  # names of resources that the principal may not touch
    charge: Charge | None = None  # where its client has a quota

    @property
    def version(self) -> int:
        return self.header.api_version

    def settle(self) -> int:
        """throttle_time_ms of the reply; asked by handlers that answer bytes, when they encode them."""
        return 0 if self.charge is None else self.charge.settle()

    def admission(self, strict_since_version: int) -> Admission:
        """To be asked before partitions are made or deleted; raises Refusal where the client must wait (KIP-599)."""
        charge = self.charge
        if charge is None:
            return admit_all
        strict = self.version >= strict_since_version
        return lambda partitions: charge.mutated(partitions, strict=strict)


Body = dict[str, Any]
Answer: TypeAlias = "Body | Outcome"
Decoder = Callable[[int, int, memoryview, int], Any]
Handler: TypeAlias = "Callable[[Context, Any], Answer | Coroutine[Any, Any, Body | Buffers | None]]"


@dataclass(frozen=True, slots=True)
class Api:
    """One entry of the table. A handler answers a version-agnostic body, which is encoded here with its throttle time,
    or, on the hot path, the bytes themselves; then it settles with its client itself."""

    key: ApiKey
    handle: Handler
    access: Access
    decode: Decoder = messages.decode_request
    serves_from: int | None = None  # the lowest version really served, where it is above the lowest advertised

    @property
    def versions(self) -> tuple[int, int]:
        return KAFKA_RANGES[self.key]


class Router:
    def __init__(self, apis: Iterable[Api], node: Node, authorizer: Authorizer | None = None) -> None:
        self.node = node
        self._authorizer = authorizer or AllowAll()
        self._quotas = node.quotas
        self._apis: dict[int, Api] = {int(api.key): api for api in apis}
        node.advertised = {key: api.versions for key, api in sorted(self._apis.items())}

    def handle(self, connection: Connection, frame: memoryview) -> Outcome:
        """Decide what to do with one request; nothing here waits."""
        header, offset = decode_request_header(frame)
        api = self._apis.get(header.api_key)
        if api is None:
            raise Malformed(f"API key {header.api_key} is not served")
        low, high = api.versions
        if not (api.serves_from or low) <= header.api_version <= high:
            return self._unsupported(api, header)
        charge = None
        if self._quotas.limits_clients:
            charge = charge_for(self._quotas, connection, header.client_id, len(frame))
        request = api.decode(header.api_key, header.api_version, frame, offset)
        denied = self.authorise(connection, api.access, request)
        answer = api.handle(Context(header, connection, self.node, denied, charge), request)
        if charge is not None:
            return charged(header, answer, charge)
        if type(answer) is list or answer is None:  # the hot path: bytes
            return answer
        if type(answer) is dict:
            return reply(header, answer)
        if isinstance(answer, asyncio.Future):
            return answer
        return _reply_later(header, cast("Coroutine[Any, Any, Any]", answer))

    def authorise(self, connection: Connection, access: Access, request: object) -> frozenset[str]:
        """The one place where permission is asked: the names that this principal may not touch."""
        if self._authorizer.allows_all:
            return NOTHING_DENIED
        names = access.names(self.node, request) if access.names else ("",)
        return self._authorizer.denied(connection.principal, connection.peer_host, access, names)

    def _unsupported(self, api: Api, header: RequestHeader) -> Buffers:
        if api.key is not ApiKey.API_VERSIONS:
            low, high = api.versions
            raise Malformed(
                f"{api.key.name} version {header.api_version} is not served; use {api.serves_from or low} to {high}"
            )
        # KIP-511: an unknown version is answered in version 0, with the ranges, so that the client can choose.
        body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": self.node.advertised_rows()}
        return reply(header._replace(api_version=0), body)


def reply(header: RequestHeader, body: Body) -> list[bytes]:
    encoded = messages.encode_response(header.api_key, header.api_version, body)
    return [prefix(header, len(encoded)), encoded]


async def _reply_later(header: RequestHeader, answer: Coroutine[Any, Any, Any]) -> Buffers | None:
    result = await answer
    return reply(header, result) if isinstance(result, dict) else cast("Buffers | None", result)


def charged(header: RequestHeader, answer: Any, charge: Charge) -> Outcome:
    """The same for a client with a quota: the reply says for how long its connection is muted."""
    if isinstance(answer, asyncio.Future):  # it settles when it is done
        charge.put_down()
        return answer
    if answer is None or isinstance(answer, list | dict):
        return _charged_reply(header, answer, charge)
    charge.put_down()
    return _charged_reply_later(header, answer, charge)


async def _charged_reply_later(
    header: RequestHeader, answer: Coroutine[Any, Any, Any], charge: Charge
) -> Buffers | None:
    result = await Timed(answer, charge)
    charge.take_up()
    return _charged_reply(header, result, charge)


def _charged_reply(header: RequestHeader, answer: Any, charge: Charge) -> Buffers | None:
    if answer is None:  # nothing is replied, so no time is charged either, as in Kafka
        return None
    if isinstance(answer, dict):
        throttle_ms = charge.settle()
        if throttle_ms and find_field(header.api_key, "response", (), "throttle_time_ms"):
            answer = {**answer, "throttle_time_ms": throttle_ms}
        answer = reply(header, answer)
    charge.finish()
    return cast("Buffers", answer)


def prefix(header: RequestHeader, body_bytes: int) -> bytes:
    version = response_header_version(header.api_key, header.api_version)
    return response_prefix(header.correlation_id, version, body_bytes)
