"""`runnel pipeline` as users run it: a process of its own, watched, stopped, and refused with reasons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.conditions import wait_until
from harness.process import BrokerProcess, free_port
from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.notes import RunNotes
from runnel.spark.pipelines.project import load_project
from runnel.spark.pipelines.starter import make_project

DEADLINE_S = 300.0
# No topic: this is about the process, and a flow without Python workers starts fast.
FLOW = "CREATE MATERIALIZED VIEW numbers AS SELECT id FROM range(5);"
# What `run` does around Spark.
RUNS = """
import sys
from runnel.cli.pipeline_stop import StopRequest
from runnel.spark.pipelines.notes import RunNotes
from runnel.spark.pipelines.project import load_project

stop = StopRequest()
with RunNotes(load_project(sys.argv[1])) as notes, stop.listening():
    notes.begin_run()
    print("runs", flush=True)
    stop.wait(300)
    notes.end_run("stopped", None)
"""
BLOCKED = "import sys; sys.modules['pyspark'] = None\nfrom runnel.cli.main import cli\ncli.main(sys.argv[1:])"


def runnel(*arguments: str, start: tuple[str, ...] = ("-m", "runnel")) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *start, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.fixture
def running(write_project: Callable[[Mapping[str, str]], Path]) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A pipeline that runs again and again."""
    folder = write_project({"numbers.sql": FLOW})
    command = [sys.executable, "-m", "runnel", "pipeline", "run", str(folder), "--every", "1s", "--json"]
    command += ["--master", "local[2]", "--conf", "spark.driver.memory=1g"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield folder, process
        finally:
            process.kill()


def run_ended(process: subprocess.Popen[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Reads what the process prints until a run has ended; answers its line, and those of flows before it."""
    assert process.stdout is not None
    flows = []
    for text in process.stdout:
        line = json.loads(text)
        if line["type"] == "flow":
            flows.append(line)
        elif line["status"] != "running":
            return line, flows
    raise AssertionError(process.stderr.read() if process.stderr else "no output")


@pytest.mark.slow
def test_a_process_is_watched_and_stopped(running: tuple[Path, subprocess.Popen[str]]) -> None:
    folder, process = running
    ended, flows = run_ended(process)
    assert (ended["run"], ended["status"]) == (1, "completed"), ended
    assert (flows[-1]["flow"], flows[-1]["status"]) == ("numbers", "COMPLETED")
    assert run_ended(process)[0]["run"] == 2, "again and again"
    assert process.stdout is not None
    rest = threading.Thread(target=process.stdout.read)  # else it stops where the pipe is full
    rest.start()

    state = json.loads(runnel("pipeline", "status", str(folder), "--json").stdout)
    assert (state["alive"], state["pid"], state["last_status"]) == (True, process.pid, "completed")
    assert state["run"] >= 2
    assert state["flows"].keys() == {"numbers"}
    (listed,) = json.loads(runnel("pipeline", "list", str(folder.parent), "--json").stdout)
    assert (listed["pipeline"], listed["pid"]) == ("project", process.pid)
    second = runnel("pipeline", "run", str(folder))
    assert (second.returncode, "runs this pipeline" in second.stderr) == (1, True), second.stderr
    looked = runnel("pipeline", "validate", str(folder), "--conf", "spark.driver.memory=1g")
    assert (looked.returncode, looked.stdout) == (0, "no problems: it can run\n"), looked.stderr
    metrics = (folder / "storage" / "_runnel" / "metrics.prom").read_text()
    assert 'runnel_pipeline_last_run_success{pipeline="project"} 1' in metrics

    stopped = runnel("pipeline", "stop", str(folder), "--timeout", str(DEADLINE_S))
    assert stopped.returncode == 0, stopped.stderr
    process.wait(DEADLINE_S)
    rest.join()
    assert process.returncode in (0, 128 + signal.SIGTERM)
    shown = runnel("pipeline", "status", str(folder)).stdout
    assert shown.startswith("project: stopped (run "), shown
    assert runnel("pipeline", "stop", str(folder)).returncode == 1, "nothing to stop"


def test_stop_waits_for_the_end_of_a_run(write_project: Callable[[Mapping[str, str]], Path]) -> None:
    folder = str(write_project({"numbers.sql": FLOW}))
    with subprocess.Popen([sys.executable, "-c", RUNS, folder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        stopped = runnel("pipeline", "stop", folder)
        assert process.wait(DEADLINE_S) == 0
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stderr == f"project: asked pid {process.pid} to stop\n"
    assert stopped.stdout.startswith("project: stopped (run 1, ended "), stopped.stdout
    again = runnel("pipeline", "stop", folder)
    assert (again.returncode, again.stderr.startswith("project does not run: stopped (run 1")) == (1, True), again


@pytest.mark.slow
def test_without_its_jvm_a_run_ends_and_says_so(running: tuple[Path, subprocess.Popen[str]]) -> None:
    folder, process = running
    run_ended(process)
    children = Path("/proc", str(process.pid), "task", str(process.pid), "children").read_text().split()
    (jvm,) = [pid for pid in map(int, children) if "java" in Path("/proc", str(pid), "comm").read_text()]
    os.kill(jvm, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    state = json.loads(runnel("pipeline", "status", str(folder), "--json").stdout)
    assert state["status"] == "failed", state


@pytest.mark.slow
def test_a_setting_that_makes_no_sense_ends_the_process(write_project: Callable[[Mapping[str, str]], Path]) -> None:
    """A session that was never opened would keep Python from ending for a quarter of an hour."""
    folder = write_project({"numbers.sql": FLOW})
    settings = ["--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=many"]
    refused = runnel("pipeline", "run", str(folder), "--master", "local[2]", *settings)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: Spark opens no session: "), refused.stderr
    assert "shuffle.partitions" in refused.stderr
    assert "many" in refused.stderr


def test_a_project_is_made_and_a_fresh_broker_is_told_of(tmp_path: Path) -> None:
    made = runnel("pipeline", "init", str(tmp_path / "shop"), "-b", f"127.0.0.1:{free_port()}")
    assert made.returncode == 0, made.stderr
    assert made.stderr.count("start one with `runnel serve`") == 1, made.stderr
    assert "runnel topic create orders" in made.stderr
    again = runnel("pipeline", "init", str(tmp_path / "shop"))
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    status = runnel("pipeline", "status", str(tmp_path / "shop"))
    assert status.stdout == "shop: never run\n"


def test_status_tells_what_is_of_an_older_run(write_project: Callable[[Mapping[str, str]], Path]) -> None:
    folder = write_project({"numbers.sql": FLOW})
    project = load_project(folder)
    with RunNotes(project) as notes:
        notes.begin_run()
        notes.note(FlowProgress("numbers", "COMPLETED", rows=5, batches=1))
        notes.end_run("completed", None)
        notes.begin_run()
        notes.note(FlowProgress("letters", "FAILED", error="no such table"))
        notes.end_run("failed", "no such table")
    shown = runnel("pipeline", "status", str(folder)).stdout
    assert shown.startswith("project: failed (run 2, ended "), shown
    assert [line.split()[:5] for line in shown.splitlines()[3:5]] == [
        ["numbers", "completed", "(in", "run", "1)"],
        ["letters", "failed"],
    ]
    with pytest.raises(KeyError), RunNotes(project):
        raise KeyError("no Java")
    shown = runnel("pipeline", "status", str(folder)).stdout
    assert shown.startswith("project: failed before run 3 began\n  'no Java'\n"), shown


def test_status_tells_why_a_flow_fails_while_the_run_goes_on(
    write_project: Callable[[Mapping[str, str]], Path],
) -> None:
    folder = write_project({"numbers.sql": FLOW})
    with RunNotes(load_project(folder)) as notes:
        notes.begin_run()
        notes.note(FlowProgress("numbers", "FAILED", error="no broker\n== SQL =="))
        assert "\nnumbers: no broker\nmetrics: " in runnel("pipeline", "status", str(folder)).stdout


def test_while_a_run_is_alive_its_catalog_is_left_alone(write_project: Callable[[Mapping[str, str]], Path]) -> None:
    folder = write_project({"numbers.sql": FLOW})
    code = "import sys; from runnel.spark.pipelines import PipelineSession; PipelineSession(sys.argv[1])"
    with RunNotes(load_project(folder)):
        refused = runnel(str(folder), start=("-c", code))
    assert refused.returncode == 1
    said = refused.stderr.splitlines()[-1]
    assert f"pid {os.getpid()} runs this pipeline" in said
    assert "`runnel pipeline stop`, or read the files of its tables under" in said


@pytest.mark.slow
def test_a_new_project_runs_at_once(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    address, folder = start_broker().address, str(tmp_path / "shop")
    made = runnel("pipeline", "init", folder, "-b", address)
    assert (made.returncode, made.stdout.splitlines()[-1]) == (0, "created topic orders"), made.stderr
    done = runnel("pipeline", "run", folder, "--conf", "spark.driver.memory=1g")
    assert done.returncode == 0, done.stderr
    other = runnel("pipeline", "init", str(tmp_path / "other"), "-b", address)
    assert other.stdout.splitlines()[-1] == "topic orders is there"


def test_problems_are_listed_and_end_with_1(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: x\nstorage: here\nlibrary: []\n")
    plain = runnel("pipeline", "validate", str(tmp_path))
    assert (plain.returncode, plain.stdout.splitlines()[-1]) == (1, "3 problems")
    document = json.loads(runnel("pipeline", "validate", str(tmp_path), "--json").stdout)
    assert not document["valid"]
    assert document["problems"][1] == {
        "message": "unknown field 'library': did you mean 'libraries'?",
        "file": "spark-pipeline.yml",
        "line": 3,
        "flow": None,
    }
    run = runnel("pipeline", "run", str(tmp_path))
    assert (run.returncode, "did you mean 'libraries'?" in run.stderr) == (1, True)


def test_a_list_says_what_is_broken(tmp_path: Path) -> None:
    make_project(tmp_path / "good", "localhost:9092")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "spark-pipeline.yml").write_text("name: x\nstorage: here\n")
    listed = runnel("pipeline", "list", str(tmp_path))
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [["bad", "broken"], ["good", "never"]]
    assert listed.stderr.startswith("bad: spark-pipeline.yml:2: storage 'here' must be an absolute URI"), listed.stderr
    command = [sys.executable, "-m", "runnel", "pipeline", "list", "--json"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [row["project"] for row in json.loads(output)] == [str(tmp_path / name) for name in ("bad", "good")]


def test_a_list_says_of_what_cannot_be_read_that_it_is_broken(tmp_path: Path) -> None:
    make_project(tmp_path / "good", "localhost:9092")
    make_project(tmp_path / "locked", "localhost:9092")
    (load_project(tmp_path / "locked").notes / "state.json").mkdir(parents=True)
    listed = runnel("pipeline", "list", str(tmp_path))
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [["good", "never"], ["locked", "broken"]]
    assert "state.json" in listed.stderr


def test_json_is_printed_also_where_spark_does_not_start(tmp_path: Path) -> None:
    make_project(tmp_path / "shop", "localhost:9092")
    done = runnel("pipeline", "validate", str(tmp_path / "shop"), "--json", "--conf", "spark.driver.memory=none")
    document = json.loads(done.stdout)
    assert (done.returncode, document["valid"]) == (1, False), done.stderr
    message = document["problems"][0]["message"]
    assert "Spark does not start" in message
    log = Path(message.rpartition("(all of it: ")[2].removesuffix(")"))
    assert log.read_text()
    log.unlink()
    assert not load_project(tmp_path / "shop").notes.exists(), "a look makes nothing"


def test_json_is_printed_also_where_there_is_no_project(tmp_path: Path) -> None:
    """In the shape that the verb has otherwise."""
    nowhere = str(tmp_path / "nowhere")
    done = {verb: runnel("pipeline", verb, nowhere, "--json") for verb in ("validate", "run", "status")}
    assert [(each.returncode, each.stderr) for each in done.values()] == [(1, "")] * 3
    validated, run, status = (json.loads(each.stdout) for each in done.values())
    (problem,) = validated["problems"]
    assert "there is no such folder" in problem["message"]
    assert run == {
        "type": "run",
        "run": None,
        "status": "failed",
        "seconds": 0.0,
        "problems": [problem],
        "failures": [],
    }
    assert status == {"pipeline": None, "status": "broken", "alive": False, "error": problem["message"]}


def test_json_of_a_run_names_each_problem(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: x\nstorage: here\nlibrary: []\n")
    validated, run = (
        json.loads(runnel("pipeline", verb, str(tmp_path), "--json").stdout) for verb in ("validate", "run")
    )
    assert len(run["problems"]) == 3
    assert run["problems"] == validated["problems"]


def test_a_look_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    make_project(tmp_path / "shop", "localhost:9092")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "runnel", "pipeline", "validate", str(tmp_path / "shop"), "--no-brokers"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: list(scratch.glob("runnel-catalog-*")), "the copy of the catalog", DEADLINE_S)
            process.terminate()
            _, said = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert (process.returncode, list(scratch.glob("runnel-catalog-*"))) == (128 + signal.SIGTERM, []), said


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    make_project(tmp_path / "shop", "localhost:9092")
    for verb in ("validate", "run"):
        refused = runnel("pipeline", verb, str(tmp_path / "shop"), start=("-c", BLOCKED))
        assert refused.returncode == 1
        assert "pip install 'runnel[pipelines]'" in refused.stderr, refused.stderr
    for verb in ("status", "list"):
        shown = runnel("pipeline", verb, str(tmp_path / "shop"), start=("-c", BLOCKED))
        assert (shown.returncode, "never run" in shown.stdout) == (0, True), shown.stderr


def test_the_help_loads_no_spark(tmp_path: Path) -> None:
    code = (
        "import sys; from runnel.cli.main import cli\n"
        "try: cli.main(sys.argv[1:])\nexcept SystemExit as end: code = end.code\n"
        "sys.exit(code or ('pyspark' in sys.modules))"
    )
    for arguments in (("pipeline", "--help"), ("pipeline", "run", "--help"), ("pipeline", "init", str(tmp_path / "a"))):
        assert runnel(*arguments, start=("-c", code)).returncode == 0


def test_wrong_words_are_usage_errors() -> None:
    refused = runnel("pipeline", "run", "--full-refresh-all", "--refresh", "orders")
    assert (refused.returncode, "omit --full-refresh" in refused.stderr) == (2, True)
