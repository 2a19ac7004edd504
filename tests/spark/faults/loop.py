"""The loop that all faults share: producers go on, a batch comes to some stage, something is killed, all is judged."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from crash.load import Ledger, LoadProducer
from harness.process import BrokerProcess, free_port
from harness.topics import create_topic
from spark.faults.driver import STAGES, Driver
from spark.faults.driver_program import TOPIC_SINK, Plan
from spark.faults.judge import Outcome, judge

StartBroker = Callable[..., BrokerProcess]
Kill = Callable[[BrokerProcess, Driver, random.Random], None]
SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
KILLS = int(os.environ.get("RUNNEL_TEST_KILLS", "3"))
TOPIC, TARGET = "faults", "faults-target"
PARTITIONS, TARGET_PARTITIONS = 2, 3
ROUND_RECORDS = 250
PER_TRIGGER = 200
ALL_SINKS = ("delta", "iceberg", "parquet", TOPIC_SINK)


@dataclass(frozen=True)
class Faults:
    """What is killed how often, and where it runs. The driver is always killed once more, in the end."""

    kind: str
    kill: Kill
    kills: int
    sinks: tuple[str, ...] = ALL_SINKS
    master: str = "local[2,4]"


def run(faults: Faults, start_broker: StartBroker, folder: Path) -> Outcome:
    chance = random.Random(SEED)
    broker = start_broker(port=free_port())
    create_topic(broker.address, TOPIC, PARTITIONS)
    create_topic(broker.address, TARGET, TARGET_PARTITIONS)
    ledgers = [Ledger(TOPIC, partition, f"p{partition}", idempotent=True) for partition in range(PARTITIONS)]
    producers = [LoadProducer(broker.address, ledger, acks="all") for ledger in ledgers]
    plan = Plan(broker.address, TOPIC, TARGET, str(folder), faults.sinks, PER_TRIGGER, faults.master)
    driver = Driver(plan, folder)
    for producer in producers:
        producer.start()
    try:
        driver.start()
        for _ in range(faults.kills):
            _await_some_stage(producers, driver, chance)
            faults.kill(broker, driver, chance)
        _await_some_stage(producers, driver, chance)
        driver.kill()
        for producer in producers:
            producer.finish()
        driver.finish()
    finally:
        driver.stop()
    outcome = Outcome(faults.kind, faults.kills, restarts=driver.restarts())
    return judge(plan, ledgers, outcome, TARGET_PARTITIONS)


def _await_some_stage(producers: list[LoadProducer], driver: Driver, chance: random.Random) -> None:
    for producer in producers:
        producer.allow(ROUND_RECORDS)
    driver.wait_for(chance.choice(driver.plan.sinks), chance.choice(STAGES))


def check(faults: Faults, start_broker: StartBroker, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    outcome = run(faults, start_broker, folder)
    with capsys.disabled():
        print(outcome.table())
    assert outcome.wrong == [], outcome.restarts
