"""The attacked broker as the tests see it: is it up, does it serve others, how much memory does it hold."""

from __future__ import annotations

import itertools
from pathlib import Path

import psutil

from clients.protocol.calls import create, fetch, produce
from harness.batches import decode_values, encode_batch
from harness.process import BrokerProcess
from harness.raw import RawConnection

MEGABYTE = 1 << 20

_names = itertools.count(1)


class Victim:
    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.address = broker.address

    def connect(self, timeout_seconds: float = 30.0) -> RawConnection:
        return RawConnection(self.address, timeout_seconds)

    def new_topic(self, **fields: object) -> str:
        name = f"victim{next(_names)}"
        with self.connect() as raw:
            assert create(raw, name, **fields).error_code == 0
        return name

    def check_healthy(self) -> None:
        """Another client comes, makes a topic, writes and reads."""
        assert self.broker.is_alive(), f"the broker died: {self.broker.stderr_text()}"
        topic = self.new_topic()
        with self.connect() as raw:
            assert produce(raw, topic, encode_batch([b"healthy"])).error_code == 0
            assert decode_values(fetch(raw, topic, 0).records) == [(0, b"healthy")]
        _, crash, told = self.broker.stderr_text(64 * MEGABYTE).partition("Traceback")
        assert not crash, f"an internal error on a client's bytes: {told[:3000]}"

    def rss_bytes(self) -> int:
        return self.broker.rss_bytes()

    def forget_peak(self) -> int:
        """Start measuring the peak from here; returns the memory held now."""
        Path(f"/proc/{self.broker.running().pid}/clear_refs").write_text("5")
        return self.rss_bytes()

    def peak_bytes(self) -> int:
        """The most memory held since `forget_peak`, as the kernel saw it."""
        status = Path(f"/proc/{self.broker.running().pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def open_connections(self) -> int:
        process = psutil.Process(self.broker.running().pid)
        return sum(one.status == psutil.CONN_ESTABLISHED for one in process.net_connections("tcp"))
