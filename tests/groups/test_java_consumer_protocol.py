"""kafka-clients 4.3 with group.protocol=consumer (KIP-848): join, share, leave, static, by expression, and rolling
migrations in which no partition ever has two owners."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from groups.consumers import produce
from groups.java_members import JavaMembers, java_members
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.topics import create_topic
from java.jars import Java

pytestmark = pytest.mark.java

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"


def places(topic: str, count: int) -> set[str]:
    return {f"{topic}-{number}" for number in range(count)}


def test_members_share_leave_and_are_described(
    java: Java, member_classes: Path, quick: BrokerProcess, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    create_topic(quick.address, topic, 6)
    produce(quick.address, topic, 20, 6)
    with java_members(java, member_classes, quick.address) as members:
        for name in ("a", "b", "c"):
            members.start(name, topic, topic, "consumer")
        members.wait_for(["a", "b", "c"], places(topic, 6), "three share")
        wait_until(lambda: len(members.records) == 120 or members.check(), "every record once")
        _check_described(java, quick, topic)
        members.stop("b")
        members.wait_for(["a", "c"], places(topic, 6), "two share")
        produce(quick.address, topic, 5, 6)
        wait_until(lambda: len(members.records) == 150 or members.check(), "what came later")
    assert len({record[1:] for record in members.records}) == 150, "nothing twice: what was given up was committed"
    _check_dump(java, quick, topic)


def _check_described(java: Java, broker: BrokerProcess, group: str) -> None:
    def groups(*arguments: str) -> str:
        return java.run(GROUPS_TOOL, "--bootstrap-server", broker.address, *arguments).check()

    described = groups("--describe", "--group", group)
    assert len(re.findall(rf"^{group}\s+{group}\s+\d\s+20\s+20\s+0\s+\S+", described, re.MULTILINE)) == 6, described
    members = groups("--describe", "--group", group, "--members", "--verbose")
    assert len(re.findall(rf"^{group}\s+.*{group}:\d,\d", members, re.MULTILINE)) == 3, members
    listed = groups("--list", "--type", "consumer", "--state")
    assert re.search(rf"^{group}\s+Consumer\s+Stable", listed, re.MULTILINE), listed


def _check_dump(java: Java, broker: BrokerProcess, group: str) -> None:
    """kafka-dump-log decodes every record that we wrote for this group, tombstones too."""
    logs = [p for p in broker.data_dir.glob("__consumer_offsets-*/*.log") if group.encode() in p.read_bytes()]
    assert len(logs) == 1, "a group lives on one partition"
    said = java.run(DUMP_TOOL, "--offsets-decoder", "--files", str(logs[0])).check()
    rows = [line for line in said.splitlines() if f'"groupId":"{group}"' in line]
    for kind, words in (
        (3, '"metadataHash":'),
        (5, f'"subscribedTopicNames":["{group}"]'),
        (6, '"assignmentEpoch":'),
        (7, '"topicPartitions":[{"topicId"'),
        (8, '"assignmentEpochs":['),
    ):
        mine = [row for row in rows if f'"type":"{kind}"' in row]
        assert any(words in row for row in mine), (kind, said)
        assert any("<DELETE>" in row for row in mine) or kind in (3, 6), (kind, said)
    for complaint in ("isvalid: false", "Could not", "Failed to decode"):
        assert complaint not in said, said


def test_a_static_member_comes_back_to_its_partitions(
    java: Java, member_classes: Path, quick: BrokerProcess, new_name: Callable[[], str]
) -> None:
    topic = new_name()
    create_topic(quick.address, topic, 4)
    with java_members(java, member_classes, quick.address) as members:
        members.start("a", topic, topic, "consumer", "one")
        members.start("b", topic, topic, "consumer", "two")
        members.wait_for(["a", "b"], places(topic, 4), "two share")
        before, rebalances = set(members.held["b"]), members.rebalances["a"]
        members.stop("b")
        members.start("b2", topic, topic, "consumer", "two")
        members.wait_for(["a", "b2"], places(topic, 4), "it is back")
        assert members.held["b2"] == before
        assert members.rebalances["a"] == rebalances


def test_subscriptions_by_expression(
    java: Java, member_classes: Path, quick: BrokerProcess, new_name: Callable[[], str]
) -> None:
    prefix = new_name()
    create_topic(quick.address, f"{prefix}-a", 2)
    create_topic(quick.address, f"other-{prefix}-a", 2)
    with java_members(java, member_classes, quick.address) as members:
        for name in ("a", "b"):
            members.start(name, prefix, f"/{prefix}-[a-z]+/", "consumer")
        members.wait_for(["a", "b"], places(f"{prefix}-a", 2), "what is there")
        create_topic(quick.address, f"{prefix}-b", 2)
        members.wait_for(["a", "b"], places(f"{prefix}-a", 2) | places(f"{prefix}-b", 2), "what came")


@pytest.mark.parametrize("assignor", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_rolling_upgrade_and_downgrade(
    java: Java, member_classes: Path, quick: BrokerProcess, new_name: Callable[[], str], assignor: str
) -> None:
    topic = new_name()
    create_topic(quick.address, topic, 6)
    everything = places(topic, 6)
    strategy = {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{assignor}"}
    produced = 0

    def more(members: JavaMembers) -> None:
        nonlocal produced
        produce(quick.address, topic, 5, 6)
        produced += 30
        wait_until(
            lambda: len({record[1:] for record in members.records}) == produced or members.check(), "every record"
        )

    with java_members(java, member_classes, quick.address) as members:
        for name in ("a1", "b1"):
            members.start(name, topic, topic, "classic", **strategy)
        members.wait_for(["a1", "b1"], everything, "classic")
        more(members)
        for old, new, others in (("a1", "a2", ["b1"]), ("b1", "b2", ["a2"])):
            members.stop(old)
            members.start(new, topic, topic, "consumer")
            members.wait_for([new, *others], everything, f"{old} became {new}")
            more(members)
        for old, new, others in (("a2", "a3", ["b2"]), ("b2", "b3", ["a3"])):
            members.stop(old)
            members.start(new, topic, topic, "classic", **strategy)
            members.wait_for([new, *others], everything, f"{old} became {new}")
            more(members)
