"""One client connection: bytes in, frames to the router, replies out in the order of the requests.

The order of work on one connection is Kafka's: a request starts when those before it are answered. One exception buys
group commit its batches: a Produce may start while only Produces are in flight, since each has already appended its
records, in order, by the time it parks for the disk.

Flow control: a connection is not read from while its replies are not being taken (slow reader), while its backlog is
full, while the broker's request memory is used up, or while it is muted: its client has exceeded a quota, and until
that time has passed nothing of it is read or started, though replies of what was started still leave (KIP-219).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from runnel.broker.receiving import Receiver, has_ended, is_produce
from runnel.wire.errors import Malformed

if TYPE_CHECKING:
    from runnel.broker.listener import Listener

log = logging.getLogger("runnel.connection")

BACKLOG_REQUESTS_MAX = 32
BACKLOG_BYTES_MAX = 8 * 1024 * 1024
WRITE_HIGH_WATER_BYTES = 2 * 1024 * 1024
GATHERED_BYTES_MAX = 64 * 1024

Buffers: TypeAlias = Sequence[bytes | bytearray | memoryview]
Outcome: TypeAlias = "Buffers | asyncio.Future[Buffers] | Coroutine[Any, Any, Buffers | None] | None"
"""What handling a request gives: the reply, nothing to reply, a reply that is parked (later Produces may start), or
work still to do before anything else on this connection may start."""

_outliving: set[asyncio.Task[None]] = set()
"""Produces that are carried out even if their connection is lost meanwhile."""


class Slot:
    """A request in flight, in its place in the order of replies."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = False
        self.reply: Buffers | None = None


