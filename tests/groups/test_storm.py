"""200 members that join, leave and crash at random: no partition has two owners, and all ends well."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence

import pytest

from groups.storm import SESSION_MS, ClassicMember, ConsumerMember, Ledger, Member
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection
from harness.topics import create_topic

SEED = int(os.environ.get("RUNNEL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
MEMBERS = 200
PARTITIONS = 240
TROUBLES = int(os.environ.get("RUNNEL_TEST_TROUBLES", "100"))
"""How many departures and crashes there are before the storm is over."""
CALM_SECONDS = 300.0
SETTINGS: dict[str, str | int | bool] = {
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 400,
    "group.consumer.min.heartbeat.interval.ms": 100,
}

StartBroker = Callable[..., BrokerProcess]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_storm_of_members_ends_with_every_partition_owned_once(
    start_broker: StartBroker, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print(f"seed {SEED}: repeat with RUNNEL_TEST_SEED={SEED}")
    broker = start_broker(SETTINGS)
    create_topic(broker.address, "storm", PARTITIONS)
    started = time.monotonic()
    ledger, members = asyncio.run(run(broker, protocol))
    with capsys.disabled():
        print(
            f"\n{protocol}: {len(members)} members, {ledger.departures} departures, {ledger.crashes} crashes, "
            f"{len(ledger.generations)} generations, {time.monotonic() - started:.0f} s, "
            f"broker {broker.rss_bytes() >> 20} MiB",
            end="",
        )
    assert not ledger.violations, ledger.violations[:5]
    assert states(broker, "storm") == {"storm": "Empty"}
    with RawConnection(broker.address) as connection:
        assert connection.request(42, 2, {"groups_names": ["storm"]}).results[0].error_code == 0


async def run(broker: BrokerProcess, protocol: str) -> tuple[Ledger, Sequence[Member]]:
    ledger, chance, over = Ledger(), random.Random(SEED), asyncio.Event()
    common = [(broker.address, "storm", "storm", ledger, random.Random(chance.random())) for _ in range(MEMBERS)]
    members: Sequence[Member] = (
        [ClassicMember(*each, partition_count=PARTITIONS) for each in common]
        if protocol == "classic"
        else [ConsumerMember(*each) for each in common]
    )
    async with asyncio.TaskGroup() as tasks:
        for member in members:
            tasks.create_task(member.live(over))
        await until(lambda: ledger.departures + ledger.crashes >= TROUBLES or bool(ledger.violations), "the storm")
        for member in members:
            member.restless = False
        await until(lambda: is_calm(members) or bool(ledger.violations), "calm after the storm")
        over.set()
    return ledger, members


def is_calm(members: Sequence[Member]) -> bool:
    """All live in one generation, and together have each partition once."""
    owned = sorted(partition for member in members for partition in member.partitions)
    return all(member.is_settled for member in members) and owned == list(range(PARTITIONS))


async def until(check: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(wait_until, check, what, CALM_SECONDS)


def states(broker: BrokerProcess, group: str) -> dict[str, str]:
    with RawConnection(broker.address) as connection:
        reply = connection.request(16, 5, {"states_filter": [], "types_filter": []})
        return {row.group_id: row.group_state for row in reply.groups if row.group_id == group}
