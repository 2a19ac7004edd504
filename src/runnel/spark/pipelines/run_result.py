"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from runnel.spark.pipelines.failures import FlowFailure
from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.notes import COMPLETED, FAILED, STOPPED
from runnel.spark.pipelines.spec_file import Problem


@dataclass(frozen=True)
class RunResult:
    """`problems`: why nothing was run; `failures`: what failed while it ran. `stopped`: it was interrupted."""

    flows: Mapping[str, FlowProgress] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    failures: Sequence[FlowFailure] = ()
    stopped: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not (self.problems or self.failures or self.stopped)

    @property
    def status(self) -> str:
        return COMPLETED if self.ok else STOPPED if self.stopped else FAILED

    @property
    def error(self) -> str | None:
        return "; ".join(map(str, [*self.problems, *self.failures])) or None

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "problems": [asdict(problem) for problem in self.problems],
            "failures": [failure.as_dict() for failure in self.failures],
        }
