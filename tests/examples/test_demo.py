"""`runnel demo` as its users start it, on a machine that has no Java: the one from PyPI must do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.conditions import wait_until
from harness.process import BrokerProcess, watched
from runnel.cli.demo import _once
from runnel.cli.demo_broker import serving
from runnel.cli.demo_lock import alone_in
from runnel.cli.demo_screen import Screen
from runnel.cli.pipeline_stop import StopRequest

DEADLINE_S = 900.0
PNG = b"\x89PNG\r\n\x1a\n"
EVENTS = "3000"


def environment(tmp_path: Path) -> dict[str, str]:
    """Without JAVA_HOME, and with a PATH on which there is no Java, but all else that programs need."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not program.name.startswith("java") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    left_out = ("RUNNEL_", "JAVA_", "SPARK_", "PYSPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    found = {**kept, "PATH": str(tools)}
    assert shutil.which("java", path=found["PATH"]) is None
    return found


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "runnel", "demo", *arguments]


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def processes_of(tmp_path: Path) -> list[str]:
    """Whatever still runs and has the folder in its command line: the broker, a JVM, Spark's Python workers."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if str(tmp_path) in " ".join([*(process.info["cmdline"] or []), process.info["cwd"] or ""]):
            found.append(" ".join(process.info["cmdline"] or []))
    return found


def test_the_demo_without_java_is_right_and_leaves_nothing_running(tmp_path: Path) -> None:
    arguments = ("--once", "--parts", "1", "--events", EVENTS, "--port", "0", "--folder", "out", "--json")
    done = run(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["ok"] is True
    assert document["differences"] == []
    assert sum(document["events"].values()) > 2000
    assert len(document["revenue"]) >= 15
    assert {alert["alert"] for alert in document["alerts"]} == {"amount-mismatch", "payments-failing"}
    assert any(key.endswith("late") for key in document["set_aside"])
    assert any(key.endswith("malformed") for key in document["set_aside"])
    assert (tmp_path / document["plot"]).read_bytes().startswith(PNG)
    assert wait_until(lambda: not processes_of(tmp_path), "the end of all its processes")
    # Hypothesis, which only test environments have, leaves its folder wherever it is imported.
    written = {path.name for path in tmp_path.iterdir()} - {".hypothesis"}
    assert written == {"out", "tools"}, "it writes into its folder only"


def test_a_demo_that_is_killed_takes_its_broker_and_spark_along(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        command("--events", EVENTS, "--port", "0", "--folder", "out"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def runs(program: str) -> bool:
        assert demo.poll() is None
        return any(program in line for line in processes_of(tmp_path))

    try:
        wait_until(lambda: runs("runnel serve"), "its broker")
        wait_until(lambda: runs("bin/java"), "its JVM", DEADLINE_S)
    finally:
        demo.kill()
        demo.wait()
    wait_until(lambda: not processes_of(tmp_path), "the end of all its processes")


@pytest.mark.slow
def test_a_demo_whose_broker_ends_says_so(tmp_path: Path) -> None:
    """Spark would wait for it, and try again, for many minutes."""
    log = tmp_path / "log"
    with log.open("w") as output:
        demo = subprocess.Popen(
            command("--port", "0"), cwd=tmp_path, env=environment(tmp_path), stdout=output, stderr=output
        )
    try:
        wait_until(lambda: "events flow" in log.read_text(), "the first run", DEADLINE_S)
        (broker,) = [child for child in psutil.Process(demo.pid).children() if "serve" in child.cmdline()]
        broker.kill()
        assert demo.wait(DEADLINE_S) == 1
    finally:
        demo.kill()
        demo.wait()
    assert "Error: the broker has ended; what it said last is in runnel-demo/broker.log" in log.read_text()


def test_a_broker_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    ended = threading.Event()
    with serving(tmp_path / "data", 0, tmp_path / "log", ended.set):
        pass
    assert not ended.is_set()
    with serving(tmp_path / "data", 0, tmp_path / "log", ended.set):
        (broker,) = [child for child in psutil.Process().children() if str(tmp_path) in " ".join(child.cmdline())]
        broker.kill()
        assert ended.wait(DEADLINE_S)


@pytest.mark.slow
def test_a_second_run_takes_it_up_and_sees_what_is_wrong(tmp_path: Path) -> None:
    arguments = ("--once", "--parts", "1", "--events", EVENTS, "--port", "0", "--folder", "out")
    first = run(tmp_path, *arguments)
    assert first.returncode == 0, first.stderr
    assert "all as plain Python computes it" in first.stderr
    second = run(tmp_path, *arguments)
    assert second.returncode == 0, second.stderr
    assert "WINDOW" in second.stdout

    with watched(BrokerProcess(tmp_path / "between", data_dir=tmp_path / "out" / "broker")) as broker:
        alert = '{"alert":"amount-mismatch","subject":"nobody"}'
        produce = [sys.executable, "-m", "runnel", "produce", "shop.alerts", "-b", broker.address, "-v", alert]
        subprocess.run(produce, check=True, timeout=DEADLINE_S)
        broker.terminate()
    third = run(tmp_path, *arguments)
    assert third.returncode == 1
    assert "differs: alerts, amount-mismatch nobody: expected nothing, found 1" in third.stderr


@pytest.mark.slow
def test_the_demo_goes_on_until_ctrl_c_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        log = tmp_path / "log"
        with log.open("w") as output:
            started = subprocess.Popen(
                command("--port", "0"), cwd=tmp_path, env=environment(tmp_path), stdout=output, stderr=output
            )
        try:
            wait_until(lambda log=log: "run 2" in log.read_text(), "a second run", DEADLINE_S)
            started.send_signal(signal.SIGINT)
            assert started.wait(120) == 0, log.read_text()
        finally:
            started.kill()
            started.wait()
        text = log.read_text()
        assert "look at it" in text
        assert "Traceback" not in text
        assert wait_until(lambda: not processes_of(tmp_path), "the end of all its processes")


def test_a_taken_port_is_told_with_the_cure(tmp_path: Path, bootstrap: str) -> None:
    done = run(tmp_path, "--once", "--port", bootstrap.rpartition(":")[2], "--folder", "out")
    assert done.returncode == 1
    assert "is taken" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_needs_an_end(tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.returncode == 2
    assert "--once" in done.stderr


def test_ctrl_c_while_spark_starts_ends_it_before_anything_is_sent() -> None:
    stop = StopRequest()
    stop.receive(signal.SIGINT, None)
    nothing_may_be_played: Any = None
    assert _once(Screen(quiet=True), nothing_may_be_played, stop, 2, as_json=True) == 128 + signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        stop.receive(signal.SIGINT, None)


def test_a_demo_that_runs_keeps_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "demo.json").write_text("{}")
    with alone_in(folder):
        refused = run(tmp_path, "--once", "--fresh", "--port", "0", "--folder", "out")
    assert refused.returncode == 1
    assert f"a demo runs in {folder}: end it with Ctrl-C, or name another --folder" in refused.stderr
    assert [path.name for path in folder.iterdir()] == ["demo.json"]
