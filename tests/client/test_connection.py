"""One connection: versions are negotiated, replies find their requests, strangers are recognised."""

from __future__ import annotations

import asyncio
import socket

import pytest

from client.scripted import read_frame, reply_frame, scripted_server
from runnel.client.address import Address, parse_address
from runnel.client.connection import Connection
from runnel.client.errors import ClientError
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import encode_response

RANGES = {
    "api_keys": [
        {"api_key": ApiKey.METADATA, "min_version": 0, "max_version": 5},
        {"api_key": ApiKey.API_VERSIONS, "min_version": 0, "max_version": 2},
        {"api_key": ApiKey.FETCH, "min_version": 99, "max_version": 99},
    ]
}


def open_and_fail(script: object, timeout_s: float = 5.0) -> str:
    """Dial a scripted server, and return what the client says about it."""

    async def work() -> str:
        async with scripted_server(script) as address:  # type: ignore[arg-type]
            with pytest.raises(ClientError) as caught:
                await Connection.open(address, client_id="test", timeout_s=timeout_s)
            return caught.value.message

    return asyncio.run(work())


def test_pipelined_requests_each_get_their_own_reply(bootstrap: str) -> None:
    async def work() -> None:
        connection = await Connection.open(parse_address(bootstrap), client_id="test", timeout_s=10)
        known = {"topics": [], "allow_auto_topic_creation": False}
        names = [f"no-such-topic-{number}" for number in range(20)]
        asked = [{"topics": [{"name": name}], "allow_auto_topic_creation": False} for name in names]
        replies = await asyncio.gather(*(connection.call(ApiKey.METADATA, body) for body in [known, *asked]))
        assert [reply.topics[0].name for reply in replies[1:]] == names
        await connection.close()
        with pytest.raises(ClientError, match="closed"):
            await connection.call(ApiKey.METADATA, known)

    asyncio.run(work())


def test_a_refused_connection_says_how_to_start_a_broker() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", probe.getsockname()[1])
    with pytest.raises(ClientError) as caught:
        asyncio.run(Connection.open(address, client_id="test", timeout_s=5))
    expected = f"cannot connect to {address}: connection refused; is the broker running? start one with `runnel serve`"
    assert caught.value.message == expected
    assert caught.value.retriable


def test_a_name_that_does_not_resolve_is_said_so_and_not_retried() -> None:
    with pytest.raises(ClientError, match="does not resolve") as caught:
        asyncio.run(Connection.open(Address("nowhere.invalid", 1), client_id="test", timeout_s=5))
    assert not caught.value.retriable


def test_an_http_server_is_recognised() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    assert "is an HTTP server" in open_and_fail(http)


def test_a_tls_listener_is_recognised() -> None:
    async def tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(bytes.fromhex("15030300020216"))
        await writer.drain()

    assert "is a TLS listener: use a plaintext port, or, in Spark, set kafka.security.protocol" in open_and_fail(tls)


def test_a_peer_that_hangs_up_is_not_taken_for_a_broker() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)

    assert "does not answer as a Kafka broker" in open_and_fail(hang_up)


def test_a_silent_peer_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    assert "no reply from" in open_and_fail(silent, timeout_s=0.05)


def test_junk_closes_the_connection() -> None:
    async def junk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply_frame(await read_frame(reader), b"\x00\x00\x7f\xff\xff\xff"))
        await writer.drain()

    assert "junk" in open_and_fail(junk)


def test_an_older_broker_is_asked_again_in_a_version_that_it_has() -> None:
    versions: list[int] = []

    async def older(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE):
            request = await read_frame(reader)
            versions.append(int.from_bytes(request[2:4], "big"))
            answered = 0 if code else versions[-1]
            body = encode_response(ApiKey.API_VERSIONS, answered, {"error_code": code, **RANGES})
            writer.write(reply_frame(request, body))
        await reader.read()

    async def work() -> None:
        async with scripted_server(older) as address:
            connection = await Connection.open(address, client_id="test", timeout_s=5)
            assert connection.version(ApiKey.METADATA) == 5
            assert connection.version(ApiKey.METADATA, 3) == 3
            with pytest.raises(ClientError, match="does not offer the API PRODUCE"):
                connection.version(ApiKey.PRODUCE)
            with pytest.raises(ClientError, match="offers versions 99 to 99 of the API FETCH"):
                connection.version(ApiKey.FETCH)
            await connection.close()

    asyncio.run(work())
    assert versions == [4, 2]


def test_a_request_in_flight_fails_when_the_connection_is_lost() -> None:
    async def lose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_frame(reader)
        body = {"error_code": 0, **RANGES}
        body["api_keys"] = [{"api_key": ApiKey.METADATA, "min_version": 0, "max_version": 5}]
        writer.write(reply_frame(request, encode_response(ApiKey.API_VERSIONS, 4, body)))
        await read_frame(reader)

    async def work() -> None:
        async with scripted_server(lose) as address:
            connection = await Connection.open(address, client_id="test", timeout_s=5)
            with pytest.raises(ClientError, match="lost the connection") as caught:
                await connection.call(ApiKey.METADATA, {"topics": []})
            assert caught.value.retriable
            assert not connection.is_open
            await connection.close()

    asyncio.run(work())
