"""From bytes to frames: what every connection does with what the kernel hands it.

Small frames are parsed where they lie, in the listener's scratch buffer; a frame that is larger than what has arrived
is received into a buffer of its own, which grows as bytes really come. `Receiver` is the reading half of a
`Connection`, which says what becomes of a frame and when reading pauses.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

from runnel.broker.buffers import FIRST_BUFFER_BYTES_MAX, PROMISE_BYTES_MAX
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Malformed

if TYPE_CHECKING:
    from runnel.broker.listener import Listener

SIZE_BYTES = 4
OTHER_REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""Only Produce carries data. This is room for the half a million array items that a request may have at most."""


def is_produce(frame: memoryview | bytearray) -> bool:
    return frame[0] == 0 and frame[1] == ApiKey.PRODUCE


def has_ended(transport_socket: Any) -> bool:
    """Whether a socket that its transport does not read has come to its end, with nothing left to read before it."""
    if transport_socket is None or transport_socket.fileno() < 0:
        return False
    peeking = socket.socket(fileno=transport_socket.fileno())
    try:
        return peeking.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:  # reset
        return True
    finally:
        peeking.detach()


class Receiver(asyncio.BufferedProtocol):
    __slots__ = (
        "_frame",
        "_frame_filled",
        "_frame_size",
        "_head",
        "_muted",
        "_proven_bytes",
        "_sending",
        "_wants_memory",
        "active_at",
        "closing",
        "listener",
    )

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.active_at = listener.clock_s
        self.closing = False
        self._head = b""  # the first 0..3 bytes of a frame's size, when a read ended inside it
        self._frame: bytearray | None = None  # a frame that is arriving piecewise
        self._frame_size = 0
        self._frame_filled = 0
        self._proven_bytes = 0
        self._wants_memory = False
        self._muted = False
        self._sending = False

    # --- what the connection says -----------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        """A whole request. Its bytes are reused when this returns."""
        raise NotImplementedError

    def _update_reading(self) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        raise NotImplementedError

    def close(self, reason: str) -> None:
        raise NotImplementedError

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
        self.listener.partial_frames += not self._muted
        self._check_kind(buffer)
        self._grow_if_full()

    def _check_kind(self, buffer: bytearray) -> None:
        """As soon as its first bytes say what it is: only a Produce may be as long as the broker's limit."""
        if self._frame_size > OTHER_REQUEST_BYTES_MAX and self._frame_filled >= 2 and not is_produce(buffer):
            raise Malformed(
                f"request of {self._frame_size} bytes; only a Produce may have more than {OTHER_REQUEST_BYTES_MAX}"
            )

    def _frame_grew(self, count: int) -> None:
        self._frame_filled += count
        self._check_kind(cast(bytearray, self._frame))
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
        self.listener.partial_frames -= not self._muted
        return buffer

    def _drop_frame(self) -> None:
        if self._frame is not None:
            self.listener.requests.give_back(self._take_frame())
