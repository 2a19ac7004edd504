"""The lines of runs, `runs/NNNNNN.jsonl`: every change of a flow's figures; of the last runs, of each the last lines.

In: a folder, and lines as they come. Out: files that never grow beyond their limits. Whoever writes here holds the
project's lock; who is killed on the way leaves whole files, and what it did not remove the next run removes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RUNS_KEPT = 100
RUN_BYTES_MAX = 4 << 20
"""Some ten thousand batches. A run that is longer loses the older half of its lines each time it comes to this."""
_SUFFIX = ".jsonl"


class RunLines:
    """The file of the run that begins now; `close` it when that has ended."""

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / f"{number:06d}{_SUFFIX}"
        self._file = self._path.open("ab")
        for old, path in _runs(folder).items():
            if old <= number - RUNS_KEPT:
                path.unlink()

    def write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        if self._file.tell() > RUN_BYTES_MAX:
            self._forget_older_half()

    def _forget_older_half(self) -> None:
        newer = self._path.read_bytes()[-RUN_BYTES_MAX // 2 :]
        self._file.close()
        replace_file(self._path, newer.partition(b"\n")[2])
        self._file = self._path.open("ab")

    def close(self) -> None:
        self._file.close()


def last_run(folder: Path) -> int:
    """The number of the newest file; 0 where there is none."""
    return max(_runs(folder), default=0)


def _runs(folder: Path) -> dict[int, Path]:
    return {int(path.stem): path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal()}


def replace_file(path: Path, content: bytes) -> None:
    """Readers see the old content or the new one, never half of it. One writer at a time."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content)
    os.replace(scratch, path)
