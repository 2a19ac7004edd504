"""FastStream's hello world on a broker: a subscriber that publishes what it makes of each message.

`python faststream_hello.py BOOTSTRAP PREFIX confluent|aiokafka`. Prints one line, "ok", or ends with a traceback.
"""

from __future__ import annotations

import asyncio
import importlib
import sys

from pydantic import BaseModel

COUNT = 20
SECONDS = 60


class Greeting(BaseModel):
    """What goes in; FastStream decodes and validates it."""

    name: str


async def hello(bootstrap: str, prefix: str, backend: str) -> None:
    kafka = importlib.import_module("faststream.confluent" if backend == "confluent" else "faststream.kafka")
    broker = kafka.KafkaBroker(bootstrap)
    told: list[str] = []
    done = asyncio.Event()

    @broker.subscriber(f"{prefix}.in", group_id=f"{prefix}.greeter", auto_offset_reset="earliest")
    @broker.publisher(f"{prefix}.out")
    async def greet(greeting: Greeting) -> str:
        return f"hello, {greeting.name}"

    @broker.subscriber(f"{prefix}.out", group_id=f"{prefix}.listener", auto_offset_reset="earliest")
    async def listen(text: str) -> None:
        told.append(text)
        if len(told) == COUNT:
            done.set()

    async with broker:
        # A topic that is not there is made by its first message; so is the one that the first handler publishes to.
        for number in range(COUNT):
            await broker.publish(Greeting(name=f"number {number}"), f"{prefix}.in", key=b"k")
        await broker.start()
        await asyncio.wait_for(done.wait(), SECONDS)
    if told != [f"hello, number {number}" for number in range(COUNT)]:
        raise AssertionError(f"it was told {told}")


asyncio.run(hello(*sys.argv[1:]))
print("ok")
