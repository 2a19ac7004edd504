"""SIGKILL under load, again and again: nothing acknowledged is lost, moved, doubled or reordered.

SIGKILL leaves the page cache, so what was written for acks=1 must survive as well. The quick run kills 5 times,
`make soak KILLS=50` more often.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from crash.load import Ledger, LoadProducer, Verdict, WatermarkWatch, judge
from harness.conditions import wait_until
from harness.process import BrokerProcess, free_port
from harness.topics import create_topic

StartBroker = Callable[..., BrokerProcess]
SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
KILLS_QUICK = 5
KILLS_SOAK = int(os.environ.get("RUNNEL_TEST_KILLS", "50"))
PARTITIONS = 3
# The smallest that Kafka allows; with 2 KB records a segment rolls every 500 of them.
TOPIC_CONFIGS = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}


@dataclass(slots=True)
class Figures:
    kills: int = 0
    recovery_seconds: list[float] = field(default_factory=list)

    def table(self, verdict: Verdict, watch: WatermarkWatch) -> str:
        ms = sorted(1000 * seconds for seconds in self.recovery_seconds)
        return (
            f"\nseed {SEED}: {self.kills} kills, {verdict.acked} acked, {len(verdict.lost)} lost, "
            f"{len(verdict.duplicates)} duplicates, {len(verdict.reordered)} reordered, {len(verdict.moved)} moved, "
            f"{watch.asked} watermarks asked, {len(watch.went_back)} went back; start to ready: "
            f"median {statistics.median(ms):.0f} ms, max {ms[-1]:.0f} ms"
        )


def start_load(broker: BrokerProcess) -> tuple[list[LoadProducer], WatermarkWatch]:
    """Two idempotent producers with acks=all and one plain with acks=1, each on every partition of its topic."""
    producers = []
    for topic, acks, idempotent, count in (("all", "all", True, 2), ("one", "1", False, 1)):
        create_topic(broker.address, topic, PARTITIONS, TOPIC_CONFIGS)
        for number in range(count):
            for partition in range(PARTITIONS):
                ledger = Ledger(topic, partition, f"{topic}{number}p{partition}", idempotent)
                producers.append(LoadProducer(broker.address, ledger, acks=acks))
    watch = WatermarkWatch(broker.address, [(topic, index) for topic in ("all", "one") for index in range(PARTITIONS)])
    for producer in producers:
        producer.start()
    watch.start()
    return producers, watch


def wait_for_acks(producers: list[LoadProducer], more: int) -> None:
    """Every producer is answered again, and all of them together some more times."""
    before = [len(producer.ledger.acked) for producer in producers]

    def arrived() -> bool:
        gains = [len(one.ledger.acked) - count for one, count in zip(producers, before, strict=True)]
        return all(gain > 0 for gain in gains) and sum(gains) >= more

    wait_until(arrived, f"{more} more acknowledgements")


def run_kills(start_broker: StartBroker, kills: int) -> tuple[Figures, Verdict, WatermarkWatch]:
    chance = random.Random(SEED)
    broker = start_broker(port=free_port())
    producers, watch = start_load(broker)
    figures = Figures()
    for _ in range(kills):
        for producer in producers:
            producer.allow()
        wait_for_acks(producers, chance.randrange(1, 1500))
        broker.kill()
        figures.kills += 1
        started = time.monotonic()
        broker.start()
        figures.recovery_seconds.append(time.monotonic() - started)
    for producer in producers:
        producer.allow()
    wait_for_acks(producers, 100)
    for producer in producers:
        producer.finish()
    watch.finish()
    return figures, judge(broker.address, [producer.ledger for producer in producers]), watch


def check(start_broker: StartBroker, kills: int, capsys: pytest.CaptureFixture[str]) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    figures, verdict, watch = run_kills(start_broker, kills)
    with capsys.disabled():
        print(figures.table(verdict, watch))
    assert verdict.is_good(), str(verdict)
    assert not watch.went_back, watch.went_back[:5]


def test_killed_a_few_times(start_broker: StartBroker, capsys: pytest.CaptureFixture[str]) -> None:
    check(start_broker, KILLS_QUICK, capsys)


@pytest.mark.slow
def test_killed_many_times(start_broker: StartBroker, capsys: pytest.CaptureFixture[str]) -> None:
    check(start_broker, KILLS_SOAK, capsys)
