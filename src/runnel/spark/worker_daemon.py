"""Spark's daemon of Python workers, without the tracebacks of workers that Spark has had enough of.

`show()`, `head`, a `limit` and the end of a stream close the socket of a worker that has more to send, and PySpark's
daemon prints its BrokenPipeError, at each of them. In: what Spark gives its own daemon. Out: the same, but for that.
"""

from __future__ import annotations

import os
import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        # Errors of the work itself never come here, they are sent to Spark: the peer that is gone is Spark.
        os._exit(1)  # as the daemon does after its traceback


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
