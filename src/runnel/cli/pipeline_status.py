"""`runnel pipeline status`, `stop` and `list`: what runs, how it fares, and how to end it. Without Spark."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runnel.cli.extras import plain_words
from runnel.cli.options import json_option
from runnel.cli.output import iso_time, note, print_json, print_table
from runnel.cli.pipeline import EXTRA, project_argument
from runnel.cli.pipeline_view import COLUMNS, cells, reason_lines

if TYPE_CHECKING:
    from runnel.spark.pipelines.spec_file import Place

EXIT_BROKEN = 1
EXIT_NOT_RUNNING = 1
EXIT_STILL_RUNNING = 1
POLL_S = 0.1
STOP_TIMEOUT_S = 60.0
DEPTH_MAX = 4
"""How far below a folder `list` looks for projects."""
NEVER, BROKEN = "never run", "broken"


@click.command()
@project_argument
@json_option
def status(project: str, as_json: bool) -> int:
    """What is running, or how the last run ended: figures of each flow, lag, and where metrics are."""
    try:
        with plain_words(EXTRA):
            loaded, state = _state(project)
    except click.ClickException as error:
        if not as_json:
            raise
        print_json({"pipeline": None, "status": BROKEN, "alive": False, "error": error.message})
        return EXIT_BROKEN
    if as_json:
        print_json(state or {"pipeline": loaded.name, "status": NEVER, "alive": False})
        return 0
    click.echo(f"{loaded.name}: {_summary(state)}")
    if state.get("error"):
        click.echo(f"  {state['error']}")
    if state.get("flows"):
        print_table(COLUMNS, [_cells(flow, state.get("run")) for flow in state["flows"].values()])
    if state.get("status") == "running":  # the error of a run that has ended is above
        for line in reason_lines(flow for flow in state["flows"].values() if flow.get("run") == state["run"]):
            click.echo(line)
    if state:
        click.echo(f"metrics: {loaded.notes / 'metrics.prom'}")
    return 0


@click.command(name="list")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@json_option
def list_pipelines(folder: str, as_json: bool) -> None:
    """The projects in FOLDER and below, with their state."""
    with plain_words(EXTRA):
        from runnel.spark.pipelines.spec_file import find_projects

        rows = [_row(path) for path in find_projects(Path(folder), DEPTH_MAX)]
    if as_json:
        print_json(rows)
    elif not rows:
        note(f"there is no spark-pipeline.yml in {folder}: `runnel pipeline init NAME` makes a project")
    else:
        print_table(
            ("pipeline", "status", "pid", "run", "lag", "folder"),
            [
                (row["pipeline"], row["status"], row["pid"], row["run"], row["lag"], os.path.relpath(row["project"]))
                for row in rows
            ],
        )
        for row in rows:
            if row["status"] == BROKEN:
                note(f"{row['pipeline']}: {row['error']}")


@click.command()
@project_argument
@click.option("--timeout", "timeout_s", default=STOP_TIMEOUT_S, show_default=True, help="How long to wait, in seconds.")
def stop(project: str, timeout_s: float) -> int:
    """End a run: SIGTERM, then wait. A run that is cut short is taken up by the next, where it was."""
    with plain_words(EXTRA):
        from runnel.spark.pipelines.notes import current_state, is_running

        loaded, state = _state(project)
        if not state.get("alive"):
            note(f"{loaded.name} does not run: {_summary(state)}")
            return EXIT_NOT_RUNNING
        pid = int(state["pid"])
        with contextlib.suppress(ProcessLookupError):  # it ended this moment
            os.kill(pid, signal.SIGTERM)
        note(f"{loaded.name}: asked pid {pid} to stop")
        deadline_s = time.monotonic() + timeout_s
        while is_running(loaded):
            if time.monotonic() > deadline_s:
                note(
                    f"pid {pid} still runs after {timeout_s:g} s; `kill -9 {pid}` loses nothing but the batch under way"
                )
                return EXIT_STILL_RUNNING
            time.sleep(POLL_S)
        click.echo(f"{loaded.name}: {_summary(current_state(loaded))}")
    return 0


def _state(project: str) -> tuple[Place, dict[str, Any]]:
    from runnel.spark.pipelines.notes import current_state
    from runnel.spark.pipelines.spec_file import find_place

    loaded = find_place(project)
    return loaded, current_state(loaded)


def _summary(state: dict[str, Any]) -> str:
    if not state:
        return NEVER
    number, status = state.get("run", 0), state["status"]
    if state["alive"]:
        words = f"{status} (pid {state['pid']}, since {iso_time(state['started_ms'])}, run {number})"
        ended = state.get("last_status")
        return f"{words}; the last run {ended}" if ended and status == "waiting" else words
    if status == "killed":
        return f"killed: pid {state['pid']} is gone {_killed_while(state['killed_while'], number)}"
    begun_ms, ended_ms = state.get("run_started_ms", 0), state.get("run_ended_ms", 0)
    if state["started_ms"] > begun_ms:
        return f"{status} before run {number + 1} began"
    return f"{status} (run {number}{f', ended {iso_time(ended_ms)}' if ended_ms >= begun_ms else ''})"


def _killed_while(status: str, number: int) -> str:
    if status == "running":
        return f"in the middle of run {number}; the next run goes on where it was"
    return f"between two runs, after run {number}" if status == "waiting" else f"before run {number + 1} began"


def _cells(flow: dict[str, Any], run: int | None) -> list[str]:
    """A flow that the last run has not come to is told to be of an older one."""
    name, fared, *figures = cells(flow)
    return [name, fared if flow.get("run", run) == run else f"{fared} (in run {flow['run']})", *figures]


def _row(path: Path) -> dict[str, Any]:
    from runnel.spark.pipelines.notes import current_state
    from runnel.spark.pipelines.spec_file import ProjectError, find_place

    folder = path.parent.resolve()
    empty = {"pipeline": folder.name, "pid": None, "run": None, "lag": None, "project": str(folder)}
    try:
        loaded = find_place(path)
        state = current_state(loaded)
    except (ProjectError, OSError) as error:  # the latter: what others do not let us read
        return {**empty, "status": BROKEN, "error": str(error)}
    if not state:
        return {**empty, "pipeline": loaded.name, "status": NEVER}
    lags = [flow["lag"] for flow in state["flows"].values() if flow["lag"] is not None]
    return {
        "pipeline": loaded.name,
        "status": state["status"],
        "pid": state["pid"] if state["alive"] else None,
        "run": state.get("run"),
        "lag": sum(lags) if lags else None,
        "project": str(loaded.folder),
    }
