"""Events that flow while the pipeline runs: a thread that sends one simulated minute after the other.

In: a broker and a ledger. Out: records in topics, and the failure, if there was one. Where nothing can be sent at all,
the block does not begin: the pipeline would only find out later, and in other words.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from runnel.examples.shop.folder import Ledger
from runnel.examples.shop.sending import send_until


class Feeder:
    """Use as a context manager; `failure` is what ended it, if not the end of the block."""

    def __init__(self, bootstrap: str, ledger: Ledger, save: Callable[[Ledger], None], *, minute_s: float) -> None:
        self.failure: Exception | None = None
        self._work = bootstrap, ledger, save, minute_s
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop-events", daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        self._ready.wait()
        if self.failure is not None:
            raise self.failure
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(RuntimeError):  # its loop is closed: it has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._feed())
        except Exception as error:
            self.failure = error
        finally:
            self._ready.set()

    async def _feed(self) -> None:
        bootstrap, ledger, save, minute_s = self._work
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await send_until(self._stop, bootstrap, ledger, save, minute_s=minute_s, begun=self._ready.set)
