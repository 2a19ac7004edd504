"""The figures of a flow at one moment: what is shown, noted and handed to callers. Imports nothing of Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FlowProgress:
    """Figures of the last micro-batch; rate and duration are of the last one that had rows. `rows` and `batches` count
    since the run began. None: Spark does not tell."""

    flow: str
    status: str
    batch_id: int | None = None
    rows: int = 0
    batches: int = 0
    rows_per_second: float | None = None
    batch_ms: int | None = None
    lag: int | None = None
    """Offsets behind the latest, over all partitions; None for a flow that reads no topic."""
    state_rows: int | None = None
    state_bytes: int | None = None
    error: str | None = None
    """Why it failed; stays while Spark tries again, until it has completed."""
    timestamp_ms: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
