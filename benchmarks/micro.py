"""Owns timing Runnel's request path inside this process: no sockets, no client, so a change of 1 µs shows.

A real broker (real files, real router) gets frames through a real Connection whose transport throws replies away.
`python -m benchmarks.micro` prints CPU µs per request; `--profile produce-1x100B` shows where they go.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import struct
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, cast

from runnel.broker.app import Application, new_event_loop
from runnel.broker.connection import Connection
from runnel.broker.settings import Settings
from runnel.core.metadata.commands import AlterClientQuotas, NewTopic, QuotaAlteration, QuotaChange
from runnel.wire.apis import ApiKey
from runnel.wire.batch import encode_batch
from runnel.wire.fetch import encode_fetch_request
from runnel.wire.fetch_values import FetchPartition, FetchRequest, FetchTopic
from runnel.wire.frames import encode_request_header
from runnel.wire.produce import PartitionRecords, ProduceRequest, TopicRecords, encode_produce_request
from runnel.wire.types import ZERO_UUID

TOPIC = "micro"
RECORDS_PER_BATCH, BATCHES = 140, 256
BATCH_BYTES = RECORDS_PER_BATCH * 110 + 61
ROUNDS = 7
ROUND_S = 0.25
PRODUCE_VERSION, FETCH_VERSION = 10, 12
PRODUCE_SHAPES = {"produce-1x100B": (1, 100), "produce-150x100B": (150, 100), "produce-1000x1KiB": (1000, 1024)}
FETCH_SIZES = {"fetch-16KiB": 16 * 1024, "fetch-1MiB": 1024 * 1024}


class SilentTransport:
    """Takes replies and counts them."""

    def __init__(self) -> None:
        self.replies_bytes = 0

    def writelines(self, buffers: Iterable[bytes | bytearray | memoryview]) -> None:
        self.replies_bytes += sum(map(len, buffers))

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


def framed(api_key: ApiKey, version: int, body: bytes) -> bytes:
    header = encode_request_header(api_key, version, 1, "micro")
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce_frame(records: int, size_bytes: int) -> bytes:
    now_ms = int(time.time() * 1000)
    batch = encode_batch([(now_ms, None, b"x" * size_bytes, ())] * records)
    topic = TopicRecords(TOPIC, ZERO_UUID, [PartitionRecords(0, memoryview(batch))])
    body = encode_produce_request(PRODUCE_VERSION, ProduceRequest(None, 1, 30_000, [topic]))
    return framed(ApiKey.PRODUCE, PRODUCE_VERSION, body)


def fetch_frame(offset: int, size_bytes: int) -> bytes:
    topic = FetchTopic(TOPIC, ZERO_UUID, [FetchPartition(0, offset, size_bytes)])
    request = FetchRequest(-1, -1, 0, 1, size_bytes, 0, 0, -1, [topic])
    return framed(ApiKey.FETCH, FETCH_VERSION, encode_fetch_request(FETCH_VERSION, request))


def sequential_fetches(size_bytes: int) -> list[bytes]:
    """A reader that goes on where it stopped, from the first batch to the last, again and again."""
    batches = max(1, size_bytes // BATCH_BYTES)
    return [fetch_frame(first * RECORDS_PER_BATCH, size_bytes) for first in range(0, BATCHES, batches)]


def sender(connection: Connection, transport: SilentTransport, frames: list[bytes]) -> Callable[[], None]:
    """Delivers the next frame as the event loop would, in as many pieces as the connection's buffers take."""
    endless = cycle(frames)

    def send() -> None:
        frame, before, position = next(endless), transport.replies_bytes, 0
        while position < len(frame):
            buffer = connection.get_buffer(-1)
            piece = frame[position : position + len(buffer)]
            buffer[: len(piece)] = piece
            connection.buffer_updated(len(piece))
            position += len(piece)
        if transport.replies_bytes == before:
            raise RuntimeError("the request was not answered at once: this harness times synchronous paths only")

    return send


def us_per_call(call: Callable[[], None]) -> float:
    """CPU time of this thread, so that a busy machine does not blur it."""
    rounds_us = []
    for _ in range(ROUNDS):
        calls, began_s = 0, time.thread_time()
        while (elapsed_s := time.thread_time() - began_s) < ROUND_S:
            call()
            calls += 1
        rounds_us.append(elapsed_s * 1e6 / calls)
    return median(rounds_us)


async def limit_everything(application: Application) -> None:
    """Quotas of every kind for this client, far above what it does: each request is measured, none is throttled."""
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    alteration = QuotaAlteration([("client-id", "micro")], [QuotaChange(key, 1e15) for key in keys])
    await application.node._controller.submit(AlterClientQuotas([alteration]))


async def run(profiled: str | None, with_quotas: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="runnel-micro-") as folder:
        application = Application(Settings(data_dir=Path(folder), listen=("127.0.0.1", 0)))
        await application.start()
        await application.node.topics.create([NewTopic(TOPIC, 1)], False)
        if with_quotas:
            await limit_everything(application)
        transport = SilentTransport()
        connection = Connection(application.listener)
        connection.connection_made(cast(asyncio.Transport, transport))
        try:
            await open_log(connection, transport)
            measure(connection, transport, profiled)
        finally:
            connection.connection_lost(None)
            application.stop()
            await application.run_until_stopped()


async def open_log(connection: Connection, transport: SilentTransport) -> None:
    """Batches of 16 KiB to fetch; the first request opens the log off the loop, so replies are awaited here."""
    frame = produce_frame(RECORDS_PER_BATCH, 100)
    for _ in range(BATCHES):
        before = transport.replies_bytes
        try:
            sender(connection, transport, [frame])()
        except RuntimeError:
            while transport.replies_bytes == before:  # noqa: ASYNC110  an event would cost every timed reply
                await asyncio.sleep(0.001)


def measure(connection: Connection, transport: SilentTransport, profiled: str | None) -> None:
    frames = {name: [produce_frame(*shape)] for name, shape in PRODUCE_SHAPES.items()}
    frames |= {name: sequential_fetches(size_bytes) for name, size_bytes in FETCH_SIZES.items()}
    for name, requests in frames.items():
        if profiled in (None, name):
            cost_us = us_per_call(sender(connection, transport, requests))
            print(f"{name:20} {cost_us:9.2f} µs of CPU per request")
    if profiled:
        profile = cProfile.Profile()
        profile.runcall(us_per_call, sender(connection, transport, frames[profiled]))
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro", description=__doc__)
    names = [*PRODUCE_SHAPES, *FETCH_SIZES]
    parser.add_argument("--profile", choices=names, help="time this one and print its profile")
    parser.add_argument("--quotas", action="store_true", help="measure the client against quotas of every kind")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run(arguments.profile, arguments.quotas))


if __name__ == "__main__":
    main()