class Connection(Receiver):
    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_draining",
        "_exclusive",
        "_in_flight",
        "_lost",
        "_outgoing",
        "_outgoing_bytes",
        "_reading_paused",
        "_tasks",
        "_unmute_timer",
        "_unsent_bytes",
        "_writing_paused",
        "advertised",
        "client_software",
        "peer_host",
        "principal",
        "transport",
    )

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.principal = "User:ANONYMOUS"
        self.client_software = ("unknown", "unknown")  # KIP-511, told by ApiVersions
        self._backlog: deque[bytearray] | None = None
        self._backlog_bytes = 0
        self._in_flight: deque[Slot] = deque()
        self._exclusive = False
        self._lost = False
        self._unmute_timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._outgoing_bytes = 0
        self._outgoing: list[bytes | bytearray | memoryview] = []
        self._reading_paused = False
        self._writing_paused = False
        self._unsent_bytes = 0
        self._tasks: set[asyncio.Task[None]] | None = None

    # --- transport events -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer_host: str = peer[0] if peer else "unknown"
        self.advertised: tuple[str, int] = self.listener.address_seen_by_client(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        if not self.listener.admit(self):
            self.closing = True
            self.transport.abort()
            return
        delay_ms = self.listener.router.node.quotas.connection_delay_ms(self.peer_host)
        if delay_ms:
            self._turn_away(delay_ms)

    def _turn_away(self, delay_ms: int) -> None:
        """Too many connections from this address (KIP-612): nothing is read, and it is closed after a while."""
        self.listener.report("delayed and closed", self.peer_host, "connection_creation_rate exceeded")
        self.transport.pause_reading()
        self.closing = True
        self.active_at = self.listener.clock_s + delay_ms / 1000
        self._unmute_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self.transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = self._lost = True
        self._writing_paused = False
        self._outgoing = []  # a flush may still be on its way, and the transport is gone
        self._outgoing_bytes = 0
        self._end_mute()
        self._drop_frame()
        self.count_unsent()
        self.listener.forget(self)
        # Who sends with acks=0 may hang up at once: what has arrived whole is still appended. The rest has no reader.
        for frame in [frame for frame in self._backlog or () if not is_produce(frame)]:
            cast("deque[bytearray]", self._backlog).remove(frame)
            self._backlog_bytes -= len(frame)
            self.listener.requests.held_bytes -= len(frame)
        for task in self._tasks or ():
            task.cancel()
        self._pump()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.count_unsent()
        self._pump()

    def count_unsent(self) -> None:
        """Correct what the listener believes of this connection's replies that wait to be taken."""
        waiting = 0 if self.closing else self.transport.get_write_buffer_size() + self._outgoing_bytes
        self.listener.unsent_bytes += waiting - self._unsent_bytes
        self._unsent_bytes = waiting

    # --- order ------------------------------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        if self._backlog or not self._may_start(frame):
            self._enqueue(bytearray(frame))
        else:
            self._start(frame)

    def _may_start(self, frame: memoryview | bytearray) -> bool:
        if self._writing_paused or self._exclusive or self._muted:
            return False
        if not self._in_flight:
            return True
        return is_produce(frame) and len(self._in_flight) < BACKLOG_REQUESTS_MAX

    def _enqueue(self, frame: bytearray) -> None:
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.append(frame)
        self._backlog_bytes += len(frame)
        self.listener.requests.held_bytes += len(frame)
        self._update_reading()

    def _pump(self) -> None:
        """Start whatever waits and may start now."""
        backlog = self._backlog
        while backlog and (self._lost or not self.closing) and self._may_start(backlog[0]):
            frame = backlog.popleft()
            self._backlog_bytes -= len(frame)
            self.listener.requests.held_bytes -= len(frame)
            self._start(memoryview(frame))
        self._update_reading()

    def _start(self, frame: memoryview) -> None:
        try:
            outcome = self.listener.handle(self, frame)
        except Malformed as error:
            self.close(f"malformed request: {error}")
            return
        except Exception as error:
            self._crashed(error)
            return
        if isinstance(outcome, list):
            if self._in_flight:
                slot = Slot()
                self._in_flight.append(slot)
                self._complete(slot, outcome)
            else:
                self._send(outcome)
        elif outcome is None:
            return
        elif isinstance(outcome, asyncio.Future):
            slot = Slot()
            self._in_flight.append(slot)
            outcome.add_done_callback(lambda future: self._parked_done(slot, future))
        else:
            self._run(cast("Coroutine[Any, Any, Buffers | None]", outcome), must_finish=is_produce(frame))

    def _parked_done(self, slot: Slot, future: asyncio.Future[Buffers]) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self._complete(slot, None)
        elif error is not None:
            self._crashed(error)
            self._complete(slot, None)
        else:
            self._complete(slot, future.result())

    def _run(self, work: Coroutine[Any, Any, Buffers | None], *, must_finish: bool) -> None:
        """``must_finish``: a producer with acks=0 may close as soon as it has sent, and its records still count."""
        self._exclusive = True
        slot = Slot()
        self._in_flight.append(slot)
        if self._tasks is None:
            self._tasks = set()
        task = asyncio.get_running_loop().create_task(self._finish(slot, work))
        task.add_done_callback(lambda _: self._give_up(slot))
        if must_finish:
            _outliving.add(task)
            task.add_done_callback(_outliving.discard)
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, slot: Slot, work: Coroutine[Any, Any, Buffers | None]) -> None:
        try:
            reply = await work
        except Malformed as error:
            self.close(f"malformed request: {error}")
        except Exception as error:
            self._crashed(error)
        else:
            self._exclusive = False
            self._complete(slot, reply)

    def _give_up(self, slot: Slot) -> None:
        """Cancelled (even before its first step) or failed: it must not stand in the way of what waits behind it."""
        if not slot.done:
            self._exclusive = False
            self._complete(slot, None)

    def _crashed(self, error: BaseException) -> None:
        """Our own bug: say all we know, and give up this connection only."""
        log.error("request failed on connection from %s", self.peer_host, exc_info=error)
        self.close("internal error")

    def _complete(self, slot: Slot, reply: Buffers | None) -> None:
        slot.done, slot.reply = True, reply
        in_flight = self._in_flight
        while in_flight and in_flight[0].done:
            head = in_flight.popleft()
            if head.reply is not None and not self.closing:
                self._send(head.reply)
        self._pump()
        if self._draining and not self._sending:
            self._flush()

    def _send(self, reply: Buffers) -> None:
        """Gather the replies of one turn of the loop: one system call carries them all."""
        if self.closing:
            return
        self._outgoing += reply
        size = sum(map(len, reply))
        self._outgoing_bytes += size
        self._unsent_bytes += size
        self.listener.unsent_bytes += size
        if self._outgoing_bytes > GATHERED_BYTES_MAX:
            self._write()  # so that the transport can tell us to stop
        elif not self._sending:
            self._sending = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._sending = False
        if self._outgoing:
            self._write()
        if self._draining and self.is_idle and not self.closing:
            self.transport.close()

    def _write(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        self._outgoing_bytes = 0
        self.transport.writelines(outgoing)

    # --- flow -------------------------------------------------------------------------------------------------

    def _update_reading(self) -> None:
        crowded = (
            self._writing_paused
            or self._draining
            or self._backlog_bytes > BACKLOG_BYTES_MAX
            or (self._backlog is not None and len(self._backlog) >= BACKLOG_REQUESTS_MAX)
            or self._wants_memory
            or self._muted
        )
        if crowded != self._reading_paused and not self.closing:
            self._reading_paused = crowded
            (self.transport.pause_reading if crowded else self.transport.resume_reading)()

    def mute(self, throttle_ms: int) -> None:
        """Read and start nothing more for this long; muting again can only prolong it."""
        if self.closing or self._draining:
            return
        loop = asyncio.get_running_loop()
        until_s = loop.time() + throttle_ms / 1000
        if self._unmute_timer is not None:
            if self._unmute_timer.when() >= until_s:
                return
            self._unmute_timer.cancel()
        self._unmute_timer = loop.call_at(until_s, self.unmute)
        if not self._muted:
            self._muted = True
            self.listener.partial_frames -= self._frame is not None  # it cannot end now: nobody may wait for it
            self._update_reading()

    def unmute(self) -> None:
        self._end_mute()
        self.active_at = self.listener.clock_s  # it was we who made it wait
        self._pump()

    def _end_mute(self) -> None:
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None
        if self._muted:
            self._muted = False
            self.listener.partial_frames += self._frame is not None

    @property
    def is_abandoned(self) -> bool:
        """Muted, so that we would not notice it, and the client has hung up and left nothing to read."""
        return self._muted and has_ended(self.transport.get_extra_info("socket"))

    @property
    def is_working(self) -> bool:
        """A request is being answered, or kept waiting by us, so its silence is not the client's."""
        return bool(self._in_flight) or self._muted

    @property
    def is_stalled(self) -> bool:
        """A request has begun to arrive, and it is not us who make it wait."""
        return self._frame is not None and not self._reading_paused

    def drain(self) -> None:
        """The broker stops: answer what is in flight, read nothing more, then close."""
        self._draining = True
        self._end_mute()
        self._pump()
        if self.is_idle:
            self.transport.close()

    @property
    def is_idle(self) -> bool:
        """No request is being answered (a frame that is still arriving counts as idle: it may never end)."""
        return not self._in_flight and not self._backlog and not self._outgoing

    def close(self, reason: str) -> None:
        """Close when the replies so far are taken; the listener aborts who does not take them."""
        if not self.closing:
            self._flush()
            self.closing = True
            self.active_at = self.listener.clock_s
            self.listener.report("closed", self.peer_host, reason)
            self.transport.close()
