"""A whole broker on an event loop whose clock only moves when told: real sockets, real handlers, no waiting.

In: quotas and broker configs. Out: a `Door` to connect to. Time is the loop's, in the quotas too; the time that
handlers spend is what the test says (`busy_ns` for each look at that clock).
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from harness.raw import decode_reply, encode_body, encode_header, is_flexible
from runnel.broker.app import Application
from runnel.broker.connection import Connection
from runnel.broker.settings import load_settings
from runnel.core.metadata import AlterClientQuotas, NewTopic, QuotaAlteration, QuotaChange
from runnel.wire.batch import encode_batch

POLL_S = 0.002
REAL_DEADLINE_S = 30.0
TOPIC = "t"

Quotas = Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float | None]]


def throttle_ms(reply: Any) -> int:
    return round(reply.throttle_time.total_seconds() * 1000)


class ImpatientSelector(selectors.DefaultSelector):
    """Never sleeps until a timer: timers are moved by the test."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(0 if timeout == 0 else POLL_S)


class ManualClockLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(ImpatientSelector())
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s


class Client:
    """One connection: requests out, replies in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str | None) -> None:
        self.reader, self.writer, self.client_id = reader, writer, client_id
        self._sent: list[tuple[int, int, int]] = []
        self._number = 0

    def frame(self, api_key: int, version: int, body: Mapping[str, Any] | bytes) -> bytes:
        self._number += 1
        flexible = is_flexible(api_key, version)
        payload = encode_header(api_key, version, self._number, flexible=flexible, client_id=self.client_id)
        payload += body if isinstance(body, bytes) else encode_body(api_key, version, body)
        return struct.pack(">i", len(payload)) + payload

    def send(self, api_key: int, version: int, body: Mapping[str, Any] | bytes, *, answered: bool = True) -> None:
        self.writer.write(self.frame(api_key, version, body))
        if answered:
            self._sent.append((api_key, version, self._number))

    async def reply(self) -> Any:
        size = struct.unpack(">i", await self.reader.readexactly(4))[0]
        api_key, version, number = self._sent.pop(0)
        answered, value = decode_reply(api_key, version, await self.reader.readexactly(size))
        assert answered == number
        return value

    async def ask(self, api_key: int, version: int, body: Mapping[str, Any]) -> Any:
        self.send(api_key, version, body)
        return await self.reply()

    def produce(self, size_bytes: int, acks: int = 1) -> None:
        """A Produce with a record of this size."""
        now_ms = time.time_ns() // 1_000_000  # retention, too, runs when the clock is moved far
        batch = bytes(encode_batch([(now_ms, None, b"x" * size_bytes, ())]))
        partition = {"index": 0, "records": batch}
        body = {"acks": acks, "timeout": 0, "topic_data": [{"name": TOPIC, "partition_data": [partition]}]}
        self.send(0, 9, body, answered=acks != 0)

    def fetch(self, offset: int, *, session_id: int = 0, epoch: int = -1, wait_ms: int = 0) -> None:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
        topics = [{"topic": TOPIC, "partitions": [partition]}]
        limits = {"max_wait": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20}
        self.send(1, 11, {"session_id": session_id, "session_epoch": epoch, "topics": topics, **limits})

    async def has_nothing(self, door: Door) -> bool:
        """No reply is there though the broker has since served somebody else from end to end."""
        bystander = await door.connect("bystander")
        await bystander.ask(18, 3, {"client_software_name": "x", "client_software_version": "1"})
        bystander.writer.close()
        return not self.reader._buffer and not self.reader.at_eof()  # type: ignore[attr-defined]


class Door:
    def __init__(self, application: Application, address: tuple[str, int], loop: ManualClockLoop) -> None:
        self.application, self.address, self.loop = application, address, loop
        self.clients: list[Client] = []
        self.busy_ns = 0
        self._spent_ns = 0
        quotas = application.node.quotas
        quotas.now_ms = lambda: round(loop.now_s * 1000)
        quotas.now_ns = self._tick

    def _tick(self) -> int:
        self._spent_ns += self.busy_ns
        return self._spent_ns

    @property
    def connections(self) -> set[Connection]:
        return self.application.listener.connections

    async def set_quotas(self, quotas: Quotas) -> None:
        alterations = [
            QuotaAlteration(entity, [QuotaChange(key, value) for key, value in values.items()])
            for entity, values in quotas.items()
        ]
        outcomes = await self.application.node._controller.submit(AlterClientQuotas(alterations))
        assert [outcome.code for outcome in outcomes] == [0] * len(quotas)

    async def connect(self, client_id: str | None = "c1") -> Client:
        reader, writer = await asyncio.open_connection(*self.address)
        self.clients.append(Client(reader, writer, client_id))
        return self.clients[-1]

    async def close_clients(self) -> None:
        for client in self.clients:
            client.writer.close()
            with contextlib.suppress(ConnectionError):
                await client.writer.wait_closed()

    async def advance(self, seconds: float) -> None:
        """Move the clock; whatever is due by then happens."""
        self.loop.now_s += seconds
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110  the loop's own deadline bounds it
            await asyncio.sleep(0)


def run(scenario: Callable[[Door], Coroutine[Any, Any, None]], configs: Mapping[str, str] | None = None) -> None:
    """Run a scenario against a broker in memory with one topic of one partition."""

    async def main() -> None:
        application = Application(
            load_settings({"memory": "true", "listen": "127.0.0.1:0", **(configs or {})}, None, {})
        )
        address = await application.start()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ManualClockLoop)
        door = Door(application, address, loop)
        await application.node.topics.create([NewTopic(TOPIC, 1)], False)
        await application.node.partitions.open(TOPIC, 0)
        task = loop.create_task(scenario(door))
        watchdog = threading.Timer(REAL_DEADLINE_S, loop.call_soon_threadsafe, [task.cancel, "the scenario hangs"])
        watchdog.start()
        try:
            await task
        finally:
            watchdog.cancel()
            await door.close_clients()
            application.stop()
            await application.run_until_stopped()

    with asyncio.Runner(loop_factory=ManualClockLoop) as runner:
        runner.run(main())
