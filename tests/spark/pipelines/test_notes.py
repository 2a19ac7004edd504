"""What a run leaves behind: state, lines, metrics; and what becomes of them when it is killed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runnel.spark.pipelines import notes as notes_module
from runnel.spark.pipelines import run_lines
from runnel.spark.pipelines.figures import FlowProgress
from runnel.spark.pipelines.notes import AlreadyRunning, RunNotes, current_state
from runnel.spark.pipelines.project import Project, load_project
from runnel.spark.pipelines.starter import make_project

FIGURES = FlowProgress(
    "orders", "RUNNING", 3, rows=20, batches=2, rows_per_second=12.5, batch_ms=1600, lag=7, state_rows=4, state_bytes=99
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    make_project(tmp_path / "shop", "localhost:9092")
    return load_project(tmp_path / "shop")


def metric_lines(project: Project) -> list[str]:
    return (project.notes / "metrics.prom").read_text().splitlines()


def test_nothing_has_run(project: Project) -> None:
    assert current_state(project) == {}


def test_a_run_is_noted(project: Project) -> None:
    with RunNotes(project) as notes:
        assert notes.begin_run() == 1
        notes.note(FIGURES)
        state = current_state(project)
        assert (state["status"], state["alive"], state["pid"]) == ("running", True, os.getpid())
        assert state["flows"]["orders"]["lag"] == 7
        assert 'runnel_pipeline_running{pipeline="shop"} 1' in metric_lines(project)
        notes.note(replace(FIGURES, status="COMPLETED", rows=30))
        notes.end_run("completed", None)
    state = current_state(project)
    assert (state["status"], state["alive"], state["run"]) == ("completed", False, 1)
    lines = (project.notes / "runs" / "000001.jsonl").read_text().splitlines()
    assert [json.loads(line)["rows"] for line in lines] == [20, 30]


def test_a_run_that_finds_nothing_keeps_the_figures_of_the_last_batch(project: Project) -> None:
    with RunNotes(project) as notes:
        notes.begin_run()
        notes.note(FIGURES)
        notes.begin_run()
        notes.note(FlowProgress("orders", "COMPLETED"))
        flow = current_state(project)["flows"]["orders"]
        assert (flow["status"], flow["rows"], flow["lag"], flow["batch_ms"]) == ("COMPLETED", 0, 7, 1600)
    assert 'runnel_pipeline_flow_rows_total{pipeline="shop",flow="orders"} 20' in metric_lines(project)


def test_the_last_runs_are_kept_and_of_a_long_one_the_last_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lines, "RUNS_KEPT", 3)
    monkeypatch.setattr(run_lines, "RUN_BYTES_MAX", 4000)
    folder = project.notes / "runs"
    with RunNotes(project) as notes:
        for _ in range(5):
            notes.begin_run()
            notes.note(FIGURES)
        assert sorted(path.name for path in folder.iterdir()) == [f"00000{number}.jsonl" for number in (3, 4, 5)]
        for rows in range(200):
            notes.note(replace(FIGURES, rows=rows))
            lines = (folder / "000005.jsonl").read_bytes().splitlines()
            assert json.loads(lines[-1])["rows"] == rows
            assert len(b"".join(lines)) <= 4000
    seen = [json.loads(line)["rows"] for line in lines]
    assert seen == list(range(200 - len(seen), 200)), "the last ones, each whole"
    assert len(seen) > 4
    (project.notes / "state.json").unlink()
    with RunNotes(project) as notes:
        assert notes.begin_run() == 6, "not into the file of another run"


def test_flows_that_are_no_more_are_forgotten_when_the_next_run_has_begun(project: Project) -> None:
    with RunNotes(project) as notes:
        notes.begin_run()
        notes.note(FIGURES)
        notes.note(replace(FIGURES, flow="renamed"))
        notes.end_run("completed", None)
        notes.begin_run()
        notes.note(FlowProgress("orders", "EXCLUDED"))
        notes.note(FlowProgress("new", "QUEUED"))
        assert current_state(project)["flows"].keys() == {"orders", "renamed", "new"}, "others may be told of yet"
        notes.note(FlowProgress("new", "STARTING"))
        flows = current_state(project)["flows"]
    assert [(name, flow["run"], flow["lag"]) for name, flow in flows.items()] == [("orders", 2, 7), ("new", 2, None)]
    assert "renamed" not in "".join(metric_lines(project))


def test_no_flow_seems_to_run_when_nothing_runs(project: Project) -> None:
    with RunNotes(project) as notes:
        notes.begin_run()
        notes.note(FIGURES)
        notes.note(replace(FIGURES, flow="done", status="COMPLETED"))
        notes.end_run("stopped", None)
        assert [flow["status"] for flow in current_state(project)["flows"].values()] == ["STOPPED", "COMPLETED"]


def test_metrics_are_what_prometheus_reads(project: Project) -> None:
    with RunNotes(project) as notes:
        notes.begin_run()
        notes.note(FIGURES)
        notes.end_run("completed", None)
        notes.begin_run()
        notes.note(replace(FIGURES, rows=5_000_000, flow='odd"name'))
        notes.note(replace(FIGURES, rows=5))
        notes.end_run("failed", "because")
    lines = metric_lines(project)
    flow = '{pipeline="shop",flow="orders"}'
    for line in (
        'runnel_pipeline_last_run_success{pipeline="shop"} 0',
        'runnel_pipeline_runs_total{pipeline="shop"} 2',
        f"runnel_pipeline_flow_rows_total{flow} 25",
        'runnel_pipeline_flow_rows_total{pipeline="shop",flow="odd\\"name"} 5000000',
        f"runnel_pipeline_flow_lag_offsets{flow} 7",
        f"runnel_pipeline_flow_batch_seconds{flow} 1.6",
        "# TYPE runnel_pipeline_flow_rows_total counter",
    ):
        assert line in lines


def test_two_processes_do_not_run_one_project(project: Project) -> None:
    with RunNotes(project), pytest.raises(AlreadyRunning, match=f"pid {os.getpid()} runs this pipeline"):
        RunNotes(project).__enter__()
    with RunNotes(project):
        pass


def test_who_only_looks_does_not_keep_a_run_from_beginning(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` and `stop` take the lock too, for a moment; here for as long as the first attempt lasts."""
    with RunNotes(project):
        pass
    looking = (project.notes / "lock").open()
    fcntl.flock(looking, fcntl.LOCK_SH)

    def flock_then_looked(lock: object, kind: int, flock: Callable[..., None] = fcntl.flock) -> None:
        try:
            flock(lock, kind)
        finally:
            looking.close()

    monkeypatch.setattr(fcntl, "flock", flock_then_looked)
    with RunNotes(project):
        pass


