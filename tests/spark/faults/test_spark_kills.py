"""SIGKILL Spark's driver, its Python workers or the broker in the middle of batches, while a producer goes on.

One topic streams into a table of each format and into another topic. In the end every record of the topic is in each
table exactly once, and in the other topic at least once. `make soak-spark KILLS=20` kills more often.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.process import BrokerProcess
from spark.faults.driver import Driver
from spark.faults.loop import KILLS, Faults, Kill, StartBroker, check


def kill_driver(broker: BrokerProcess, driver: Driver, chance: random.Random) -> None:
    driver.kill()
    driver.start()


def kill_worker(broker: BrokerProcess, driver: Driver, chance: random.Random) -> None:
    driver.kill_python_worker(chance)


def kill_broker(broker: BrokerProcess, driver: Driver, chance: random.Random) -> None:
    broker.kill()
    broker.start()


KINDS: dict[str, Kill] = {"driver": kill_driver, "worker": kill_worker, "broker": kill_broker}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_killed_many_times(
    start_broker: StartBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    check(Faults(kind, KINDS[kind], KILLS), start_broker, tmp_path, capsys)
