"""Waiting for a condition with a deadline: the only place in these tests that pauses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.01
DEADLINE_SECONDS = 60.0


class DeadlinePassed(AssertionError):
    """The condition did not come true in time; the message names it."""


def wait_until(check: Callable[[], T | None], what: str, deadline_seconds: float = DEADLINE_SECONDS) -> T:
    """The first truthy value of `check`. The deadline is generous: it only bounds a broken run."""
    deadline = time.monotonic() + deadline_seconds
    last: T | None = None
    while time.monotonic() < deadline:
        last = check()
        if last:
            return last
        time.sleep(POLL_SECONDS)
    raise DeadlinePassed(f"not within {deadline_seconds:g} s: {what} (last value: {last!r})")
