"""A TCP proxy that can lose replies: the request arrives, the connection dies before its answer is passed on.

This is the failure idempotent producers exist for: the broker appended the batch, the client does not know.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator

CHUNK_BYTES = 65536


class CuttingProxy:
    """Passes bytes between clients and one broker; `cut_when` looks at each whole request frame.

    When `cut_when(api_key, request_number)` says so, that request is still sent to the broker, its reply is awaited
    and swallowed, and then the client's connection is closed.
    """

    def __init__(self, address: str, cut_when: Callable[[int, int], bool]) -> None:
        target_host, _, target_port = address.rpartition(":")
        target = (target_host, int(target_port))
        self.target = target
        self.cut_when = cut_when
        self.cuts = 0
        self.requests_by_key: dict[int, int] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()[:2]
        # In every version of Metadata a broker's host is followed by its port. Ours has the same length, so clients
        # that learn the brokers through the proxy come back to it.
        self._target_mark = target[0].encode() + struct.pack(">i", target[1])
        self._own_mark = host.encode() + struct.pack(">i", port)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        # Closing alone does not wake a thread that is blocked in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.target) as broker:
            try:
                self._pump(client, broker)
            except OSError:
                return

    def _pump(self, client: socket.socket, broker: socket.socket) -> None:
        requests, replies = bytearray(), bytearray()
        cuts_in_flight: deque[bool] = deque()
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(broker, selectors.EVENT_READ)
            while not self._closed.is_set():
                for key, _ in selector.select(0.1):
                    chunk = key.fileobj.recv(CHUNK_BYTES)  # type: ignore[union-attr]
                    if not chunk:
                        return
                    if key.fileobj is client:
                        requests += chunk
                        for frame in _take_frames(requests):
                            broker.sendall(frame)
                            cuts_in_flight.append(self._note(int.from_bytes(frame[4:6], "big")))
                        continue
                    replies += chunk
                    for frame in _take_frames(replies):
                        if cuts_in_flight and cuts_in_flight.popleft():
                            return  # the reply is here, so the request was carried out; the client never sees it
                        client.sendall(frame.replace(self._target_mark, self._own_mark))

    def _note(self, api_key: int) -> bool:
        with self._lock:
            number = self.requests_by_key.get(api_key, 0) + 1
            self.requests_by_key[api_key] = number
            cut = self.cut_when(api_key, number)
            self.cuts += cut
            return cut


def _take_frames(buffer: bytearray) -> Iterator[bytes]:
    """Whole frames, sizes included, removed from the buffer."""
    while len(buffer) >= 4:
        end = 4 + int.from_bytes(buffer[:4], "big")
        if len(buffer) < end:
            return
        frame = bytes(buffer[:end])
        del buffer[:end]
        yield frame
