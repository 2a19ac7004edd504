"""How a run is shown while it runs: a table that changes on a terminal, lines elsewhere, JSON lines for programs.

In: figures of flows, as they come from Spark's thread. Out: text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import click

from runnel.cli.output import counted, human_bytes, json_line

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from runnel.spark.pipelines import FlowProgress, RunResult

COLUMNS = ("flow", "status", "rows", "rows/s", "batch", "lag", "state")
REASON_CHARACTERS_MAX = 200


class View(Protocol):
    def begin(self, run: int) -> None: ...
    def show(self, progress: FlowProgress) -> None: ...
    def end(self, run: int, result: RunResult) -> None: ...
    def close(self) -> None: ...


def choose_view(as_json: bool) -> View:
    if as_json:
        return JsonView()
    return LiveView() if sys.stdout.isatty() else LineView()


class JsonView:
    """One object per line: `type` is flow or run."""

    def begin(self, run: int) -> None:
        click.echo(json_line({"type": "run", "run": run, "status": "running"}))

    def show(self, progress: FlowProgress) -> None:
        click.echo(json_line({"type": "flow", **progress.as_dict()}))

    def end(self, run: int, result: RunResult) -> None:
        click.echo(json_line({"type": "run", "run": run, **result.as_dict()}))

    def close(self) -> None:
        """There is nothing to take back."""


def show_refusal(error: click.ClickException) -> None:
    """For programs: a run that did not begin ends as others do, but has no number."""
    refused = {"type": "run", "run": None, "status": "failed", "seconds": 0.0}
    click.echo(json_line({**refused, "problems": problem_documents(error), "failures": []}))


class LineView:
    """A line per micro-batch, per flow that ends, and per failed one that Spark tries again."""

    def __init__(self) -> None:
        self._batches: dict[str, int] = {}

    def begin(self, run: int) -> None:
        self._batches.clear()
        click.echo(f"run {run} begins")

    def show(self, progress: FlowProgress) -> None:
        if progress.status == "STARTING" and progress.error:
            click.echo(f"  {progress.flow}: trying again")
        elif progress.status in ("COMPLETED", "FAILED") or progress.batches > self._batches.get(progress.flow, 0):
            click.echo(f"  {progress.flow}: {_line(progress)}")
        self._batches[progress.flow] = progress.batches

    def end(self, run: int, result: RunResult) -> None:
        show_result(run, result)

    def close(self) -> None:
        """There is nothing to take back."""


class LiveView:
    """A table in place, redrawn by every figure."""

    def __init__(self) -> None:
        from rich.live import Live

        self._rows: dict[str, Mapping[str, Any]] = {}
        self._live: Live | None = None

    def begin(self, run: int) -> None:
        from rich.live import Live

        self._rows.clear()
        self._live = Live(self._picture(), auto_refresh=False)
        self._live.start()

    def show(self, progress: FlowProgress) -> None:
        self._rows[progress.flow] = progress.as_dict()
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def end(self, run: int, result: RunResult) -> None:
        self.close()
        show_result(run, result)

    def close(self) -> None:
        """The terminal is as it was, with its cursor, however the run ends."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        reasons = [Text(line, no_wrap=True, overflow="ellipsis") for line in reason_lines(self._rows.values())]
        return Group(self._table(), *reasons)

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in COLUMNS[:2] else "right")
        for row in self._rows.values():
            table.add_row(*(Text(cell) for cell in cells(row)))
        return table


def cells(flow: Mapping[str, Any]) -> list[str]:
    """A flow's figures as words, in the order of COLUMNS; empty where there are none."""
    rate, batch_ms, lag = flow["rows_per_second"], flow["batch_ms"], flow["lag"]
    state = ""
    if flow["state_rows"] is not None:
        state = f"{counted(flow['state_rows'], 'row')}, {human_bytes(flow['state_bytes'] or 0)}"
    return [
        flow["flow"],
        flow["status"].lower(),
        f"{flow['rows']}" if flow["batches"] else "",
        "" if rate is None else f"{rate:,.0f}",
        "" if batch_ms is None else f"{batch_ms} ms",
        "" if lag is None else f"{lag}",
        state,
    ]


def _line(progress: FlowProgress) -> str:
    named = zip(COLUMNS[2:], cells(progress.as_dict())[2:], strict=True)
    words = ", ".join([progress.status.lower(), *(f"{name} {cell}" for name, cell in named if cell)])
    return f"{words}: {shortened_line(progress.error)}" if progress.status == "FAILED" and progress.error else words


def reason_lines(flows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Why those failed that have, or that are tried again."""
    for flow in flows:
        if flow["error"]:
            yield f"{flow['flow']}: {shortened_line(flow['error'])}"


def shortened_line(reason: str) -> str:
    """The run's end has all of it."""
    line = reason.partition("\n")[0].rstrip()
    return line if len(line) <= REASON_CHARACTERS_MAX else f"{line[:REASON_CHARACTERS_MAX]}..."


def problem_documents(error: click.ClickException) -> list[dict[str, Any]]:
    """What kept a verb from its work, as the problems that `validate` finds."""
    problems = getattr(error.__cause__, "problems", ())  # ProjectError has them one by one
    return [asdict(problem) for problem in problems] or [
        {"message": error.message, "file": None, "line": None, "flow": None}
    ]


def show_result(run: int, result: RunResult) -> None:
    for line in result_lines(result):
        click.echo(line)
    click.echo(f"run {run} {result.status} in {result.seconds:.1f} s")


def result_lines(result: RunResult) -> Sequence[str]:
    return [f"- {trouble}" for trouble in [*result.problems, *result.failures]]
