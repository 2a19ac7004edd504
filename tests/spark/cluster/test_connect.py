"""A Spark Connect server that knows nothing of us but its Python: a session, a pipeline and the example run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.process import free_port
from harness.topics import create_topic, read_all
from runnel.spark.lake.options import parse_lake_options
from spark.cluster.jvm import kill_all, start_jvm
from spark.faults.loop import StartBroker
from spark.lake.place import rows_of
from spark.records import Sent, numbered, produce

pytestmark = pytest.mark.slow
BATCH = Path(__file__).with_name("batch_program.py")
JOB_S = 600
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
ORDERS = [b'{"id": 1, "customer": "Ada", "total": 120.5}', b'{"id": 2, "customer": "Bob", "total": 3}', b"junk"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server for each test: what runs on one shares its tables."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    options = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    process = start_jvm(
        tmp_path,
        "server",
        "spark-submit",
        *("--master", "local[2]", *options, "--class", SERVER, "spark-internal"),
        ready="Spark Connect server started at",
        memory="1g",
    )
    yield f"sc://127.0.0.1:{port}"
    kill_all([process])


def run(*command: str) -> str:
    """What it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "JAVA_"))}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=JOB_S, check=False, env=environ
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_a_batch_program_runs_unchanged(server: str, start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    for name in ("events", "copy"):
        create_topic(broker.address, name, 2)
    produce(broker.address, "events", [*numbered(500), *numbered(500, 1)])
    table = str(tmp_path / "table")
    answer = json.loads(run(str(BATCH), server, broker.address, "events", "copy", table).splitlines()[-1])
    assert (answer["total"], answer["offsets"]) == (1000, 2 * sum(range(500)))
    copied = [value for part in range(2) for value in read_all(broker.address, "copy", part, keep=lambda m: m.value())]
    assert sorted(map(int, copied)) == sorted([*range(500), *range(500)])
    assert len(rows_of(parse_lake_options({"path": table}).destination, ("partition", "offset"))) == 1000


def test_a_new_project_runs_there(server: str, start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    create_topic(broker.address, "orders")
    project = str(tmp_path / "shop")
    run("-m", "runnel", "pipeline", "init", project, "-b", broker.address)
    produce(broker.address, "orders", [Sent(value) for value in ORDERS])
    assert json.loads(run("-m", "runnel", "pipeline", "validate", project, "--master", server, "--json"))["valid"]
    for name in ("--master", "--remote"):
        lines = [
            json.loads(line)
            for line in run("-m", "runnel", "pipeline", "run", project, name, server, "--json").splitlines()
        ]
        assert (lines[-1]["type"], lines[-1]["status"]) == ("run", "completed")
    large = [json.loads(value) for value in read_all(broker.address, "orders-large", keep=lambda m: m.value())]
    assert large == [{"id": 1, "customer": "Ada", "total": 120.5}], "told once: the second run had nothing to do"


def test_the_shop_is_right_there(server: str, tmp_path: Path) -> None:
    place = ("--folder", str(tmp_path / "shop"), "--port", "0", "--events", "2000")
    for again in ((), ("--fresh",)):  # the second finds the first one's tables in the server's catalog
        document = json.loads(run("-m", "runnel", "demo", "--once", "--json", *place, *again, "--master", server))
        assert document["ok"], document["differences"]
