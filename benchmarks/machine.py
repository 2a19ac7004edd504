"""Owns saying what the figures were measured on: processor, memory, kernel, disk, versions, source commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

SYNC_PROBES = 100
LOAD_PER_CORE_MAX = 0.3


def describe(data_root: Path, versions: list[str]) -> dict[str, str]:
    """Label and value, in the order to print."""
    return {
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores (shared by broker and clients)",
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "Kernel": f"{platform.system()} {platform.release()}",
        "Disk": f"{_filesystem(data_root)}, fdatasync of 4 KiB {_sync_ms(data_root):.2f} ms (median)",
        "Load before": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "Java": _java_version(),
        "Versions": ", ".join(versions),
    }


def is_busy() -> bool:
    """Whether something else runs here that will blur the figures."""
    return os.getloadavg()[0] > LOAD_PER_CORE_MAX * (os.cpu_count() or 1)


def source_commit() -> str:
    """The commit measured, with a mark when the tree has changes on top of it."""
    commit = _output(["git", "rev-parse", "--short", "HEAD"]).strip()
    changed = _output(["git", "status", "--porcelain", "--untracked-files=no", "--", "src"]).strip()
    return f"{commit or 'unknown'}{' with local changes' if changed else ''}"


def _cpu_model() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else platform.machine()


def _filesystem(folder: Path) -> str:
    listing = _output(["df", "--output=fstype", str(folder)]).split()
    return listing[-1] if listing else "unknown"


def _sync_ms(folder: Path) -> float:
    """What one small append with fdatasync costs here: the floor of every durable row."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        times_s = []
        for _ in range(SYNC_PROBES):
            file.write(b"x" * 4096)
            began_s = time.perf_counter()
            os.fdatasync(file.fileno())
            times_s.append(time.perf_counter() - began_s)
    return median(times_s) * 1e3


def _java_version() -> str:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "none"
    return done.stderr.splitlines()[0] if done.stderr else "unknown"


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
