"""Every field that `runnel pipeline ... --json` prints is in docs/cli.md, whose names are stable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from java_tools import REPOSITORY
from runnel.cli.main import cli
from runnel.cli.pipeline_view import JsonView
from runnel.spark.pipelines import FlowFailure, FlowProgress, Problem, RunResult
from runnel.spark.pipelines.checkpoints import Span
from runnel.spark.pipelines.messages import STATUSES
from runnel.spark.pipelines.notes import RunNotes
from runnel.spark.pipelines.project import load_project


@pytest.fixture(scope="module")
def documented() -> set[str]:
    (section,) = re.findall(r"^## Pipelines\n(.*?)^## ", (REPOSITORY / "docs" / "cli.md").read_text(), re.M | re.S)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", section))))


@pytest.mark.parametrize("kind", [FlowProgress, FlowFailure, Problem, Span])
def test_those_of_flows_failures_and_problems(documented: set[str], kind: type) -> None:
    assert {each.name for each in fields(kind)} <= documented


def test_every_status(documented: set[str]) -> None:
    assert {*STATUSES, "KILLED"} <= documented


def test_those_of_a_run(documented: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonView()
    view.begin(1)
    view.end(1, RunResult())
    for line in capsys.readouterr().out.splitlines():
        assert json.loads(line).keys() <= documented


def test_those_of_status_list_and_validate(
    documented: set[str], write_project: Callable[[Mapping[str, str]], Path]
) -> None:
    folder = write_project({"one.sql": "CREATE MATERIALIZED VIEW one AS SELECT 1 AS x;"})
    with RunNotes(load_project(folder)) as notes:
        notes.begin_run()
        notes.note(FlowProgress("one", "COMPLETED"))
        notes.end_run("completed", None)
        notes.wait_until(1)
        waiting = printed("status", folder)
    state = json.loads((folder / "storage" / "_runnel" / "state.json").read_text())
    (folder / "storage" / "_runnel" / "state.json").write_text(json.dumps({**state, "status": "running"}))
    killed = printed("status", folder)
    assert {"next_run_ms", "killed_while"} <= {*waiting, *killed}
    (listed,) = printed("list", folder)
    (folder / "spark-pipeline.yml").write_text("name: one\n")
    (broken,) = printed("list", folder)
    assert "error" in broken
    for document in (waiting, waiting["flows"]["one"], killed, listed, broken, printed("validate", folder)):
        assert document.keys() <= documented


def printed(verb: str, folder: Path) -> Any:
    return json.loads(CliRunner().invoke(cli, ["pipeline", verb, str(folder), "--json"]).stdout)
