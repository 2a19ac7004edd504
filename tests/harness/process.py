"""A real `runnel serve` in its own process: start it, wait for its ready line, look at it, stop or kill it.

In: a data directory and settings by Kafka's names. Out: an address, an exit code, what it wrote on stderr.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from harness.conditions import wait_until

READY_LINE = re.compile(r"^ready kafka=(?P<host>\S+):(?P<port>\d+)", re.MULTILINE)


# Brokers whose stderr is shown with the tests that fail.
WATCHED: list[BrokerProcess] = []


class StartFailed(RuntimeError):
    """The broker ended before it was ready; the message has its exit code and its stderr."""


def external_bootstrap() -> str | None:
    """The broker to test instead of our own, if RUNNEL_TEST_BOOTSTRAP names one."""
    return os.environ.get("RUNNEL_TEST_BOOTSTRAP")


@contextlib.contextmanager
def watched(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """Start the broker, show its stderr with tests that fail, and end it."""
    WATCHED.append(broker)
    try:
        yield broker.start()
    finally:
        broker.stop()
        WATCHED.remove(broker)


def free_port() -> int:
    """A port that was free a moment ago, for brokers that must come back on the same one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class BrokerProcess:
    """One broker process after another on the same data directory and port."""

    def __init__(
        self,
        work_dir: Path,
        *,
        data_dir: Path | None = None,
        settings: Mapping[str, str | int | bool] | None = None,
        arguments: tuple[str, ...] = (),
        port: int = 0,
    ) -> None:
        self.work_dir = work_dir
        self.data_dir = data_dir if data_dir is not None else work_dir / "data"
        self.settings = dict(settings or {})
        self.arguments = arguments
        self.port = port
        self.host = "127.0.0.1"
        self.starts = 0
        self._stderr_seen = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def stdout_path(self) -> Path:
        return self.work_dir / f"stdout.{self.starts}"

    @property
    def stderr_path(self) -> Path:
        return self.work_dir / f"stderr.{self.starts}"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "runnel", "serve", "--data-dir", str(self.data_dir)]
        command += ["--listen", f"127.0.0.1:{self.port}", *self.arguments]
        if self.settings:
            config_path = self.work_dir / "runnel.yaml"
            lines = [f"{name}: {_yaml(value)}\n" for name, value in self.settings.items()]
            config_path.write_text("".join(lines))
            command += ["--config", str(config_path)]
        return command

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start without waiting."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.starts += 1
        self._stderr_seen = 0
        with self.stdout_path.open("wb") as stdout, self.stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(self.command(), stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL)
        return self.process

    def start(self, deadline_seconds: float = 60.0) -> BrokerProcess:
        """Start and wait for the ready line."""
        process = self.spawn()
        wait_until(lambda: process.poll() is not None or self._ready(), "the broker's ready line", deadline_seconds)
        ready = self._ready()
        if not ready:
            raise StartFailed(f"exit code {process.poll()} before ready; stderr:\n{self.stderr_text()}")
        self.host, self.port = ready["host"], int(ready["port"])
        return self

    def _ready(self) -> re.Match[str] | None:
        return READY_LINE.search(self.stdout_path.read_text(errors="replace"))

    def running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError("the broker was never started")
        return self.process

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL: what a power switch is to a process, except that the page cache survives."""
        self.running().send_signal(signal.SIGKILL)
        self.running().wait()

    def terminate(self, deadline_seconds: float = 60.0) -> int:
        """SIGTERM and the exit code; a broker that hangs on the way out is killed and reported."""
        process = self.running()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"SIGTERM did not end the broker; stderr:\n{self.stderr_text()}") from None

    def stop(self) -> None:
        """For teardown: end it whatever its state."""
        if self.is_alive():
            self.kill()

    def stderr_text(self, characters_max: int = 8000) -> str:
        if self.starts == 0 or not self.stderr_path.exists():
            return ""
        with self.stderr_path.open(errors="replace") as written:
            written.seek(self._stderr_seen)
            return written.read()[-characters_max:]

    def forget_stderr(self) -> None:
        """What was written so far belongs to earlier tests."""
        if self.starts and self.stderr_path.exists():
            self._stderr_seen = self.stderr_path.stat().st_size

    def rss_bytes(self) -> int:
        rss: int = psutil.Process(self.running().pid).memory_info().rss
        return rss


def _yaml(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f'"{value}"'
