"""What a person sees of a demo: a line per step, what runs meanwhile, and the tables.

In: results. Out: steps on stderr, tables on stdout; with --json nothing but the document at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runnel.cli.output import counted, note, print_table

if TYPE_CHECKING:
    from runnel.examples.shop.outcome import Outcome
    from runnel.examples.shop.play import Result
    from runnel.spark.pipelines import FlowProgress, RunResult

WINDOWS_SHOWN = 12
ALERTS_SHOWN = 3
COLUMNS = ("window", "visitors", "carts", "orders", "paid", "failed", "revenue €", "")

DONE = ("COMPLETED", "SKIPPED", "EXCLUDED")

Update = Callable[[str], None]


class Screen:
    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def step(self, headline: str, details: str = "") -> None:
        if not self.quiet:
            note(f"{click.style(headline, bold=sys.stderr.isatty())}{details and '  '}{details}")

    @contextmanager
    def working(self, words: str) -> Iterator[Update]:
        """Something takes a while: a line that lives on a terminal, a plain one elsewhere. `update` changes it."""
        if self.quiet or not sys.stderr.isatty():
            self.step(words)
            yield lambda _: None
            return
        from rich.console import Console
        from rich.text import Text

        with Console(stderr=True).status(Text(words)) as status:
            yield lambda text: status.update(Text(text))

    def run_done(self, number: int, result: RunResult) -> None:
        rows = sum(flow.rows for flow in result.flows.values() if flow.lag is not None)
        lag = sum(flow.lag or 0 for flow in result.flows.values())
        self.step(
            f"run {number}",
            f"{counted(rows, 'event')} through {counted(len(result.flows), 'flow')} in {result.seconds:.1f} s, "
            f"{counted(lag, 'event')} behind",
        )

    def tables(self, result: Result) -> None:
        if self.quiet:
            return
        print_table(COLUMNS, window_rows(result))
        for alert in result.alerts[-ALERTS_SHOWN:]:
            details = ", ".join(f"{name} {value}" for name, value in alert.items() if name not in ("alert", "subject"))
            note(f"  alert: {alert['alert']} {alert['subject']} ({details})")

    def checked(self, found: Outcome, differing: list[str]) -> None:
        for line in differing:
            note(f"differs: {line}")
        if differing:
            note(f"NOT as plain Python computes it: {counted(len(differing), 'difference')}")
            return
        late = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons(found).items()))
        self.step(
            "checked",
            f"{counted(found.topic_records.total(), 'event')}, {counted(found.set_aside.total(), 'dead letter')} "
            f"({late}), {counted(found.payments.total(), 'payment')}, {counted(len(found.revenue), 'closed window')}, "
            f"{counted(found.alerts.total(), 'alert')}: all as plain Python computes it",
        )


class FlowLine:
    """One line about a run: how many of its flows are done, and the figures of the one that moved last."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._statuses: dict[str, str] = {}

    def after(self, progress: FlowProgress) -> str:
        self._statuses[progress.flow] = progress.status
        done = sum(status in DONE for status in self._statuses.values())
        rate = f", {progress.rows_per_second:,.0f} rows/s" if progress.rows_per_second else ""
        lag = f", {progress.lag} behind" if progress.lag is not None else ""
        words = f"{progress.flow}: {progress.status.lower()}, {counted(progress.rows, 'row')}{rate}{lag}"
        return f"{self.title}  {done} of {counted(len(self._statuses), 'flow')} done  {words}"


def shown(path: Path) -> str:
    """As a person at this place would write it."""
    return os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path)


def reasons(outcome: Outcome) -> dict[str, int]:
    """How many were set aside, by reason."""
    counts: dict[str, int] = {}
    for (_, reason), count in outcome.set_aside.items():
        counts[reason] = counts.get(reason, 0) + count
    return counts


def window_rows(result: Result) -> list[tuple[object, ...]]:
    """The last windows; those that may still change have no revenue yet."""
    alarmed = {alert["subject"] for alert in result.alerts}
    rows: list[tuple[object, ...]] = []
    for at, steps in sorted(result.funnel.items())[-WINDOWS_SHOWN:]:
        start = datetime.fromtimestamp(at / 1000, UTC)
        money = result.revenue.get(at)
        failed, euros = (money.failed, f"{money.revenue_cents / 100:.2f}") if money else ("-", "-")
        mark = "alert" if start.strftime("%Y-%m-%dT%H:%M") in alarmed else "" if money else "open"
        rows.append((start.strftime("%m-%d %H:%M"), *steps, failed, euros, mark))
    return rows


def document(result: Result, found: Outcome, differing: list[str], runs: list[RunResult]) -> dict[str, Any]:
    """For --json."""
    return {
        "ok": not differing,
        "differences": differing,
        "events": dict(found.topic_records),
        "set_aside": {f"{topic} {reason}": count for (topic, reason), count in sorted(found.set_aside.items())},
        "lake_rows": dict(found.sound_records),
        "payments": found.payments.total(),
        "revenue": [{"window_ms": at, **row._asdict()} for at, row in sorted(found.revenue.items())],
        "funnel": [{"window_ms": at, **row._asdict()} for at, row in sorted(found.funnel.items())],
        "alerts": result.alerts,
        "runs": [
            {"seconds": run.seconds, "rows": {name: flow.rows for name, flow in run.flows.items()}} for run in runs
        ],
    }