def test_a_run_that_was_killed_is_seen_as_such(project: Project) -> None:
    code = (
        "import sys; from runnel.spark.pipelines.notes import RunNotes\n"
        "from runnel.spark.pipelines.project import load_project\n"
        "from runnel.spark.pipelines.flow_progress import FlowProgress\n"
        "notes = RunNotes(load_project(sys.argv[1])).__enter__(); notes.begin_run()\n"
        "notes.note(FlowProgress('orders', 'RUNNING'))\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(project.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert current_state(project)["status"] == "running"
        process.send_signal(signal.SIGKILL)
        process.wait()
    state = current_state(project)
    assert (state["status"], state["alive"], state["pid"]) == ("killed", False, process.pid)
    assert (state["killed_while"], state["flows"]["orders"]["status"]) == ("running", "KILLED")


def test_a_run_that_begins_while_somebody_looks_is_alive(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[RunNotes] = []

    def state_of_a_run_that_begins(place: Project, real: Callable[..., Any] = notes_module.read_state) -> Any:
        if not begun:
            begun.append(RunNotes(project))
            begun[0].__enter__()
        return real(place)

    monkeypatch.setattr(notes_module, "read_state", state_of_a_run_that_begins)
    state = current_state(project)
    assert (state["status"], state["alive"]) == ("starting", True)
    begun[0].__exit__(None, None, None)


def test_an_error_on_the_way_is_noted(project: Project) -> None:
    with pytest.raises(KeyError), RunNotes(project):
        raise KeyError("no Java")
    assert (current_state(project)["status"], current_state(project)["error"]) == ("failed", "'no Java'")
