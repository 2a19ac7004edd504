"""The driver program as a process: started, watched through its checkpoints and tables, killed whole or in part."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from harness.conditions import wait_until
from spark.faults.driver_program import TOPIC_SINK, Plan

PROGRAM = Path(__file__).with_name("driver_program.py")
START_S = 300
FINISH_S = 600
RESTARTS_SHOWN = 10
# What a batch leaves behind on its way, in this order; a kill falls right after one of them.
STAGES = ("planned", "written", "committed", "noted")
# What changes in a table when a task writes, and when the driver commits.
WRITTEN = {
    "delta": "event_date=*",
    "iceberg": "runnel/*/data/event_date=*",
    "parquet": "_runnel/staged/event_date=*",
}
COMMITTED = {"delta": "_delta_log", "iceberg": "catalog.db", "parquet": "_runnel/commits/*"}


class Driver:
    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.runs = 0
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    # Life -------------------------------------------------------------------------------------------------------

    def start(self, *, finish: bool = False) -> Driver:
        self.runs += 1
        command = [sys.executable, str(PROGRAM), replace(self.plan, finish=finish).to_json()]
        environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True, env=environ
            )
        wait_until(lambda: self._alive() and "ready" in self.said(), "the driver's queries", START_S)
        return self

    def kill(self) -> None:
        """The driver, its JVM and all Python below it, without a warning."""
        process = self._running()
        below = self._descendants()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for one in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(below, timeout=START_S)

    def finish(self) -> None:
        """A last run that ends by itself when all is through."""
        self.start(finish=True)
        if self._running().wait(FINISH_S) != 0:
            raise AssertionError(f"the last run failed:\n{self.complaints()}")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    # Parts ------------------------------------------------------------------------------------------------------

    def kill_python_worker(self, chance: random.Random) -> None:
        """One of the Python processes that Spark started: for tasks, for planning or for commits."""
        workers = wait_until(lambda: [one for one in self._descendants() if _runs_spark_python(one)], "a worker")
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice(workers).kill()

    def _descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._running().pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    # Watching ---------------------------------------------------------------------------------------------------

    def wait_for(self, sink: str, stage: str) -> None:
        """The moment in which a batch that is not there yet has come to this stage."""
        at = Progress(self.plan, sink)
        reached = at.reached(stage)
        wait_until(lambda: self._alive() and reached(), f"a batch of {sink} that is {stage}", START_S)

    def restarts(self) -> list[str]:
        """What the program said about queries that failed, in all runs."""
        texts = [path.read_text(errors="replace") for path in sorted(self._folder.glob("driver.*.out"))]
        return [line for text in texts for line in text.splitlines() if line.startswith("restarted")]

    def said(self) -> str:
        return self._file("out").read_text(errors="replace")

    def complaints(self) -> str:
        return self._file("err").read_text(errors="replace")[-6000:]

    def _alive(self) -> bool:
        code = self._running().poll()
        if code is not None and code != 0:
            told = "\n".join(self.restarts()[-RESTARTS_SHOWN:])
            raise AssertionError(f"the driver ended with {code}:\n{told}\n{self.complaints()}")
        return True

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the driver was never started")
        return self._process

    def _file(self, name: str) -> Path:
        return self._folder / f"driver.{self.runs}.{name}"


class Progress:
    """How far a sink's batches are, by the files that they leave."""

    def __init__(self, plan: Plan, sink: str) -> None:
        self._checkpoint = Path(plan.checkpoint(sink))
        self._table = Path(plan.path(sink))
        self._sink = sink

    def reached(self, stage: str) -> Callable[[], bool]:
        """Whether the stage has gone on since this call; a topic has no stages between planned and noted."""
        if self._sink == TOPIC_SINK and stage in ("written", "committed"):
            stage = "planned"
        seen = {
            "planned": lambda: _newest(self._checkpoint / "offsets"),
            "written": lambda: self._changed(WRITTEN[self._sink]),
            "committed": lambda: self._changed(COMMITTED[self._sink]),
            "noted": lambda: _newest(self._checkpoint / "commits"),
        }[stage]
        before = seen()
        return lambda: seen() > before

    def _changed(self, places: str) -> int:
        """When anything was last made or removed there."""
        times = [0]
        for path in self._table.glob(places):
            with contextlib.suppress(FileNotFoundError):
                times.append(path.stat().st_mtime_ns)
        return max(times)


def _newest(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def _runs_spark_python(process: psutil.Process) -> bool:
    try:
        return any("pyspark" in part for part in process.cmdline()) and "java" not in process.name()
    except psutil.Error:
        return False
