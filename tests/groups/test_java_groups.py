"""Kafka's own tools as members and administrators of groups, and its reader of our records."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from groups.consumers import consumer, produce
from harness.process import BrokerProcess
from java.jars import Java

pytestmark = pytest.mark.java

NewTopic = Callable[..., str]
TOOLS = "org.apache.kafka.tools"
OFFSETS_TOPIC = "__consumer_offsets"


def test_console_consumer_and_group_command(
    java: Java, bootstrap: str, new_topic: NewTopic, own_broker: BrokerProcess
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, 10)
    where = ("--bootstrap-server", bootstrap)
    reading = ("--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "10")
    said = java.run(f"{TOOLS}.consumer.ConsoleConsumer", *where, *reading).check()
    assert said.splitlines()[:10] == [str(number) for number in range(10)]

    def groups(*arguments: str) -> str:
        return java.run(f"{TOOLS}.consumer.group.ConsumerGroupCommand", *where, *arguments).check()

    assert topic in groups("--list").splitlines()
    described = groups("--describe", "--group", topic)
    assert re.search(rf"{topic}\s+{topic}\s+0\s+10\s+10\s+0\s+-", described), described
    reset = ("--reset-offsets", "--group", topic, "--topic", topic, "--shift-by", "-3", "--execute")
    assert re.search(rf"{topic}\s+{topic}\s+0\s+7", groups(*reset))
    with consumer(bootstrap, topic) as one:
        from confluent_kafka import TopicPartition

        assert one.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 7
    _check_dump(java, own_broker, topic)


def _check_dump(java: Java, broker: BrokerProcess, group: str) -> None:
    """kafka-dump-log decodes the offsets and the generations that we wrote for this group."""
    logs = sorted(broker.data_dir.glob(f"{OFFSETS_TOPIC}-*/*.log"))
    mine = [path for path in logs if group.encode() in path.read_bytes()]
    assert len(mine) == 1, "a group lives on one partition"
    arguments = ("--offsets-decoder", "--files", str(mine[0]))
    said = java.run(f"{TOOLS}.DumpLogSegments", *arguments).check()
    rows = [line for line in said.splitlines() if f'"group":"{group}"' in line]
    committed = [row for row in rows if '"topic":' in row]
    generations = [row for row in rows if '"protocolType":"consumer"' in row]
    assert '"offset":7' in committed[-1], said
    assert any('"memberId":"console-consumer' in row for row in generations), said
    for complaint in ("isvalid: false", "Could not", "Failed to decode"):
        assert complaint not in said, said
