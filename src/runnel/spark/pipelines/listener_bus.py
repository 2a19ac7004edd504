"""Listeners of streaming queries over Spark Connect, as PySpark has them, but such that they can be removed.

In: listeners. Out: calls to them, from a thread that reads the server's events. PySpark 4.3 waits for that thread's end
with the lock in its hands that the thread takes for each event: with an event on its way, both wait for ever
(SPARK-59623).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyspark.sql.connect.proto as protocol
from pyspark.errors import PySparkException
from pyspark.sql.connect.streaming.query import StreamingQueryListenerBus

if TYPE_CHECKING:
    from threading import Thread

    from pyspark.sql.streaming.listener import StreamingQueryListener


class ListenerBus(StreamingQueryListenerBus):
    def remove(self, listener: StreamingQueryListener) -> None:
        """When the last one is removed, the events that are still on their way come first."""
        with self._lock:
            thread = self._execution_thread if self._listener_bus == [listener] else None
        if thread is None:
            super().remove(listener)
            return
        with suppress(PySparkException):  # a server that is gone ends the events by itself
            self._end_events()
            self._forget(listener, thread)

    def _end_events(self) -> None:
        command = protocol.Command()
        command.streaming_query_listener_bus_command.remove_listener_bus_listener = True
        self._sqm._session.client.execute_command(command)

    def _forget(self, listener: StreamingQueryListener, thread: Thread) -> None:
        thread.join()
        with self._lock:
            self._execution_thread = None
            with suppress(ValueError):  # events that end in an error leave no listener
                self._listener_bus.remove(listener)
