"""The broker in this process, and the pytest plugin, used as a reader of docs/testing.md would."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from runnel import Broker
from runnel.broker.settings import SettingsInvalid
from runnel.storage.errors import DataDirInUse
from runnel.wire.errors import Refusal

pytest_plugins = ["pytester"]


def send(bootstrap: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def receive(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def test_what_goes_in_comes_out(runnel_broker: Broker, runnel_topic: str) -> None:
    send(runnel_broker.bootstrap_servers, runnel_topic, "a", "b")
    assert receive(runnel_broker.bootstrap_servers, runnel_topic, 2) == [b"a", b"b"]


def test_reset_leaves_no_topic(runnel_reset: Broker) -> None:
    runnel_reset.create_topic("left-over", partitions=3)
    assert "left-over" in runnel_reset.topics()
    runnel_reset.reset()
    assert runnel_reset.topics() == []


def test_a_data_directory_is_kept_and_memory_is_not(tmp_path: Path) -> None:
    for place, kept in ((tmp_path / "data", [b"x"]), (None, None)):
        with Broker(place) as broker:
            broker.create_topic("t")
            send(broker.bootstrap_servers, "t", "x")
        with Broker(place) as broker:
            assert ("t" in broker.topics()) is (kept is not None)
            if kept is not None:
                assert receive(broker.bootstrap_servers, "t", 1) == kept


def test_two_brokers_cannot_share_a_data_directory(tmp_path: Path) -> None:
    with Broker(tmp_path), pytest.raises(DataDirInUse, match="in use by process"):
        Broker(tmp_path).start()


def test_several_brokers_run_side_by_side() -> None:
    with Broker() as one, Broker() as other:
        one.create_topic("only-here")
        assert other.topics() == []
        assert one.bootstrap_servers != other.bootstrap_servers


def test_mistakes_are_told(runnel_broker: Broker) -> None:
    with pytest.raises(SettingsInvalid, match=r"no\.such\.key"):
        Broker(configs={"no.such.key": "1"})
    with pytest.raises(Refusal, match="INVALID_TOPIC_EXCEPTION"):
        runnel_broker.create_topic("not a name")
    with pytest.raises(RuntimeError, match="not running"):
        _ = Broker().bootstrap_servers


def test_configs_take_effect() -> None:
    with Broker(configs={"num.partitions": "7"}) as broker:
        broker.create_topic("seven", partitions=-1)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "t"})
        assert len(consumer.list_topics("seven", timeout=30).topics["seven"].partitions) == 7
        consumer.close()


def test_the_plugin_in_a_project_of_its_own(pytester: pytest.Pytester) -> None:
    """The example of docs/testing.md, as it stands there."""
    page = (Path(__file__).parent.parent.parent / "docs" / "testing.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    pytester.makepyfile(test_orders=example)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
