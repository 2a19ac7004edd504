"""The demo itself: events into topics, the pipeline over them, what came out, and whether it is right.

In: a folder, a broker's address, a `PipelineSession` on the folder's project. Out: `Result` after each run, the plot,
and the differences to plain Python. Says nothing to anybody: the command line does that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runnel.examples.shop.expected import expected_outcome
from runnel.examples.shop.feeding import Feeder
from runnel.examples.shop.folder import DemoFolder, Ledger
from runnel.examples.shop.found import (
    DEAD_LETTERS,
    EVENTS,
    found_outcome,
    read_alerts,
    read_funnel,
    read_revenue,
)
from runnel.examples.shop.outcome import Funnel, Outcome, Revenue, differences
from runnel.examples.shop.plot import draw
from runnel.examples.shop.rules import INPUTS
from runnel.examples.shop.sending import send_all, sent_records
from runnel.spark.lake.options import Destination
from runnel.spark.lake.verify import verify

if TYPE_CHECKING:
    from runnel.spark.pipelines import FlowProgress, PipelineSession, RunResult


@dataclass(frozen=True, slots=True)
class Result:
    """What one may look at after a run."""

    revenue: dict[int, Revenue]
    funnel: dict[int, Funnel]
    alerts: list[dict[str, Any]]


class Play:
    def __init__(self, folder: DemoFolder, bootstrap: str, ledger: Ledger, session: PipelineSession) -> None:
        self.folder, self.bootstrap, self.ledger = folder, bootstrap, ledger
        self._session = session

    def send(self, minutes: int) -> int:
        """How many records were sent."""
        return asyncio.run(send_all(self.bootstrap, self.ledger, self.folder.save, minutes))

    def feed(self, minute_s: float) -> Feeder:
        return Feeder(self.bootstrap, self.ledger, self.folder.save, minute_s=minute_s)

    def run(self, on_progress: Callable[[FlowProgress], None] | None = None) -> RunResult:
        # A catalog that outlives the folder (a Connect server's) may hold the tables of an earlier demo.
        return self._session.run(full_refresh_all=self.folder.is_new, on_progress=on_progress)

    def result(self) -> Result:
        """After a run: read, and drawn."""
        spark: Any = self._session.spark
        alerts = asyncio.run(read_alerts(self.bootstrap))
        result = Result(read_revenue(spark), read_funnel(spark), alerts)
        named = [(alert["alert"], alert["subject"]) for alert in alerts]
        draw(self.folder.plot, result.revenue, result.funnel, named)
        return result

    def check(self) -> tuple[Outcome, list[str]]:
        """What is there, and how it differs from what must be. Only while nothing is sent, and after a run."""
        expected = expected_outcome(sent_records(self.ledger))
        spark: Any = self._session.spark
        found = asyncio.run(found_outcome(spark, self.bootstrap, self.folder.lake))
        return found, [*differences(expected, found), *self._lake_differences()]

    def _lake_differences(self) -> list[str]:
        """Record by record: the lake's events and dead letters against the topics."""
        events, dead = (Destination(str(self.folder.lake / name)) for name in (EVENTS, DEAD_LETTERS))
        source = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": ",".join(INPUTS)}
        proofs = verify(events, dead, source).proofs
        return [f"lake table {EVENTS}: {proof.target} is not equal to the topic" for proof in proofs if not proof.holds]
