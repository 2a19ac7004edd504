"""The listening socket and everything its connections share: limits, request memory, the idle sweep, the drain."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runnel.broker.buffers import SCRATCH_BYTES, BufferPool
from runnel.broker.connection import Connection, Outcome
from runnel.broker.receiving import Receiver

if TYPE_CHECKING:
    from runnel.broker.router import Router

log = logging.getLogger("runnel.listener")

SWEEP_INTERVAL_S = 1.0
LISTEN_BACKLOG = 4096
REPORTS_PER_SWEEP = 5
CLOSE_GRACE_S = 5.0
STALLED_FRAME_S = 30.0
RECOUNT_INTERVAL_S = 0.02
MEMORY_WAIT_S = 0.01


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    connections_max: int
    connections_per_address_max: int
    request_bytes_max: int
    queued_bytes_max: int  # of requests; and the same again of replies
    idle_ms_max: int


class Listener:
    """Accepts connections on one address and closes what exceeds its limits."""

    def __init__(
        self,
        router: Router,
        limits: ListenerLimits,
        advertised: tuple[str, int] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.router = router
        self.limits = limits
        self.request_bytes_max = limits.request_bytes_max
        self.requests = BufferPool(limits.queued_bytes_max)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.connections: set[Connection] = set()
        self.clock_s = 0.0
        self.unsent_bytes = 0  # of replies that slow readers have not taken
        self.handle = router.handle
        self._per_address: dict[str, int] = {}
        self._waiting_for_memory: deque[Receiver] = deque()
        self._advertised = advertised
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._reported: dict[str, int] = {}
        self._recounted_at = 0.0
        self.partial_frames = 0  # requests that have begun to arrive, but for those of muted connections
        self._draining: asyncio.Event | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and answer the address that was really bound."""
        loop = asyncio.get_running_loop()
        self.clock_s = loop.time()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=LISTEN_BACKLOG, reuse_address=True, ssl=self._tls
        )
        self._sweeper = loop.create_task(self._sweep())
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    # --- called by connections --------------------------------------------------------------------------------

    def address_seen_by_client(self, transport: asyncio.BaseTransport) -> tuple[str, int]:
        """The address to advertise: the configured one, else the one that this client dialled."""
        if self._advertised is not None:
            return self._advertised
        local: Any = transport.get_extra_info("sockname")
        return (local[0], local[1]) if isinstance(local, tuple) else ("127.0.0.1", 0)

    def admit(self, connection: Connection) -> bool:
        count = self._per_address.get(connection.peer_host, 0)
        if len(self.connections) >= self.limits.connections_max:
            return self._refuse(connection, f"max.connections={self.limits.connections_max} reached")
        if count >= self.limits.connections_per_address_max:
            reason = f"max.connections.per.ip={self.limits.connections_per_address_max} reached"
            return self._refuse(connection, reason)
        self.connections.add(connection)
        self._per_address[connection.peer_host] = count + 1
        return True

    def _refuse(self, connection: Connection, reason: str) -> bool:
        self.report("refused", connection.peer_host, reason)
        return False

    def report(self, what: str, host: str, reason: str) -> None:
        """Log what happened to a connection, and only count it when there is too much to log."""
        count = self._reported.get(what, 0)
        self._reported[what] = count + 1
        if count < REPORTS_PER_SWEEP:
            log.warning("%s a connection from %s: %s", what, host, reason)

    def forget(self, connection: Connection) -> None:
        if self._draining is not None:
            self._draining.set()
        if connection in self.connections:
            self.connections.remove(connection)
            left = self._per_address[connection.peer_host] - 1
            if left:
                self._per_address[connection.peer_host] = left
            else:
                del self._per_address[connection.peer_host]

    def wait_for_memory(self, connection: Receiver) -> None:
        if not self._waiting_for_memory:
            asyncio.get_running_loop().call_later(MEMORY_WAIT_S, self._share_memory)
        self._waiting_for_memory.append(connection)

    def _share_memory(self) -> None:
        """First come, first served. Where every frame in work waits for memory, one may exceed the budget: else none
        would ever end."""
        waiting = self._waiting_for_memory
        while waiting and (not self.requests.exhausted or len(waiting) >= self.partial_frames):
            waiting.popleft().memory_is_there()
        if waiting:
            asyncio.get_running_loop().call_later(MEMORY_WAIT_S, self._share_memory)

    @property
    def replies_crowded(self) -> bool:
        """Whether replies that nobody takes fill their budget. Counted up at once, and down when it matters."""
        if self.unsent_bytes <= self.limits.queued_bytes_max:
            return False
        now_s = asyncio.get_running_loop().time()
        if now_s - self._recounted_at > RECOUNT_INTERVAL_S:
            self._recounted_at = now_s
            for connection in self.connections:
                connection.count_unsent()
        return self.unsent_bytes > self.limits.queued_bytes_max

    # --- life -------------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Keep the coarse clock, and close what has been silent for too long."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            self.clock_s = loop.time()
            for connection in list(self.connections):
                self._look_at(connection, self.clock_s - connection.active_at)
            for what, count in self._reported.items():
                if count > REPORTS_PER_SWEEP:
                    log.warning("%s %d connections in the last second", what, count)
            self._reported.clear()

    def _look_at(self, connection: Connection, silent_s: float) -> None:
        if connection.closing:
            if silent_s > CLOSE_GRACE_S:  # its last replies are not being taken
                connection.transport.abort()
        elif connection.is_abandoned:
            connection.transport.abort()
        elif silent_s * 1000 > self.limits.idle_ms_max and not connection.is_working:
            connection.close(f"idle for more than connections.max.idle.ms={self.limits.idle_ms_max}")
        elif silent_s > STALLED_FRAME_S and connection.is_stalled:
            connection.close(f"a request stopped arriving for {STALLED_FRAME_S:g} s")

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    async def drain(self, grace_s: float) -> None:
        """Let requests in flight be answered, then close every connection."""
        self._draining = asyncio.Event()
        for connection in list(self.connections):
            connection.drain()
        try:
            async with asyncio.timeout(grace_s):
                while self.connections:
                    self._draining.clear()
                    await self._draining.wait()
        except TimeoutError:
            log.warning("%d connections did not drain within %g s", len(self.connections), grace_s)
        for connection in list(self.connections):
            connection.transport.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()


__all__ = ["Listener", "ListenerLimits", "Outcome"]
