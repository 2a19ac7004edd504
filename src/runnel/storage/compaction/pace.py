"""How fast compaction may go (log.cleaner.io.max.bytes.per.second), and how it is told to end.

In: the bytes that were just read or written; out: nothing, a pause, or `Stopped`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_BYTES = 256 << 10
"""Looked at every so many bytes: small enough for a prompt end, too large to cost anything."""


class Stopped(Exception):
    """The round shall end here; what it has written is worth nothing."""


class Throttle:
    """`wait(seconds)` returns early, with True, if the round shall end."""

    __slots__ = ("_began_s", "_bytes", "_bytes_per_s", "_clock", "_next_look", "_wait")

    def __init__(
        self, bytes_per_s: float, wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._wait = wait
        self._clock = clock
        self._began_s = clock()
        self._bytes = 0
        self._next_look = 0

    def __call__(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        if self._bytes >= self._next_look:
            self._next_look = self._bytes + STEP_BYTES
            ahead_s = self._bytes / self._bytes_per_s - (self._clock() - self._began_s)
            if self._wait(max(0.0, ahead_s)):
                raise Stopped
