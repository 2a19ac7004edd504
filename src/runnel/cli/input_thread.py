"""Reading files and pipes without holding up the event loop, and without being held up by it.

In: paths (`-` is stdin). Out: chunks, in order, with at most a few waiting. The thread is a daemon: a
read from a terminal or a silent pipe that nobody will ever answer must not keep the process alive after
Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import NamedTuple

CHUNK_BYTES = 256 << 10
CHUNKS_WAITING_MAX = 8
STDIN = "-"


class InputChunk(NamedTuple):
    """`data` is empty at the end of each file."""

    path: str
    data: bytes


class InputThread:
    """Use as `async for chunk in InputThread(paths).chunks()`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[InputChunk | OSError | None] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_WAITING_MAX)

    async def chunks(self) -> AsyncIterator[InputChunk]:
        threading.Thread(target=self._read_all, name="input", daemon=True).start()
        while (item := await self._queue.get()) is not None:
            self._room.release()
            if isinstance(item, OSError):
                raise item
            yield item

    def _read_all(self) -> None:
        with suppress(RuntimeError):  # the event loop closed before we were done: nobody wants the rest
            try:
                for path in self._paths:
                    self._read(path)
            except OSError as error:
                self._hand_over(error)
            self._hand_over(None)

    def _read(self, path: str) -> None:
        descriptor = sys.stdin.fileno() if path == STDIN else os.open(path, os.O_RDONLY)
        try:
            while data := os.read(descriptor, CHUNK_BYTES):
                self._hand_over(InputChunk(path, data))
        except OSError as error:
            error.filename = path
            raise
        finally:
            if path != STDIN:
                os.close(descriptor)
        self._hand_over(InputChunk(path, b""))

    def _hand_over(self, item: InputChunk | OSError | None) -> None:
        self._room.acquire()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
