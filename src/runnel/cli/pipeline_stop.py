"""How a process that runs pipelines is told to end: SIGTERM, or Ctrl-C.

In: signals. Out: whether somebody wants an end; the run under way is interrupted, and no other begins.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnel.spark.pipelines import PipelineSession

EXIT_BY_SIGNAL = 128
"""Plus the signal's number, where something was cut short."""


class StopRequest:
    """The first signal is a wish; a second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._requested = threading.Event()
        self._session: PipelineSession | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.receive) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        if self.is_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = number
        self.request()

    def request(self) -> None:
        self._requested.set()
        if self._session is not None:
            # Not here: this may have interrupted the very code that talks to Spark.
            threading.Thread(target=self._session.interrupt, daemon=True).start()

    @contextlib.contextmanager
    def interrupting(self, session: PipelineSession) -> Iterator[None]:
        self._session = session
        try:
            yield
        finally:
            self._session = None

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    @property
    def exit_code(self) -> int:
        """Of work that was cut short; SIGTERM's where nobody here has seen a signal."""
        return EXIT_BY_SIGNAL + (self.signal_number or signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        return self._requested.wait(seconds)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """SIGTERM ends the process as an exception does, so that what is temporary is removed."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(EXIT_BY_SIGNAL + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
