"""What a check of files found, and what a repair would do about it.

A `damage` is bytes that are not as they were written: records are lost or cannot be read. A `warning` is something
that a broker mends by itself, or that a person should look at. A `note` is neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["damage", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Cut:
    """End the log before `offset`, in the last segment that stays, at `position`; what follows is kept aside."""

    folder: Path
    segment: Path
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Remove:
    """A file that a broker makes again from the log."""

    path: Path


@dataclass(frozen=True, slots=True)
class LogFinding:
    status: Status
    path: Path
    message: str
    advice: str | None = None
    position: int | None = None
    offset: int | None = None
    repair: Cut | Remove | None = None
