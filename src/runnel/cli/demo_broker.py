"""The broker of a demo: a `runnel serve` of its own process, from its ready line to SIGTERM.

In: a data directory and a port. Out: its address; ClickException with the cure where it does not start, and a call
where it ends by itself.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

READY = "ready kafka="
STOP_S = 30.0
PR_SET_PDEATHSIG = 1
LOG_CHARACTERS = 2000


@contextmanager
def serving(data_dir: Path, port: int, log: Path, on_end: Callable[[], None]) -> Iterator[str]:
    command = [sys.executable, "-m", "runnel", "serve", "--data-dir", str(data_dir), "--listen", f"127.0.0.1:{port}"]
    with log.open("w") as errors:
        # In a session of its own: Ctrl-C is for us, and the broker ends after those who talk to it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    stopping = threading.Event()

    def watch() -> None:
        process.wait()
        if not stopping.is_set():
            on_end()

    try:
        address = _address(process, port, log)
        threading.Thread(target=watch, name="demo-broker", daemon=True).start()
        yield address
    finally:
        stopping.set()
        _stop(process)


def _end_with_parent() -> None:
    """Who kills the demo leaves nobody to end its broker: Linux then does, by SIGTERM."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _address(process: subprocess.Popen[str], port: int, log: Path) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if line.startswith(READY):
        return line.removeprefix(READY).strip()
    reason = log.read_text(errors="replace")[-LOG_CHARACTERS:].strip()
    if "in use" in reason:
        raise click.ClickException(
            f"port {port} is taken, perhaps by another broker: end that one, or name another port with --port "
            "(0 picks a free one)"
        )
    raise click.ClickException(f"the broker did not start: {reason.rpartition('Error: ')[2] or 'it said nothing'}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
