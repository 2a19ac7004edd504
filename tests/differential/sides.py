"""One of the two brokers: its connections, and the reply to a request in plain values.

In: API key, version and a body (mapping) with `Name`s. Out: the reply as a mapping, or an `Outcome`. Encoding and
decoding are our own wire's; kio reads every reply too, and must use every byte of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from differential.names import Names
from harness.raw import Closed, RawConnection, decode_reply
from runnel.wire.apis import response_header_version
from runnel.wire.frames import decode_response_header, encode_request_header
from runnel.wire.messages import decode_response, encode_request

CLIENT_ID = "differential"
REPLY_SECONDS = 20.0
SILENCE_SECONDS = 1.0
MAIN = "main"


class Outcome(Enum):
    """What came instead of a reply."""

    CLOSED = "closed"
    SILENT = "silent"


class Side:
    """A running broker. Connections have names, since members of groups need one each."""

    def __init__(self, label: str, address: str) -> None:
        self.label = label
        self.address = address
        self.names = Names()
        self.cluster_id = ""
        self._connections: dict[str, RawConnection] = {}

    def __repr__(self) -> str:
        return self.label

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def connection(self, name: str = MAIN) -> RawConnection:
        if name not in self._connections:
            self._connections[name] = RawConnection(self.address, REPLY_SECONDS)
        return self._connections[name]

    def hang_up(self, name: str = MAIN) -> None:
        if name in self._connections:
            self._connections.pop(name).socket.close()

    def close(self) -> None:
        for name in list(self._connections):
            self.hang_up(name)

    def send(self, api_key: int, version: int, body: Mapping[str, Any], connection: str = MAIN) -> None:
        raw = self.connection(connection)
        raw.correlation_id += 1
        header = encode_request_header(api_key, version, raw.correlation_id, CLIENT_ID)
        raw.send_bytes(header + encode_request(api_key, version, self.names.resolved(body)))

    def receive(
        self, api_key: int, version: int, connection: str = MAIN, patience_s: float = REPLY_SECONDS
    ) -> dict[str, Any] | Outcome:
        raw = self.connection(connection)
        raw.socket.settimeout(patience_s)
        try:
            payload = raw.receive()
        except (Closed, TimeoutError) as error:
            self.hang_up(connection)
            return Outcome.CLOSED if isinstance(error, Closed) else Outcome.SILENT
        correlation_id, position = decode_response_header(payload, response_header_version(api_key, version))
        if correlation_id != raw.correlation_id:
            raise AssertionError(f"{self.label} answered {correlation_id} to {raw.correlation_id}")
        decode_reply(api_key, version, payload)
        return decode_response(api_key, version, payload, position).to_dict()

    def ask(self, api_key: int, version: int, body: Mapping[str, Any], connection: str = MAIN) -> Any:
        self.send(api_key, version, body, connection)
        return self.receive(api_key, version, connection)
