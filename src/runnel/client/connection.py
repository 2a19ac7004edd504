"""One TCP connection to one broker: requests out, replies matched by correlation id, versions negotiated.

In: an API key and the fields of a request. Out: the decoded reply, or a `ClientError`. Requests are
pipelined: any number may wait at once. The connection dies with the first broken frame or timeout; its
owner opens another.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from runnel import release
from runnel.client.address import Address
from runnel.client.errors import ClientError
from runnel.client.security import SECURED_CURE, Settings, login, no_tls, secured_hint, tls_context
from runnel.wire.apis import KAFKA_RANGES, PRODUCE_VERSION_MIN, ApiKey, response_header_version
from runnel.wire.errors import ErrorCode, Malformed
from runnel.wire.frames import decode_response_header, encode_request_frame, encode_request_header
from runnel.wire.messages import Struct, decode_response, encode_request

# A larger reply is taken for a peer that does not speak Kafka (the largest fetch asked for is far below).
REPLY_BYTES_MAX = 256 << 20
READ_BUFFER_BYTES = 4 << 20
SOFTWARE_NAME = "runnel"


class Connection:
    """Use `Connection.open`; then `call` as often as wanted, from any number of tasks; then `close`."""

    def __init__(
        self,
        address: Address,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client_id: str,
        timeout_s: float,
        security: Settings,
    ) -> None:
        self.address = address
        self.ranges: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """The cluster's finalized features and their levels (KIP-584)."""
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._security = security
        self._is_trusted = False
        """Whether anything but the question for versions was answered: listeners answer that to everybody."""
        self._correlation_id = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._failure: ClientError | None = None
        self._reading = asyncio.create_task(self._read_replies(), name=f"replies from {address}")

    @classmethod
    async def open(
        cls, address: Address, *, client_id: str, timeout_s: float, security: Settings | None = None
    ) -> Connection:
        """Dial, agree on versions, and log in if the settings say so."""
        reader, writer = await _dial(address, timeout_s, tls_context(security or {}))
        connection = cls(address, reader, writer, client_id, timeout_s, security or {})
        try:
            await connection._negotiate()
            await connection._authenticate()
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._failure is None

    def version(self, api_key: ApiKey, version_max: int | None = None) -> int:
        """The highest version that both sides have."""
        ours_low, ours_high = KAFKA_RANGES[api_key]
        if api_key == ApiKey.PRODUCE:
            ours_low = PRODUCE_VERSION_MIN
        theirs_low, theirs_high = self.ranges.get(api_key, (0, -1))
        high = min(ours_high, theirs_high, ours_high if version_max is None else version_max)
        if high < max(ours_low, theirs_low):
            raise ClientError(
                _unsupported(self.address, api_key, (ours_low, ours_high), (theirs_low, theirs_high)),
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
        return high

    async def call(
        self, api_key: ApiKey, body: Mapping[str, Any], *, version_max: int | None = None, wait_s: float = 0.0
    ) -> Struct:
        """Send one request and wait for its reply. `wait_s` is how long the broker was asked to hold it."""
        version = self.version(api_key, version_max)
        payload = encode_request(api_key, version, body)
        return self._decode(api_key, version, await self.exchange(api_key, version, payload, wait_s=wait_s))

    async def exchange(
        self, api_key: ApiKey, version: int, payload: bytes | bytearray, *, wait_s: float = 0.0
    ) -> memoryview:
        """The same with bodies already encoded: returns the body of the reply."""
        correlation_id = await self._send(api_key, version, payload)
        reply = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        if self._failure is not None:
            raise self._failure
        try:
            async with asyncio.timeout(self._timeout_s + wait_s):
                frame: bytes = await reply
        except TimeoutError:
            failure = ClientError(
                f"no reply from {self.address} to {api_key.name} within {self._timeout_s + wait_s:g} s; "
                "is the broker overloaded, or is something else listening there?",
                code=ErrorCode.NETWORK_EXCEPTION,
            )
            self._fail(failure)
            raise failure from None
        finally:
            self._waiting.pop(correlation_id, None)
        self._is_trusted = self._is_trusted or api_key is not ApiKey.API_VERSIONS
        _, position = decode_response_header(frame, response_header_version(api_key, version))
        return memoryview(frame)[position:]

    async def send_only(self, api_key: ApiKey, version: int, payload: bytes | bytearray) -> None:
        """For acks=0, which is the one request that gets no reply."""
        await self._send(api_key, version, payload)

    async def close(self) -> None:
        self._fail(ClientError(f"the connection to {self.address} was closed"))
        self._reading.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await self._reading
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _send(self, api_key: ApiKey, version: int, payload: bytes | bytearray) -> int:
        if self._failure is not None:
            raise self._failure
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api_key, version, correlation_id, self._client_id)
        self._writer.write(encode_request_frame(header, payload))
        try:
            await self._writer.drain()
        except OSError as error:
            raise self._fail(self._lost(error)) from error
        return correlation_id

    async def _negotiate(self) -> None:
        version = KAFKA_RANGES[ApiKey.API_VERSIONS][1]
        body = {"client_software_name": SOFTWARE_NAME, "client_software_version": release.version()}
        try:
            for _ in range(2):
                payload = encode_request(ApiKey.API_VERSIONS, version, body)
                reply = await self.exchange(ApiKey.API_VERSIONS, version, payload)
                # An older broker answers in version 0 with error 35 and the versions that it has (KIP-511).
                unsupported = int.from_bytes(reply[:2], "big") == ErrorCode.UNSUPPORTED_VERSION
                decoded = self._decode(ApiKey.API_VERSIONS, 0 if unsupported else version, reply)
                self.ranges = {key.api_key: (key.min_version, key.max_version) for key in decoded.api_keys}
                self.features = {row.name: row.max_version_level for row in decoded.finalized_features}
                if not unsupported:
                    return
                version = self.version(ApiKey.API_VERSIONS, version - 1) if self.ranges else 0
        except ClientError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            raise ClientError(
                f"connected to {self.address}, but it does not answer as a Kafka broker ({error.message}); "
                f"is it another service? {SECURED_CURE}",
                code=ErrorCode.NETWORK_EXCEPTION,
            ) from error

    async def _authenticate(self) -> None:
        steps = login(self._security, self.address)
        try:
            question = next(steps)
            while True:
                question = steps.send(await self.call(*question))
        except StopIteration:
            return

    def _decode(self, api_key: ApiKey, version: int, reply: memoryview) -> Struct:
        try:
            return decode_response(api_key, version, reply, 0)
        except Malformed as error:
            raise self._fail(
                ClientError(f"{self.address} answered {api_key.name} version {version} with junk: {error}")
            ) from error

    async def _read_replies(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
                if not 4 <= size <= REPLY_BYTES_MAX:
                    raise ClientError(_stranger(self.address, size))
                frame = await self._reader.readexactly(size)
                reply = self._waiting.get(int.from_bytes(frame[:4], "big"))
                if reply is not None and not reply.done():
                    reply.set_result(frame)
        except ClientError as error:
            self._fail(error)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._fail(self._lost(error))

    def _lost(self, error: Exception) -> ClientError:
        why = _reason(error) if isinstance(error, OSError) else "closed by the broker"
        hint = secured_hint(self._security) if self.ranges and not self._is_trusted else ""
        return ClientError(f"lost the connection to {self.address}: {why}{hint}", code=ErrorCode.NETWORK_EXCEPTION)

    def _fail(self, failure: ClientError) -> ClientError:
        if self._failure is None:
            self._failure = failure
            self._writer.close()
            for reply in self._waiting.values():
                if not reply.done():
                    reply.set_exception(failure)
        return failure


def _unsupported(address: Address, api_key: ApiKey, ours: tuple[int, int], theirs: tuple[int, int]) -> str:
    if theirs[1] < 0:
        return f"the broker at {address} does not offer the API {api_key.name} ({api_key:d}), which this command needs"
    return (
        f"the broker at {address} offers versions {theirs[0]} to {theirs[1]} of the API {api_key.name}; "
        f"this client needs {ours[0]} to {ours[1]}"
    )


async def _dial(
    address: Address, timeout_s: float, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=READ_BUFFER_BYTES, ssl=tls)
    except TimeoutError:
        reason = (
            f"no answer within {timeout_s:g} s; is the address right, and is a firewall "
            "or a container network in between?"
        )
        raise _unreachable(address, reason) from None
    except socket.gaierror as error:
        reason = f"the name {address.host} does not resolve; check the spelling, DNS or /etc/hosts"
        # Not NETWORK_EXCEPTION: a name that does not resolve is not worth a retry.
        raise ClientError(f"cannot connect to {address}: {reason}", code=ErrorCode.BROKER_NOT_AVAILABLE) from error
    except OSError as error:
        in_handshake = tls is not None and isinstance(error, (ssl.SSLError, ConnectionResetError))
        raise (no_tls(address, error) if in_handshake else _unreachable(address, _reason(error))) from error
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return reader, writer


def _unreachable(address: Address, reason: str) -> ClientError:
    return ClientError(f"cannot connect to {address}: {reason}", code=ErrorCode.NETWORK_EXCEPTION)


def _reason(error: OSError) -> str:
    # asyncio packs the failures of several addresses of one name into one OSError without errno.
    if isinstance(error, ConnectionRefusedError) or "111" in str(error) or "refused" in str(error).lower():
        return "connection refused; is the broker running? start one with `runnel serve`"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _stranger(address: Address, size: int) -> str:
    """Names the services that people dial by mistake, by the first four bytes that those send."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first == b"HTTP":
        return f"{address} is an HTTP server, not a Kafka broker; check the port"
    if first[:2] in (b"\x15\x03", b"\x16\x03"):
        return f"{address} is a TLS listener: use a plaintext port, or, in Spark, set kafka.security.protocol"
    return f"{address} does not speak the Kafka protocol (it began with {first!r}); check the port"
