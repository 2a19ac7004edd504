"""One blocking connection to one broker: dialled, secured, versions agreed on, requests sent ahead of their replies.

In: an API key and the fields of a request. Out: the decoded reply, or a `ClientError`. Replies come in the order of
requests. All replies land in one buffer that the next one overwrites: what is to live longer is copied by the caller.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from runnel import release
from runnel.client.address import Address
from runnel.client.errors import ClientError
from runnel.client.security import SECURED_CURE, login, no_tls, secured_hint, tls_context
from runnel.spark.kafka_options import BrokerSettings
from runnel.wire.apis import KAFKA_RANGES, PRODUCE_VERSION_MIN, ApiKey, response_header_version
from runnel.wire.errors import ErrorCode, Malformed
from runnel.wire.frames import decode_response_header, encode_request_header
from runnel.wire.messages import Struct, decode_response, encode_request

# A larger reply is taken for a peer that does not speak Kafka.
REPLY_BYTES_MAX = 1 << 30
SOFTWARE_NAME = "runnel-spark"
BUFFER_BYTES_FIRST = 64 << 10
SEND_PIECES_MAX = 64


class Connection:
    """`send` any number of requests, then `receive` as often; `ask` and `answer` so with fields; `call` does both."""

    def __init__(self, address: Address, settings: BrokerSettings) -> None:
        self.address = address
        self.ranges: dict[int, tuple[int, int]] = {}
        self._settings = settings
        self._correlation_id = 0
        self._is_trusted = False
        """Whether anything but the question for versions was answered: listeners answer that to everybody."""
        self._sent: list[tuple[ApiKey, int, int]] = []
        self._buffer = bytearray(BUFFER_BYTES_FIRST)
        self._socket = _dial(address, settings)
        try:
            self._negotiate()
            self._authenticate()
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def close(self) -> None:
        self._sent.clear()
        self._socket.close()

    def version(self, api_key: ApiKey, version_max: int | None = None) -> int:
        """The highest version that both sides have."""
        low, high = KAFKA_RANGES[api_key]
        if api_key == ApiKey.PRODUCE:
            low = PRODUCE_VERSION_MIN
        theirs_low, theirs_high = self.ranges.get(api_key, (0, -1))
        chosen = min(high, theirs_high, high if version_max is None else version_max)
        if chosen < max(low, theirs_low):
            raise ClientError(
                f"the broker at {self.address} offers versions {theirs_low} to {theirs_high} of {api_key.name}; "
                f"Spark's source and sink need {low} to {high}",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
        return chosen

    def call(self, api_key: ApiKey, body: Mapping[str, Any], *, wait_s: float = 0.0) -> Struct:
        """One request and its reply. `wait_s` is how long the broker was asked to hold it."""
        if self._sent:
            raise RuntimeError(f"{self._sent[0][0].name} is still to be answered by {self.address}")
        self.ask(api_key, body)
        return self.answer(wait_s=wait_s)

    def ask(self, api_key: ApiKey, body: Mapping[str, Any]) -> None:
        """One request, in the highest version that both sides have."""
        version = self.version(api_key)
        self.send(api_key, version, encode_request(api_key, version, body))

    def answer(self, *, wait_s: float = 0.0) -> Struct:
        """The reply to the oldest request that was sent."""
        api_key, version, _ = self._sent[0]
        reply = self.receive(wait_s=wait_s)
        try:
            return decode_response(api_key, version, reply)
        except Malformed as error:
            raise self._junk(api_key, version, error) from error

    def send(self, api_key: ApiKey, version: int, *payload: bytes | bytearray | memoryview) -> None:
        """One request; its body may come in pieces, which are not copied together."""
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api_key, version, correlation_id, self._settings.client_id)
        size = len(header) + sum(len(piece) for piece in payload)
        try:
            self._socket.settimeout(self._settings.request_timeout_s)
            _send_all(self._socket, [size.to_bytes(4, "big") + header, *payload])
        except OSError as error:
            raise self._lost(error) from error
        self._sent.append((api_key, version, correlation_id))

    def has_reply(self) -> bool:
        """Whether `receive` would find at least the beginning of a reply."""
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        return pending or bool(select.select([self._socket], [], [], 0)[0])

    def expect_no_reply(self) -> None:
        """To the last request: Produce with acks=0 is the one that gets none."""
        self._sent.pop()

    def receive(self, *, wait_s: float = 0.0) -> memoryview:
        """The body of the reply to the oldest request that was sent; valid until the next call."""
        api_key, version, expected = self._sent.pop(0)
        try:
            self._socket.settimeout(self._settings.request_timeout_s + wait_s)
            frame = self._read_frame()
        except OSError as error:
            raise self._lost(error) from error
        try:
            correlation_id, position = decode_response_header(frame, response_header_version(api_key, version))
        except Malformed as error:
            raise self._junk(api_key, version, error) from error
        if correlation_id != expected:
            self.close()
            raise ClientError(f"{self.address} answered out of turn", code=ErrorCode.NETWORK_EXCEPTION)
        self._is_trusted = self._is_trusted or api_key is not ApiKey.API_VERSIONS
        return frame[position:]

    def _read_frame(self) -> memoryview:
        self._read_into(memoryview(self._buffer)[:4])
        size = int.from_bytes(self._buffer[:4], "big", signed=True)
        if not 4 <= size <= REPLY_BYTES_MAX:
            self.close()
            raise ClientError(f"{self.address} does not speak the Kafka protocol: check the port; {SECURED_CURE}")
        if size > len(self._buffer):
            self._buffer = bytearray(size + (size >> 2))
        frame = memoryview(self._buffer)[:size]
        self._read_into(frame)
        return frame

    def _read_into(self, target: memoryview) -> None:
        at = 0
        while at < len(target):
            count = self._socket.recv_into(target[at:])
            if not count:
                raise ConnectionResetError("closed by the broker")
            at += count

    def _lost(self, error: OSError) -> ClientError:
        self.close()
        why = str(error) + ("" if self._is_trusted else secured_hint(self._settings.security))
        if isinstance(error, TimeoutError):
            why = f"no reply within {self._settings.request_timeout_s:g} s"
        return ClientError(f"lost the connection to {self.address}: {why}", code=ErrorCode.NETWORK_EXCEPTION)

    def _junk(self, api_key: ApiKey, version: int, error: Malformed) -> ClientError:
        self.close()
        return ClientError(f"{self.address} answered {api_key.name} version {version} with junk: {error}")

    def _negotiate(self) -> None:
        version = KAFKA_RANGES[ApiKey.API_VERSIONS][1]
        body = {"client_software_name": SOFTWARE_NAME, "client_software_version": release.version()}
        for _ in range(2):
            self.send(ApiKey.API_VERSIONS, version, encode_request(ApiKey.API_VERSIONS, version, body))
            reply = self.receive()
            # An older broker answers in version 0 with error 35 and the versions that it has (KIP-511).
            unsupported = int.from_bytes(reply[:2], "big") == ErrorCode.UNSUPPORTED_VERSION
            try:
                decoded = decode_response(ApiKey.API_VERSIONS, 0 if unsupported else version, reply)
            except Malformed as error:
                raise ClientError(f"{self.address} does not speak the Kafka protocol: {error}") from error
            self.ranges = {key.api_key: (key.min_version, key.max_version) for key in decoded.api_keys}
            if not unsupported:
                return
            version = self.version(ApiKey.API_VERSIONS, version - 1) if self.ranges else 0

    def _authenticate(self) -> None:
        steps = login(self._settings.security, self.address)
        try:
            question = next(steps)
            while True:
                question = steps.send(self.call(*question))
        except StopIteration:
            return


def _send_all(connection: socket.socket, pieces: list[bytes | bytearray | memoryview]) -> None:
    """All pieces, in as few system calls as the socket takes them."""
    views = [memoryview(piece) for piece in pieces if len(piece)]
    if isinstance(connection, ssl.SSLSocket):  # which has no sendmsg
        connection.sendall(b"".join(views))
        return
    first = 0
    while first < len(views):
        sent = connection.sendmsg(views[first : first + SEND_PIECES_MAX])
        while first < len(views) and sent >= len(views[first]):
            sent -= len(views[first])
            first += 1
        if sent:
            views[first] = views[first][sent:]


def _dial(address: Address, settings: BrokerSettings) -> socket.socket:
    context = tls_context(settings.security)  # first: what it complains of must not leave a socket open
    try:
        dialled = socket.create_connection((address.host, address.port), settings.request_timeout_s)
    except OSError as error:
        raise ClientError(
            f"cannot connect to {address}: {error.strerror or error}; is a broker running there? "
            "executors must reach it at the address that it advertises",
            code=ErrorCode.NETWORK_EXCEPTION,
        ) from error
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.receive_buffer_bytes:
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
    if context is None:
        return dialled
    try:
        return context.wrap_socket(dialled, server_hostname=address.host)
    except OSError as error:
        dialled.close()
        raise no_tls(address, error) from error
