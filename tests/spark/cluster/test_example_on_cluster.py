"""The shipped example, unchanged, on a real standalone cluster; once in peace, and once with an executor that dies.

`runnel demo --once` compares every table, the alerts and the lake with the same results in plain Python by itself.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.conditions import wait_until
from spark.cluster.standalone import StandaloneCluster

pytestmark = pytest.mark.slow
EVENTS = "2000"
DEMO_S = 900


@pytest.mark.parametrize("dies", [False, True], ids=["in peace", "an executor dies"])
def test_the_shop(standalone: StandaloneCluster, tmp_path: Path, dies: bool) -> None:
    place = ["--folder", str(tmp_path / "shop"), "--port", "0", "--events", EVENTS, "--json"]
    command = [sys.executable, "-m", "runnel", "demo", "--once", *place, "--master", standalone.address]
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        demo = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environ)
    try:
        if dies:
            wait_until(lambda: demo.poll() is not None or in_the_middle(tmp_path), "a batch under way", DEMO_S)
            standalone.kill_executor(random.Random(1))
        code = demo.wait(DEMO_S)
    finally:
        demo.kill()
        demo.wait()
    said = (tmp_path / "out").read_text()
    assert code == 0, said[-2000:] + (tmp_path / "err").read_text()[-4000:]
    assert json.loads(said), "the demo shows its result"


def in_the_middle(folder: Path) -> bool:
    """Spark has planned a batch of some flow, and not noted any as done in that flow."""
    planned = {path.parents[1] for path in folder.rglob("offsets/0")}
    return any(not (checkpoint / "commits" / "0").exists() for checkpoint in planned)
