"""Owns holding many quiet connections open from helper processes, and checking that the broker kept them.

A helper (`python -m benchmarks.clients.idle_connections HOST:PORT COUNT`) opens its sockets, speaks once on
each, prints how many it has, waits for its stdin to close, then prints how many are still open.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.clients import bare_socket
from benchmarks.clients.rdkafka import ClientFailed

PER_HELPER_MAX = 5000


@contextlib.contextmanager
def held(bootstrap: str, count: int) -> Iterator[None]:
    """`count` connections are open inside the block; leaving it checks that none was dropped."""
    with contextlib.ExitStack() as stack:
        helpers = [stack.enter_context(_helper(bootstrap, share)) for share in _shares(count)]
        for helper in helpers:
            _expect(helper, "open")
        yield
        for helper in helpers:
            if helper.stdin is not None:
                helper.stdin.close()
            _expect(helper, "held")


def _shares(count: int) -> list[int]:
    return [min(PER_HELPER_MAX, count - begun) for begun in range(0, count, PER_HELPER_MAX)]


@contextlib.contextmanager
def _helper(bootstrap: str, count: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", __name__, bootstrap, str(count)]
    helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield helper
    finally:
        helper.kill()
        helper.wait()
        for pipe in (helper.stdin, helper.stdout):
            if pipe is not None:
                pipe.close()


def _expect(helper: subprocess.Popen[str], word: str) -> None:
    line = helper.stdout.readline().strip() if helper.stdout else ""
    if line != f"{word} all":
        raise ClientFailed(f"idle connections: {line or 'the helper died'}")


def main(bootstrap: str, count: int) -> None:
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = bare_socket.connect(bootstrap)
            connections.append(connection)
            bare_socket.exchange(connection, bare_socket.api_versions_request())
    except (OSError, bare_socket.BrokerNotReady) as problem:
        print(f"{len(connections)} of {count} opened, then: {problem}", flush=True)
        return
    print("open all", flush=True)
    sys.stdin.read()
    dropped = sum(not _is_open(connection) for connection in connections)
    print("held all" if not dropped else f"{dropped} of {count} were closed by the broker", flush=True)


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
