"""Owns what Spark costs: the CPU of its JVM and of every Python process that it started, also of those that have ended.

A Python worker that ends takes its figures with it: Spark's daemon ignores SIGCHLD, so they are added to nobody's. A
thread therefore looks at the whole tree a few times a second and remembers the last that it saw of each process.
"""

from __future__ import annotations

import threading
from pathlib import Path

from benchmarks import processes

LOOK_EVERY_S = 0.25  # what is missed at most of a process that ends; looking costs about 1 % of a core


class CpuMeter:
    """CPU seconds of a process tree since it was first seen. Use as a context manager."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu-meter", daemon=True)

    def __enter__(self) -> CpuMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def seconds(self) -> float:
        """So far, of all that live and all that lived."""
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / processes.TICKS_PER_S

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        for pid in processes.tree(self._pid):
            fields = _fields(pid)
            if fields:
                # With the start time: a process number may come again.
                self._ticks[pid, fields[19]] = int(fields[11]) + int(fields[12])


def _fields(pid: int) -> list[str]:
    """Of /proc/<pid>/stat, those behind the name (the first of them is the state)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
