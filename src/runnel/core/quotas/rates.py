"""How fast something happened lately, and how long to wait until it was slow enough: Kafka's arithmetic.

In: values with their times; out: throttle times in milliseconds. `WindowedRate` is what byte rates, request times and
connection rates are measured with (a ring of samples, as Kafka's `Rate` on `SampledStat`); `TokenBucket` is what
KIP-599 measures mutations with, since one large request there would hold a windowed rate up for too long.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

MS_PER_S = 1000
THROTTLE_MS_MAX = 2**31 - 1
"""throttle_time_ms is an int32; at this length a client is as good as refused."""


class Window(NamedTuple):
    """Rates are taken over `samples` samples of `sample_ms` each (quota.window.num, quota.window.size.seconds)."""

    samples: int
    sample_ms: int

    @property
    def full_ms(self) -> int:
        """The least time that a rate is divided by: all samples but the one that is still filling."""
        return (self.samples - 1) * self.sample_ms


class WindowedRate:
    """The sum of a ring of samples over the time that they span.

    One sample more than the window has is kept, since the oldest one overlaps the window's beginning. A sample without
    an event for as long as the window is emptied where it lies; so the ring is Kafka's, slot by slot.
    """

    __slots__ = (
        "_at",
        "_purge_at_ms",
        "_sample_ends_ms",
        "_started_ms",
        "_total",
        "_touched_ms",
        "_values",
        "_window",
        "used_at_ms",
    )

    def __init__(self, window: Window, now_ms: int) -> None:
        self._window = window
        self._at = -1
        self._started_ms: list[int] = []
        self._touched_ms: list[int] = []
        self._values: list[float] = []
        self._total = 0.0
        self._sample_ends_ms = now_ms  # the first value begins the first sample
        self._purge_at_ms = now_ms + window.samples * window.sample_ms
        self.used_at_ms = now_ms

    def record(self, value: float, now_ms: int) -> None:
        if now_ms >= self._sample_ends_ms:
            self._advance(now_ms)
        self._values[self._at] += value
        self._touched_ms[self._at] = self.used_at_ms = now_ms
        self._total += value

    def _advance(self, now_ms: int) -> None:
        self._at = (self._at + 1) % (self._window.samples + 1)
        if self._at == len(self._values):
            self._started_ms.append(now_ms)
            self._touched_ms.append(now_ms)
            self._values.append(0.0)
        else:
            self._empty(self._at, now_ms)
        self._sample_ends_ms = now_ms + self._window.sample_ms
        self._total = sum(self._values)  # anew each time: a running sum of floats would drift

    def _empty(self, slot: int, now_ms: int) -> None:
        self._started_ms[slot] = self._touched_ms[slot] = now_ms
        self._values[slot] = 0.0

    def _purge(self, now_ms: int) -> None:
        span_ms = self._window.samples * self._window.sample_ms
        for slot, touched_ms in enumerate(self._touched_ms):
            if now_ms - touched_ms >= span_ms:
                self._empty(slot, now_ms)
        self._total = sum(self._values)
        self._sample_ends_ms = self._started_ms[self._at] + self._window.sample_ms
        self._purge_at_ms = min(self._touched_ms) + span_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """After a `record`: how long to wait until the rate per second is down to `limit`, if nothing more comes.

        Of an observed rate O over a window W, the wait X must give O * W / (W + X) = limit.
        """
        if now_ms >= self._purge_at_ms:
            self._purge(now_ms)
        if self._total * MS_PER_S <= limit * self._window.full_ms:
            return 0  # under the limit however long the samples span: no need to look
        window_ms = self._window_ms(now_ms)
        rate = self._total / (window_ms / MS_PER_S)
        return rounded_ms((rate - limit) / limit * window_ms) if limit > 0 else THROTTLE_MS_MAX

    def _window_ms(self, now_ms: int) -> int:
        """The time that the samples span; where there are fewer than the window has, as if the others were empty."""
        elapsed_ms = now_ms - min(self._started_ms)
        missing = self._window.samples - 1 - elapsed_ms // self._window.sample_ms
        return max(1, elapsed_ms + max(0, missing) * self._window.sample_ms)


class TokenBucket:
    """Credits that come back at `limit` per second, up to what a whole window would give; below zero is too much."""

    __slots__ = ("_refilled_at_ms", "_tokens", "_window", "used_at_ms")

    def __init__(self, window: Window, now_ms: int) -> None:
        self._window = window
        self._tokens: float | None = None  # full, whatever the limit
        self._refilled_at_ms = self.used_at_ms = now_ms

    def record(self, value: float, limit: float, now_ms: int) -> None:
        self._tokens = min(self._burst(limit), self._refilled(limit, now_ms) - value)
        self.used_at_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until the debt is paid back."""
        self._tokens = self._refilled(limit, now_ms)
        if self._tokens >= 0:
            return 0
        return rounded_ms(-self._tokens / limit * MS_PER_S) if limit > 0 else THROTTLE_MS_MAX

    def _refilled(self, limit: float, now_ms: int) -> float:
        burst = self._burst(limit)
        gained = limit * (now_ms - self._refilled_at_ms) / MS_PER_S
        self._refilled_at_ms = now_ms
        return burst if self._tokens is None else min(burst, self._tokens + gained)

    def _burst(self, limit: float) -> float:
        return self._window.samples * self._window.sample_ms / MS_PER_S * limit


def rounded_ms(duration_ms: float) -> int:
    """To the nearest millisecond, halves up (Java's Math.round), within what a reply can say."""
    return min(max(0, floor(duration_ms + 0.5)), THROTTLE_MS_MAX) if duration_ms < THROTTLE_MS_MAX else THROTTLE_MS_MAX
