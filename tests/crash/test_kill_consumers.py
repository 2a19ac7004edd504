"""SIGKILL the broker, and its consumers, in the middle of rebalances: every acknowledged record is processed at least
once by each group, and what was committed stays committed.

Classic groups (eager and cooperative), a consumer group (KIP-848) and aiokafka, two or three processes each. The quick
run kills the broker 4 times, `make soak KILLS=50` more often.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from crash.crowd import Crowd, OffsetWatch, missing
from crash.load import Ledger, LoadProducer
from crash.member import SESSION_MS
from harness.conditions import wait_until
from harness.process import BrokerProcess, free_port
from harness.topics import create_topic

StartBroker = Callable[..., BrokerProcess]
SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
KILLS_QUICK = 4
KILLS_SOAK = int(os.environ.get("RUNNEL_TEST_KILLS", "50"))
TOPIC = "work"
PARTITIONS = 4
ROUND_RECORDS = 150
STEP_RECORDS = 40
# Members that vanish are noticed within seconds, so that a killed one does not hold its partitions for a minute.
SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
}


@dataclass(slots=True)
class Outcome:
    crowd: Crowd
    watch: OffsetWatch
    ledgers: list[Ledger]
    missing: dict[str, list[str]] = field(default_factory=dict)
    recovery_seconds: list[float] = field(default_factory=list)

    def table(self) -> str:
        ms = sorted(1000 * seconds for seconds in self.recovery_seconds)
        seen = [group.processed for group in self.crowd.groups]
        again = sum(one.total() - len(one) for one in seen)
        changes = ", ".join(f"{count} {what}" for what, count in sorted(self.crowd.changes.items()))
        return (
            f"\nseed {SEED}: {len(ms)} kills, {sum(len(ledger.acked) for ledger in self.ledgers)} acked, "
            f"{len(seen)} groups, members: {changes}; {sum(len(one) for one in seen)} processed, {again} again, "
            f"{sum(map(len, self.missing.values()))} missing; {self.watch.asked} offsets asked, "
            f"{len(self.watch.went_back)} went back; start to ready: median {statistics.median(ms):.0f} ms, "
            f"max {ms[-1]:.0f} ms"
        )


def run_kills(start_broker: StartBroker, kills: int) -> Outcome:
    chance = random.Random(SEED)
    broker = start_broker(SETTINGS, port=free_port())
    create_topic(broker.address, TOPIC, PARTITIONS)
    ledgers = [Ledger(TOPIC, partition, f"p{partition}", idempotent=True) for partition in range(PARTITIONS)]
    producers = [LoadProducer(broker.address, ledger, acks="all") for ledger in ledgers]
    crowd = Crowd(broker.address, TOPIC, chance)
    outcome = Outcome(crowd, OffsetWatch(broker.address, TOPIC, PARTITIONS, crowd.groups), ledgers)
    try:
        for producer in producers:
            producer.start()
        outcome.watch.start()
        for _ in range(kills):
            outcome.recovery_seconds.append(one_round(broker, producers, outcome, chance))
        settle(producers, outcome)
    finally:
        crowd.finish()
        outcome.watch.finish()
    return outcome


def one_round(broker: BrokerProcess, producers: list[LoadProducer], outcome: Outcome, chance: random.Random) -> float:
    """Some work, some members come and go, and the kill falls anywhere into what follows from that."""
    allow(producers, ROUND_RECORDS)
    outcome.crowd.wait_for_progress(chance.randrange(1, 600))
    outcome.crowd.shake()
    for _ in range(chance.randrange(1, 12)):
        allow(producers, STEP_RECORDS)  # so that there is work in every moment of the rebalances
        outcome.watch.wait_for_answers(chance.randrange(0, 300))
    broker.kill()
    if chance.random() < 0.5:
        outcome.crowd.shake()  # members that start, leave and die while there is no broker
    began = time.monotonic()
    broker.start()
    return time.monotonic() - began


def allow(producers: list[LoadProducer], more: int) -> None:
    for producer in producers:
        producer.allow(more)


def settle(producers: list[LoadProducer], outcome: Outcome) -> None:
    """No more kills: all that was acknowledged is processed, and the groups commit up to the end."""
    allow(producers, ROUND_RECORDS)
    outcome.crowd.wait_for_progress(1)
    for producer in producers:
        producer.finish()

    def done() -> bool:
        outcome.missing = missing(outcome.crowd.groups, outcome.ledgers)
        return not any(outcome.missing.values()) and not behind(outcome)

    try:
        wait_until(done, "every group at the end")
    except AssertionError as late:
        raise AssertionError(f"{late}; missing {shown(outcome.missing)}; behind {behind(outcome)[:5]}") from None


def behind(outcome: Outcome) -> list[str]:
    """Places whose committed offset is not past the last acknowledged record."""
    ends = {ledger.partition: max(ledger.acked.values(), default=-1) + 1 for ledger in outcome.ledgers}
    highest = dict(outcome.watch.highest)
    return [
        f"{group.name}-{partition}: {highest.get((group.name, partition))} of {end}"
        for group in outcome.crowd.groups
        for partition, end in ends.items()
        if highest.get((group.name, partition), -1) < end
    ]


def shown(lacking: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: [f"{len(found)}", *found[:5]] for name, found in lacking.items() if found}


def check(start_broker: StartBroker, kills: int, capsys: pytest.CaptureFixture[str]) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    outcome = run_kills(start_broker, kills)
    with capsys.disabled():
        print(outcome.table())
    assert not any(outcome.missing.values()), shown(outcome.missing)
    assert not outcome.watch.went_back, outcome.watch.went_back[:5]
    assert not outcome.crowd.died(), "\n".join(outcome.crowd.died()[:2])
    assert not [failure for ledger in outcome.ledgers for failure in ledger.failed]


def test_killed_beside_consumers_a_few_times(start_broker: StartBroker, capsys: pytest.CaptureFixture[str]) -> None:
    check(start_broker, KILLS_QUICK, capsys)


@pytest.mark.slow
def test_killed_beside_consumers_many_times(start_broker: StartBroker, capsys: pytest.CaptureFixture[str]) -> None:
    check(start_broker, KILLS_SOAK, capsys)
