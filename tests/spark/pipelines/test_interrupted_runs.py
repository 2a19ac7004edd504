"""Runs that are cut short or killed and taken up again, Spark's own command, and a cluster: each record once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.conditions import wait_until
from harness.process import free_port
from spark.records import Sent, produce

pytestmark = pytest.mark.slow

DEADLINE_S = 600.0
RECORDS = 60
ARGUMENTS = ("--json", "--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=2")
# One record per micro-batch: there is always a next batch to be interrupted.
FLOW = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
@dp.table
def slowly():
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    reader = reader.option("subscribe", "{topic}").option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", "{batch}").load().select("offset")
"""
Write = Callable[[Mapping[str, str]], Path]


@contextmanager
def process(*command: str, stderr: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """What it says on stderr is pytest's to show, unless it is wanted: stdout may be JSON."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as started:
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


def run(folder: Path, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "runnel", "pipeline", "run", str(folder), *ARGUMENTS, *arguments)


def batches_pass(started: subprocess.Popen[str], count: int) -> None:
    assert started.stdout is not None
    for text in started.stdout:
        line: dict[str, Any] = json.loads(text)
        if line["type"] == "flow" and line["batches"] >= count:
            return
    raise AssertionError("it ended too soon")


def status(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "runnel", "pipeline", "status", str(folder), "--json"]
    document: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return document


def offsets(folder: Path, table: str = "slowly") -> list[int]:
    from runnel.spark.pipelines import PipelineSession

    with PipelineSession(folder, master="local[2]", conf={"spark.driver.memory": "1g"}) as session:
        return sorted(row.offset for row in session.spark.table(table).collect())


def test_stopped_killed_and_taken_up_again(write_project: Write, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(bootstrap, topic, [Sent(b"x") for _ in range(RECORDS)])
    folder = write_project({"flow.py": FLOW.format(bootstrap=bootstrap, topic=topic, batch=1)})
    with process(*run(folder)) as started:
        batches_pass(started, 2)
        stop = [sys.executable, "-m", "runnel", "pipeline", "stop", str(folder), "--timeout", str(DEADLINE_S)]
        assert subprocess.run(stop, check=False).returncode == 0
        started.communicate()
        assert started.returncode == 128 + signal.SIGTERM
    assert status(folder)["status"] == "stopped"
    with process(*run(folder)) as started:
        batches_pass(started, 2)
        started.kill()
        started.wait()
    state = status(folder)
    assert (state["status"], state["alive"], state["run"]) == ("killed", False, 2)
    flow = folder / "transformations" / "flow.py"
    flow.write_text(flow.read_text().replace('Trigger", "1"', 'Trigger", "1000"'))
    with process(*run(folder)) as started:
        output, _ = started.communicate(timeout=DEADLINE_S)
        assert started.returncode == 0, output
    assert offsets(folder) == list(range(RECORDS))


def test_sparks_own_command_runs_the_same_project(
    write_project: Write, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    import pyspark

    from runnel.spark.java import java_home
    from runnel.spark.pipelines.project import load_project

    topic = new_topic()
    produce(bootstrap, topic, [Sent(b"x") for _ in range(20)])
    folder = write_project({"flow.py": FLOW.format(bootstrap=bootstrap, topic=topic, batch=1000)})
    project = load_project(folder)
    project.notes.mkdir(parents=True)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run", "--spec", str(project.spec_path)]
    for name, value in project.settings().items():
        if name != "spark.driver.defaultJavaOptions":
            command += ["--conf", f"{name}={value}"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home())}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    produce(bootstrap, topic, [Sent(b"x") for _ in range(5)])
    with process(*run(folder, "--master", "local[2]")) as started:
        output, _ = started.communicate(timeout=DEADLINE_S)
        assert started.returncode == 0, output
    assert offsets(folder) == list(range(25)), "ours goes on where Spark's was"


def test_a_standalone_cluster(write_project: Write, bootstrap: str, new_topic: Callable[..., str]) -> None:
    import pyspark

    from runnel.spark.spark_session import prepare_environment

    topic = new_topic()
    produce(bootstrap, topic, [Sent(b"x") for _ in range(20)])
    folder = write_project({"flow.py": FLOW.format(bootstrap=bootstrap, topic=topic, batch=1000)})
    prepare_environment("local[2]", os.environ)
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port = free_port()
    deploy = "org.apache.spark.deploy"
    head = (spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    master = f"spark://127.0.0.1:{port}"
    worker = (spark_class, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g")
    with (
        process(*head, stderr=subprocess.STDOUT) as leader,
        process(*worker, "--webui-port", "0", "-d", str(folder / "work"), master) as follower,
    ):
        assert leader.stdout is not None
        assert wait_until(lambda: re.search("Registering worker", leader.stdout.readline()), "the worker", DEADLINE_S)
        arguments = (
            "--master",
            master,
            "--conf",
            "spark.executor.memory=512m",
            "--conf",
            "spark.driver.host=127.0.0.1",
        )
        with process(*run(folder, *arguments)) as started:
            output, _ = started.communicate(timeout=DEADLINE_S)
            assert started.returncode == 0, output
        follower.kill()
        leader.kill()
    assert offsets(folder) == list(range(20))
