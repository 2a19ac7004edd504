"""The source, the sink and lake tables on a real standalone cluster: executors are processes of their own, and die."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.process import BrokerProcess
from harness.topics import create_topic, read_all
from runnel.spark.lake.options import parse_lake_options
from spark.cluster.standalone import StandaloneCluster
from spark.faults.driver import Driver
from spark.faults.loop import KILLS, Faults, StartBroker, check
from spark.lake.place import rows_of
from spark.records import numbered, produce

pytestmark = pytest.mark.slow
BATCH = Path(__file__).with_name("batch_program.py")
JOB_S = 600


def test_a_batch_job_runs_on_both_workers(
    standalone: StandaloneCluster, start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker()
    for name in ("events", "copy"):
        create_topic(broker.address, name, 2)
    produce(broker.address, "events", [*numbered(5000), *numbered(5000, 1)])
    table = str(tmp_path / "table")
    command = [sys.executable, str(BATCH), standalone.address, broker.address, "events", "copy", table]
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_S, check=False, env=environ)
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["total"], answer["offsets"]) == (10_000, 2 * sum(range(5000)))
    assert len(answer["executors"]) == 2, "both workers have an executor, and both took part"
    copied = [value for part in range(2) for value in read_all(broker.address, "copy", part, keep=lambda m: m.value())]
    assert sorted(map(int, copied)) == sorted([*range(5000), *range(5000)])
    rows = rows_of(parse_lake_options({"path": table}).destination, ("partition", "offset"))
    assert [(row["partition"], row["offset"]) for row in rows] == [(p, n) for p in range(2) for n in range(5000)]


def test_executors_killed_under_streams(
    standalone: StandaloneCluster, start_broker: StartBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(broker: BrokerProcess, driver: Driver, chance: random.Random) -> None:
        standalone.kill_executor(chance)

    check(Faults("executor", kill, KILLS, master=standalone.address), start_broker, tmp_path, capsys)
