"""One client connection: bytes in, frames to the router, replies out in the order of the requests.

The order of work on one connection is Kafka's: a request starts when those before it are answered. One exception buys
group commit its batches: a Produce may start while only Produces are in flight, since each has already appended its
records, in order, by the time it parks for the disk.

Flow control: a connection is not read from while its replies are not being taken (slow reader), while its backlog is
full, or while the broker's request memory is used up.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from runnel.broker.buffers import FIRST_BUFFER_BYTES_MAX, PROMISE_BYTES_MAX
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Malformed

if TYPE_CHECKING:
    from runnel.broker.listener import Listener

log = logging.getLogger("runnel.connection")

SIZE_BYTES = 4
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


def is_produce(frame: memoryview | bytearray) -> bool:
    return frame[0] == 0 and frame[1] == ApiKey.PRODUCE


class Slot:
    """A request in flight, in its place in the order of replies."""

    __slots__ = ("done", "reply")

    def __init__(self) -> None:
        self.done = False
        self.reply: Buffers | None = None


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_draining",
        "_exclusive",
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_head",
        "_in_flight",
        "_lost",
        "_outgoing",
        "_outgoing_bytes",
        "_proven_bytes",
        "_reading_paused",
        "_sending",
        "_tasks",
        "_unsent_bytes",
        "_wants_memory",
        "_writing_paused",
        "active_at",
        "advertised",
        "client_software",
        "closing",
        "listener",
        "peer_host",
        "principal",
        "transport",
    )

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.client_software = ("unknown", "unknown")  # KIP-511, told by ApiVersions
        self.active_at = listener.clock_s
        self.closing = False
        self._head = b""  # the first 0..3 bytes of a frame's size, when a read ended inside it
        self._frame: bytearray | None = None  # a frame that is arriving piecewise
        self._frame_size = 0
        self._frame_filled = 0
        self._backlog: deque[bytearray] | None = None
        self._backlog_bytes = 0
        self._in_flight: deque[Slot] = deque()
        self._exclusive = False
        self._lost = False
        self._draining = False
        self._sending = False
        self._outgoing_bytes = 0
        self._outgoing: list[bytes | bytearray | memoryview] = []
        self._reading_paused = False
        self._writing_paused = False
        self._unsent_bytes = 0
        self._wants_memory = False
        self._proven_bytes = 0
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

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = self._lost = True
        self._writing_paused = False
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

    # --- reading ----------------------------------------------------------------------------------------------

    def get_buffer(self, size_hint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled : min(len(self._frame), self._frame_size)]
        return self.listener.scratch

    def buffer_updated(self, count: int) -> None:
        self.active_at = self.listener.clock_s
        self._sending = True  # what is answered at once leaves below, in one piece
        try:
            if self._frame is not None:
                self._frame_grew(count)
            else:
                self._parse(self.listener.scratch[:count])
        except Malformed as error:
            self.close(f"malformed request: {error}")
        self._flush()

    def _parse(self, data: memoryview) -> None:
        if self._head:
            data = memoryview(bytearray(self._head) + data)
            self._head = b""
        position, end = 0, len(data)
        while end - position >= SIZE_BYTES and not self.closing:
            size = self._checked_size(int.from_bytes(data[position : position + SIZE_BYTES], "big", signed=True))
            start = position + SIZE_BYTES
            if start + size > end:
                self._begin_frame(size, data[start:])
                return
            position = start + size
            self._on_frame(data[start:position])
        if position < end and not self.closing:
            self._head = bytes(data[position:])

    def _checked_size(self, size: int) -> int:
        if not 8 <= size <= self.listener.request_bytes_max:
            raise Malformed(
                f"request of {size} bytes; a request has 8 to {self.listener.request_bytes_max} "
                "(socket.request.max.bytes)"
            )
        return size

    def _begin_frame(self, size: int, first: memoryview) -> None:
        believed = min(size, max(len(first), PROMISE_BYTES_MAX, min(self._proven_bytes, FIRST_BUFFER_BYTES_MAX)))
        buffer = self.listener.requests.take(believed)
        buffer[: len(first)] = first
        self._frame, self._frame_size, self._frame_filled = buffer, size, len(first)
        self.listener.partial_frames += 1
        self._grow_if_full()

    def _frame_grew(self, count: int) -> None:
        self._frame_filled += count
        if self._frame_filled == self._frame_size:
            buffer = self._take_frame()
            self._proven_bytes = max(self._proven_bytes, self._frame_size)
            # The handlers of this turn are done with the bytes when _on_frame returns: it copies what must wait.
            self._on_frame(memoryview(buffer)[: self._frame_size])
            self.listener.requests.give_back(buffer)
        else:
            self._grow_if_full()

    def _grow_if_full(self) -> None:
        """More of this frame has arrived than was believed: give it room, or let it wait for memory."""
        buffer = self._frame
        if buffer is None or self._frame_filled < len(buffer):
            return
        if self.listener.requests.exhausted:
            self._wants_memory = True
            self.listener.wait_for_memory(self)
            self._update_reading()
        else:
            self.memory_is_there()

    def memory_is_there(self) -> None:
        """Called by the listener too, when this frame's turn has come."""
        buffer = self._frame
        if buffer is not None and self._frame_filled == len(buffer):
            larger = self.listener.requests.take(min(self._frame_size, 4 * len(buffer)))
            larger[: len(buffer)] = buffer
            self._frame = larger
            self.listener.requests.give_back(buffer)
        self._wants_memory = False
        self._update_reading()

    def _take_frame(self) -> bytearray:
        buffer, self._frame = cast(bytearray, self._frame), None
        self.listener.partial_frames -= 1
        return buffer

    def _drop_frame(self) -> None:
        if self._frame is not None:
            self.listener.requests.give_back(self._take_frame())

    # --- order ------------------------------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        if self._backlog or not self._may_start(frame):
            self._enqueue(bytearray(frame))
        else:
            self._start(frame)

    def _may_start(self, frame: memoryview | bytearray) -> bool:
        if self._writing_paused or self._exclusive:
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
        )
        if crowded != self._reading_paused and not self.closing:
            self._reading_paused = crowded
            (self.transport.pause_reading if crowded else self.transport.resume_reading)()

    @property
    def is_working(self) -> bool:
        """A request is being answered, so its silence is not the client's."""
        return bool(self._in_flight)

    @property
    def is_stalled(self) -> bool:
        """A request has begun to arrive, and it is not us who make it wait."""
        return self._frame is not None and not self._reading_paused

    def drain(self) -> None:
        """The broker stops: answer what is in flight, read nothing more, then close."""
        self._draining = True
        self._update_reading()
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
