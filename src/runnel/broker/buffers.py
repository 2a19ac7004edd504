"""Memory for requests that are being received, and for replies on their way out.

Small requests are parsed where the kernel put them, in one scratch buffer that all connections of a loop share (the
read callback finishes with it before the next read begins). A request that is larger than what has arrived gets a
buffer of its own, taken from a pool so that a busy producer costs neither page faults nor zeroing, and counted against
one budget for the whole broker.

Replies are read from the log into memory that the C library hands out. Left alone it gives each megabyte back to the
kernel as soon as it is free, and the next reply pays for it again, page by page: that was half of what a consumer of
several partitions cost (docs/adr/0009-replies-without-page-faults.md).
"""

from __future__ import annotations

FREED_BYTES_KEPT = 64 * 1024 * 1024
MAPPED_BYTES_MIN = 4 * 1024 * 1024  # what is larger still comes from the kernel and goes back to it
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h

SCRATCH_BYTES = 256 * 1024
POOL_CLASSES = tuple(1 << shift for shift in range(16, 22))  # 64 KiB … 2 MiB
POOL_RETAINED_BYTES_MAX = 16 * 1024 * 1024
FIRST_BUFFER_BYTES_MAX = POOL_CLASSES[-1]
PROMISE_BYTES_MAX = POOL_CLASSES[0]
"""What a connection gets on its word. A larger buffer follows as bytes really arrive, or at once where the connection
has sent a frame of such a size before."""


class BufferPool:
    """Bytearrays by size class, and the count of bytes that requests hold now."""

    __slots__ = ("_free", "_retained_bytes", "budget_bytes", "held_bytes")

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.held_bytes = 0
        self._free: dict[int, list[bytearray]] = {size: [] for size in POOL_CLASSES}
        self._retained_bytes = 0

    @property
    def exhausted(self) -> bool:
        """True while requests hold the whole budget: frames that want a larger buffer must wait."""
        return self.held_bytes >= self.budget_bytes

    def take(self, size_bytes: int) -> bytearray:
        """A buffer of at least ``size_bytes``; its content is arbitrary."""
        for size in POOL_CLASSES:
            if size >= size_bytes:
                return self._take_class(size)
        self.held_bytes += size_bytes
        return bytearray(size_bytes)

    def _take_class(self, size: int) -> bytearray:
        self.held_bytes += size
        free = self._free[size]
        if free:
            self._retained_bytes -= size
            return free.pop()
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        size = len(buffer)
        self.held_bytes -= size
        free = self._free.get(size)
        if free is not None and self._retained_bytes + size <= POOL_RETAINED_BYTES_MAX:
            self._retained_bytes += size
            free.append(buffer)


def keep_freed_memory() -> None:
    """Let the C library keep some freed memory for the next reply. Other libraries than glibc are left as they are."""
    import ctypes  # takes milliseconds, and only a server wants it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        mallopt(_M_TRIM_THRESHOLD, FREED_BYTES_KEPT)
