"""Spark's daemon of Python workers, without the tracebacks of workers that Spark has had enough of.

`show()`, `head`, a `limit` and the end of a stream close the socket of a worker that has more to send, a minute without
work that of an idle one, and PySpark's daemon prints a BrokenPipeError for each. In: what Spark gives its own daemon.
Out: the same, but for that. `quieten` does it for the workers that plan, for which Spark takes no other daemon.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from pyspark import daemon

Worker = Callable[[socket.socket, bool], int]


def quiet(worker: Worker) -> Worker:
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            # Errors of the work itself never come here, they are sent to Spark: the peer that is gone is Spark.
            os._exit(1)  # as the daemon does after its traceback

    return run


def quieten(main: Any = None) -> None:
    """From the next piece of work on, in a worker of Spark's own daemon; nothing in any other process."""
    main = main or sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name == daemon.__name__ and main.worker.__module__ != __name__:
        main.worker = quiet(main.worker)


if __name__ == "__main__":
    spark_s_own: Any = daemon
    spark_s_own.worker = quiet(daemon.worker)
    daemon.manager()
