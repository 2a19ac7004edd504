"""`runnel config`: what is set for topics, brokers, groups and loggers; by whom; what it does. Against Kafka too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.conftest import Runnel
from harness.conditions import wait_until

NewName = Callable[[], str]
NewTopic = Callable[..., str]


def configs(runnel: Runnel, *arguments: str) -> dict[str, Any]:
    (document,) = runnel("config", "describe", "--json", *arguments).ok().document
    return {row["name"]: row for row in document["configs"]}


def test_configs_of_a_topic(runnel: Runnel, new_topic: NewTopic) -> None:
    name = new_topic(1)
    assert runnel("config", "set", "--topic", name, "retention.ms=60000", "segment.ms=70000").ok().text == (
        f"set configs of topic '{name}'\n"
    )
    # Kafka's broker follows its controller with a delay.
    wait_until(lambda: "retention.ms" in runnel("config", "describe", "--topic", name).ok().text, "the config")
    lines = runnel("config", "describe", "--topic", name).ok().lines
    assert lines[0] == f"topic '{name}':"
    assert lines[1].split() == ["CONFIG", "VALUE", "SOURCE", "READ-ONLY"]
    assert ["retention.ms", "60000", "topic"] in [line.split() for line in lines]
    assert not any(line.startswith("max.message.bytes") for line in lines)
    everything = configs(runnel, "--topic", name, "--all")
    assert everything["max.message.bytes"]["source"] == "default"
    assert everything["retention.ms"]["value"] == "60000"
    assert everything["retention.ms"]["type"] == "long"
    assert runnel("config", "unset", "-t", name, "retention.ms").ok().text == f"unset configs of topic '{name}'\n"
    wait_until(lambda: "retention.ms" not in configs(runnel, "--topic", name), "the config to go")
    assert "segment.ms" in configs(runnel, "--entity-type", "topics", "--entity-name", name)


def test_what_a_config_does(runnel: Runnel, new_topic: NewTopic) -> None:
    name = new_topic(1)
    shown = runnel("config", "describe", "--topic", name, "retention.ms").ok()
    assert shown.lines[1].startswith("retention.ms=604800000  (long, default")
    assert len(shown.lines[2].strip()) > 30
    assert "<" not in shown.text
    document = configs(runnel, "--topic", name, "retention.ms")
    assert list(document) == ["retention.ms"]
    assert len(document["retention.ms"]["documentation"]) > 30


def test_lists_grow_and_shrink(runnel: Runnel, new_topic: NewTopic) -> None:
    name = new_topic(1)
    runnel("config", "set", "--topic", name, "--append", "cleanup.policy=compact").ok()
    wait_until(lambda: "cleanup.policy" in configs(runnel, "--topic", name), "the config")
    assert configs(runnel, "--topic", name)["cleanup.policy"]["value"] == "delete,compact"
    runnel("config", "set", "--topic", name, "--subtract", "cleanup.policy=delete").ok()
    wait_until(lambda: configs(runnel, "--topic", name)["cleanup.policy"]["value"] == "compact", "the change")


@pytest.fixture
def changed_broker(runnel: Runnel) -> Iterator[None]:
    yield
    runnel("config", "unset", "--broker-defaults", "log.retention.ms").ok()
    runnel("config", "unset", "--broker", "1", "log.retention.ms").ok()


def test_configs_of_brokers(runnel: Runnel, changed_broker: None) -> None:
    assert configs(runnel, "--broker", "1", "node.id")["node.id"]["read_only"] is True
    runnel("config", "set", "--broker-defaults", "log.retention.ms=7000000").ok()
    wait_until(lambda: configs(runnel, "--broker", "1").get("log.retention.ms", {}).get("source") == "cluster", "it")
    assert configs(runnel, "--broker-defaults")["log.retention.ms"]["value"] == "7000000"
    runnel("config", "set", "--broker", "1", "log.retention.ms=8000000").ok()
    wait_until(lambda: configs(runnel, "--broker", "1")["log.retention.ms"]["source"] == "broker", "the change")
    documents = runnel("config", "list", "--type", "broker", "--json").ok().document
    found = {(row["name"], config["name"], config["value"]) for row in documents for config in row["configs"]}
    assert found == {(None, "log.retention.ms", "7000000"), ("1", "log.retention.ms", "8000000")}
    refused = runnel("config", "set", "--broker", "1", "node.id=7")
    assert refused.exit_code == 1
    assert refused.errors.startswith("Error: broker '1': ")


def test_configs_of_groups(runnel: Runnel, new_name: NewName) -> None:
    name = f"g-{new_name()}"
    runnel("config", "set", "--group", name, "consumer.session.timeout.ms=50000").ok()
    wait_until(lambda: "consumer.session.timeout.ms" in configs(runnel, "--group", name), "the config")
    assert configs(runnel, "--group", name)["consumer.session.timeout.ms"]["source"] == "group"
    documents = runnel("config", "list", "--type", "group", "--json").ok().document
    assert name in [row["name"] for row in documents]
    runnel("config", "unset", "--group", name, "consumer.session.timeout.ms").ok()


def test_log_levels_of_a_broker(runnel: Runnel) -> None:
    levels = configs(runnel, "--broker-logger", "1")
    name = next(iter(levels))
    before = levels[name]["value"]
    runnel("config", "set", "--broker-logger", "1", f"{name}=DEBUG").ok()
    wait_until(lambda: configs(runnel, "--broker-logger", "1")[name]["value"] == "DEBUG", "the level")
    runnel("config", "set", "--broker-logger", "1", f"{name}={before}").ok()


def test_what_is_set_is_listed(runnel: Runnel, new_topic: NewTopic) -> None:
    name = new_topic(1, retention_ms=60000)
    rows = [line.split() for line in runnel("config", "list", "--type", "topic").ok().lines]
    assert rows[0] == ["TYPE", "NAME", "CONFIG", "VALUE", "SOURCE"]
    assert ["topic", name, "retention.ms", "60000", "topic"] in rows


def test_dry_runs_and_refusals(runnel: Runnel, new_topic: NewTopic, new_name: NewName) -> None:
    name, missing = new_topic(1), new_name()
    assert runnel("config", "set", "--topic", name, "retention.ms=1", "--dry-run").ok().text == (
        f"would set configs of topic '{name}'\n"
    )
    assert "retention.ms" not in configs(runnel, "--topic", name)
    refusals = {
        ("set", "--topic", name, "retention.m=1"): "did you mean 'retention.ms'?",
        ("set", "--topic", name, "retention.ms=soon"): "retention.ms",
        ("describe", "--topic", name, "retention.m"): f"topic '{name}' has no config 'retention.m'; did you mean",
        ("describe", "--topic", missing): f"topic '{missing}' does not exist",
        ("set", "--topic", missing, "retention.ms=1"): f"topic '{missing}' does not exist",
        ("describe", "--broker", "77"): "broker 77 is not in the cluster, which has 1",
    }
    for arguments, message in refusals.items():
        refused = runnel("config", *arguments)
        assert refused.exit_code == 1, arguments
        assert message in refused.errors, arguments
        assert refused.errors.count("\n") == 1
    both = runnel("config", "set", "--topic", name, "--topic", missing, "retention.ms=1", "--dry-run", "--json")
    assert both.exit_code == 1
    assert [(row["name"], row["ok"]) for row in both.document] == [(name, True), (missing, False)]
