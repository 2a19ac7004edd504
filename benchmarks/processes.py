"""Owns reading what a process tree costs from /proc: CPU seconds and resident memory."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """The process and everything that it started (a broker may run worker processes)."""
    pids = [pid]
    for parent in pids:
        for thread in _threads(parent):
            pids += [int(child) for child in _read(Path(f"/proc/{parent}/task/{thread}/children")).split()]
    return pids


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return []


def cpu_seconds(pid: int) -> float:
    """User plus system time of the tree, in 10 ms steps (the kernel scales them from exact run time)."""
    total_ticks = 0
    for member in tree(pid):
        fields = _read(Path(f"/proc/{member}/stat")).rpartition(")")[2].split()
        if fields:
            total_ticks += int(fields[11]) + int(fields[12])
    return total_ticks / TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Resident set of the tree."""
    pages = (_read(Path(f"/proc/{member}/statm")).split() for member in tree(pid))
    return sum(int(fields[1]) for fields in pages if fields) * PAGE_BYTES


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
