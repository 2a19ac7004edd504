"""Counting a long run: a line that rewrites itself on a terminal, and a summary at the end. All on stderr."""

from __future__ import annotations

import sys
import time

from runnel.cli.output import counted, human_bytes, note

FIRST_AFTER_S = 2.0
EVERY_S = 0.5


class Progress:
    """Counts records and bytes; shows itself only where a person watches and nothing else prints."""

    def __init__(self, verb: str, *, quiet: bool, hidden: bool = False) -> None:
        self.records = 0
        self.bytes = 0
        self._verb = verb
        self._quiet = quiet
        self._live = not quiet and not hidden and sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._next_s = self._started_s + FIRST_AFTER_S
        self._shown = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def add(self, records: int, size_bytes: int) -> None:
        self.records += records
        self.bytes += size_bytes
        if self._live and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{self._verb} {self._figures()}")
            sys.stderr.flush()

    def _figures(self) -> str:
        elapsed_s = max(self.elapsed_s, 0.001)
        rate = f"{self.records / elapsed_s:,.0f} records/s" if self.records > 1 else f"{elapsed_s:.1f} s"
        return f"{counted(self.records, 'record')}, {human_bytes(self.bytes)}, {rate}"

    def finish(self, place: str) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
        if not self._quiet:
            note(f"{self._verb} {self._figures()} {place}")
