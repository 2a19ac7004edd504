"""A TCP server that plays a script: what people dial by mistake, and brokers older than the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from runnel.client.address import Address
from runnel.wire.apis import ApiKey, response_header_version
from runnel.wire.frames import decode_request_header
from runnel.wire.messages import Struct, decode_request, encode_response

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def scripted_server(script: Script) -> AsyncIterator[Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield Address(host, port)
    finally:
        server.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def reply_frame(request: bytes, body: bytes) -> bytes:
    """A reply with a version 0 header to a request frame."""
    content = request[4:8] + body
    return len(content).to_bytes(4, "big") + content


Answer = Mapping[str, Any] | Callable[[Struct], Mapping[str, Any]]
Ranges = Mapping[ApiKey, tuple[int, int]]


def answering(ranges: Ranges, answers: Mapping[ApiKey, Answer]) -> Script:
    """A broker that has these APIs in these versions, and a fixed answer (or one made from the request) to each."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await read_frame(reader)
            header, position = decode_request_header(frame)
            key, version = ApiKey(header.api_key), header.api_version
            if key is ApiKey.API_VERSIONS:
                rows = [
                    {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in ranges.items()
                ]
                body: Mapping[str, Any] = {"api_keys": rows}
            else:
                answer = answers[key]
                body = answer(decode_request(key, version, frame, position)) if callable(answer) else answer
            tags = b"\0" if response_header_version(key, version) else b""
            writer.write(reply_frame(frame, tags + encode_response(key, version, body)))

    return script
