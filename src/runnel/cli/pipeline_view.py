"""How a run is shown while it runs: a table that changes on a terminal, lines elsewhere, JSON lines for programs.

In: figures of flows, as they come from Spark's thread. Out: text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from runnel.cli.output import counted, human_bytes, json_line

if TYPE_CHECKING:
    from rich.table import Table

    from runnel.spark.pipelines import FlowProgress, RunResult

COLUMNS = ("flow", "status", "rows", "rows/s", "batch", "lag", "state")


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


class LineView:
    """A line per micro-batch and per flow that ends."""

    def begin(self, run: int) -> None:
        click.echo(f"run {run} begins")

    def show(self, progress: FlowProgress) -> None:
        figures = [
            f"{name} {cell}" for name, cell in zip(COLUMNS[2:], cells(progress.as_dict())[2:], strict=True) if cell
        ]
        if figures or progress.status in ("COMPLETED", "FAILED"):
            click.echo(f"  {progress.flow}: {', '.join([progress.status.lower(), *figures])}")

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
        self._live = Live(self._table(), auto_refresh=False)
        self._live.start()

    def show(self, progress: FlowProgress) -> None:
        self._rows[progress.flow] = progress.as_dict()
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def end(self, run: int, result: RunResult) -> None:
        self.close()
        show_result(run, result)

    def close(self) -> None:
        """The terminal is as it was, with its cursor, however the run ends."""
        if self._live is not None:
            self._live.stop()
            self._live = None

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


def show_result(run: int, result: RunResult) -> None:
    for line in result_lines(result):
        click.echo(line)
    click.echo(f"run {run} {result.status} in {result.seconds:.1f} s")


def result_lines(result: RunResult) -> Sequence[str]:
    return [f"- {trouble}" for trouble in [*result.problems, *result.failures]]
