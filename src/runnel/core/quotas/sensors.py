"""A rate and its limit: what a client's requests are recorded on.

In: values and times; out: for how long to throttle (0: not at all). `Sensors` keeps those in use, bounded in number:
after an hour without use a sensor is forgotten (its window has long been empty), and before there are too many, those
idle for longest are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from runnel.core.quotas.rates import MS_PER_S, THROTTLE_MS_MAX, TokenBucket, Window, WindowedRate

SENSORS_MAX = 10_000
EVICTED_AT_ONCE = SENSORS_MAX // 10
IDLE_MS_MAX = 3_600_000


class RateSensor:
    """A windowed rate and its limit."""

    __slots__ = ("_rate", "_throttle_ms_max", "_window", "limit")

    def __init__(self, window: Window, limit: float, now_ms: int, throttle_ms_max: int = THROTTLE_MS_MAX) -> None:
        self.limit = limit
        self._window = window
        self._throttle_ms_max = throttle_ms_max
        self._rate = WindowedRate(window, now_ms)

    @property
    def used_at_ms(self) -> int:
        return self._rate.used_at_ms

    @property
    def most_in_window(self) -> float:
        """The most that can be recorded at once without being throttled for certain."""
        return self.limit * self._window.full_ms / MS_PER_S

    def record(self, value: float, now_ms: int) -> int:
        """Record, and answer for how long to throttle: 0 where the rate is within the limit."""
        self._rate.record(value, now_ms)
        throttle_ms = self._rate.throttle_ms(self.limit, now_ms)
        return min(throttle_ms, self._throttle_ms_max) if throttle_ms else 0

    def record_unchecked(self, value: float, now_ms: int) -> None:
        """Record what counts for later requests only; a negative value takes back what was not sent after all."""
        self._rate.record(value, now_ms)


class MutationSensor:
    """A bucket of partition mutations and the limit that refills it (KIP-599)."""

    __slots__ = ("_bucket", "limit")

    def __init__(self, window: Window, limit: float, now_ms: int) -> None:
        self.limit = limit
        self._bucket = TokenBucket(window, now_ms)

    @property
    def used_at_ms(self) -> int:
        return self._bucket.used_at_ms

    def record(self, value: float, now_ms: int) -> int:
        """Record whatever is owed, then answer for how long to throttle: how old clients are treated."""
        self._bucket.record(value, self.limit, now_ms)
        return self._bucket.throttle_ms(self.limit, now_ms)

    def record_strictly(self, value: float, now_ms: int) -> int:
        """Record only where nothing is owed, then any size; else answer after how long to come back."""
        throttle_ms = self._bucket.throttle_ms(self.limit, now_ms)
        if throttle_ms == 0:
            self._bucket.record(value, self.limit, now_ms)
        return throttle_ms


Sensor = TypeVar("Sensor", RateSensor, MutationSensor)


class Sensors(Generic[Sensor]):
    """Sensors by who is measured together. ``on_forget`` is called when some were forgotten to make room."""

    def __init__(self, new: Callable[[float, int], Sensor], on_forget: Callable[[], None]) -> None:
        self._new: Callable[[float, int], Sensor] = new
        self._on_forget = on_forget
        self._by_key: dict[Hashable, Sensor] = {}
        self._expire_at_ms = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: Hashable, limit: float, now_ms: int) -> Sensor:
        """The sensor, which has this limit from now on."""
        sensor = self._by_key.get(key)
        if sensor is None:
            self._make_room(now_ms)
            sensor = self._by_key[key] = self._new(limit, now_ms)
        sensor.limit = limit
        return sensor

    def clear(self) -> None:
        self._by_key.clear()

    def _make_room(self, now_ms: int) -> None:
        is_full = len(self._by_key) >= SENSORS_MAX
        if not is_full and now_ms < self._expire_at_ms:
            return
        self._expire_at_ms = now_ms + IDLE_MS_MAX
        by_age = sorted(self._by_key, key=lambda key: self._by_key[key].used_at_ms)
        idle = sum(now_ms - sensor.used_at_ms >= IDLE_MS_MAX for sensor in self._by_key.values())
        for key in by_age[: max(idle, EVICTED_AT_ONCE if is_full else 0)]:
            del self._by_key[key]
        self._on_forget()
