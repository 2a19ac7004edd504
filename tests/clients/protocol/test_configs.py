"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs: sources, synonyms, types, documentation, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.protocol.calls import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    metadata,
    produce,
    versions,
)
from harness.batches import encode_batch
from harness.conditions import wait_until
from harness.raw import RawConnection

NewTopic = Callable[..., str]
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_REQUEST = 3, 40, 42
LONG, LIST, INT = 5, 7, 3


def describe(
    raw: RawConnection, kind: int, name: str, *, keys: list[str] | None = None, version: int = 4, **flags: bool
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return raw.request(DESCRIBE_CONFIGS, version, {"resources": [resource]} | flags).results[0]


def configs_of(result: Any) -> dict[str, Any]:
    assert result.error_code == 0, result.error_message
    return {config.name: config for config in result.configs}


def alter(raw: RawConnection, name: str, changes: list[tuple[str, int, str | None]], **options: Any) -> Any:
    """Incremental changes: (config, operation, value)."""
    kind, version = options.pop("kind", TOPIC), options.pop("version", 1)
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return raw.request(INCREMENTAL_ALTER_CONFIGS, version, {"resources": [resource]} | options).responses[0]


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_a_topics_configs(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic(retention_ms=60_000)
    found = configs_of(describe(raw, TOPIC, name, version=version))
    assert len(found) >= 25
    assert found["retention.ms"].value == "60000"
    assert found["segment.bytes"].value == "1073741824"
    assert not found["retention.ms"].read_only
    assert found["retention.ms"].config_source == DYNAMIC_TOPIC
    assert found["segment.bytes"].config_source == DEFAULT
    if version >= 3:
        assert found["retention.ms"].config_type == LONG
        assert found["cleanup.policy"].config_type == LIST
        assert found["segment.bytes"].config_type == INT


def test_only_the_keys_asked_for(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert set(configs_of(describe(raw, TOPIC, name, keys=["retention.ms"]))) == {"retention.ms"}
    assert set(configs_of(describe(raw, TOPIC, name, keys=["retention.ms", "no.such"]))) == {"retention.ms"}


def test_synonyms(raw: RawConnection, new_topic: NewTopic) -> None:
    """From the topic's own value down to the default, each with its name and source."""
    name = new_topic(retention_bytes=1000)
    config = configs_of(describe(raw, TOPIC, name, include_synonyms=True))["retention.bytes"]
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        ("retention.bytes", "1000", DYNAMIC_TOPIC),
        ("log.retention.bytes", "-1", DEFAULT),
    ]
    without = configs_of(describe(raw, TOPIC, name))["retention.bytes"]
    assert list(without.synonyms) == []


def test_documentation(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    documented = configs_of(describe(raw, TOPIC, name, include_documentation=True))
    assert all(config.documentation for config in documented.values())
    plain = configs_of(describe(raw, TOPIC, name))
    assert not any(config.documentation for config in plain.values())


def test_the_brokers_configs(raw: RawConnection) -> None:
    here = str(metadata(raw, []).brokers[0].node_id)
    found = configs_of(describe(raw, BROKER, here))
    assert found["num.partitions"].value == "1"
    assert found["message.max.bytes"].value == "1048588"
    assert found["node.id"].read_only
    assert found["node.id"].value == here
    assert not found["message.max.bytes"].read_only


def test_sensitive_values_are_never_shown(raw: RawConnection) -> None:
    here = str(metadata(raw, []).brokers[0].node_id)
    found = configs_of(describe(raw, BROKER, here))
    for config in found.values():
        if config.is_sensitive:
            assert config.value is None
    if "ssl.keystore.password" in found:  # where TLS is built
        assert found["ssl.keystore.password"].is_sensitive


def test_what_cannot_be_described(raw: RawConnection) -> None:
    assert describe(raw, TOPIC, "no-such-topic").error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert describe(raw, BROKER, "4711").error_code == INVALID_REQUEST
    assert describe(raw, BROKER, "not-a-number").error_code == INVALID_REQUEST


@pytest.mark.parametrize("version", versions(INCREMENTAL_ALTER_CONFIGS))
def test_incremental_changes(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic(retention_bytes=5)
    assert alter(raw, name, [("retention.ms", SET, "777")], version=version).error_code == 0
    found = configs_of(describe(raw, TOPIC, name))
    assert (found["retention.ms"].value, found["retention.bytes"].value) == ("777", "5")
    assert alter(raw, name, [("retention.ms", DELETE, None)], version=version).error_code == 0
    found = configs_of(describe(raw, TOPIC, name))
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("604800000", DEFAULT)
    assert found["retention.bytes"].value == "5"


def test_lists_grow_and_shrink(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert alter(raw, name, [("cleanup.policy", APPEND, "compact")]).error_code == 0
    value = configs_of(describe(raw, TOPIC, name))["cleanup.policy"].value
    assert sorted(value.split(",")) == ["compact", "delete"]
    assert alter(raw, name, [("cleanup.policy", SUBTRACT, "delete")]).error_code == 0
    assert configs_of(describe(raw, TOPIC, name))["cleanup.policy"].value == "compact"


def test_only_lists_grow(raw: RawConnection, new_topic: NewTopic) -> None:
    assert alter(raw, new_topic(), [("retention.ms", APPEND, "5")]).error_code == INVALID_CONFIG


@pytest.mark.parametrize(
    ("key", "value"),
    [("retention.ms", "soon"), ("no.such.config", "1"), ("segment.bytes", "1"), ("retention.ms", None)],
)
def test_bad_changes(raw: RawConnection, new_topic: NewTopic, key: str, value: str | None) -> None:
    name = new_topic()
    answer = alter(raw, name, [(key, SET, value)])
    assert answer.error_code in (INVALID_CONFIG, INVALID_REQUEST)
    assert key in answer.error_message
    assert configs_of(describe(raw, TOPIC, name))["retention.ms"].value == "604800000"


def test_a_bad_change_takes_the_good_ones_with_it(raw: RawConnection, new_topic: NewTopic) -> None:
    """A resource's changes are one: all or none."""
    name = new_topic()
    answer = alter(raw, name, [("retention.bytes", SET, "99"), ("retention.ms", SET, "soon")])
    assert answer.error_code == INVALID_CONFIG
    assert configs_of(describe(raw, TOPIC, name))["retention.bytes"].value == "-1"


def test_alter_validate_only(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert alter(raw, name, [("retention.ms", SET, "777")], validate_only=True).error_code == 0
    assert alter(raw, name, [("retention.ms", SET, "soon")], validate_only=True).error_code == INVALID_CONFIG
    assert configs_of(describe(raw, TOPIC, name))["retention.ms"].value == "604800000"


def test_an_unknown_topic(raw: RawConnection) -> None:
    assert alter(raw, "no-such-topic", [("retention.ms", SET, "1")]).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_the_same_config_twice(raw: RawConnection, new_topic: NewTopic) -> None:
    changes = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(raw, new_topic(), changes).error_code == INVALID_REQUEST


@pytest.mark.parametrize("version", versions(ALTER_CONFIGS))
def test_full_replacement(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    """AlterConfigs forgets every override that it does not repeat."""
    name = new_topic(retention_bytes=5)
    configs = [{"name": "retention.ms", "value": "777"}]
    resource = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
    assert raw.request(ALTER_CONFIGS, version, {"resources": [resource]}).responses[0].error_code == 0
    found = configs_of(describe(raw, TOPIC, name))
    assert (found["retention.ms"].value, found["retention.bytes"].value) == ("777", "-1")


def test_a_change_takes_effect(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    batch = encode_batch([b"x" * 5000])
    assert produce(raw, name, batch).error_code == 0
    assert alter(raw, name, [("max.message.bytes", SET, "1000")]).error_code == 0
    assert produce(raw, name, batch).error_code == 10


def test_dynamic_broker_configs(raw: RawConnection, new_topic: NewTopic) -> None:
    """The cluster-wide default (empty name) shows in the broker's and in every topic's configs."""
    name = new_topic()
    here = str(metadata(raw, []).brokers[0].node_id)
    change = [("log.retention.bytes", SET, "123456789")]
    try:
        assert alter(raw, "", change, kind=BROKER).error_code == 0
        shown = ("123456789", DYNAMIC_DEFAULT_BROKER)
        wait_until(lambda: of_broker(raw, here, "log.retention.bytes") == shown, "the new default")
        of_topic = configs_of(describe(raw, TOPIC, name, include_synonyms=True))["retention.bytes"]
        assert of_topic.value == "123456789"
        assert [(one.name, one.source) for one in of_topic.synonyms] == [
            ("log.retention.bytes", DYNAMIC_DEFAULT_BROKER),
            ("log.retention.bytes", DEFAULT),
        ]
    finally:
        assert alter(raw, "", [("log.retention.bytes", DELETE, None)], kind=BROKER).error_code == 0
    wait_until(lambda: of_broker(raw, here, "log.retention.bytes") == ("-1", DEFAULT), "the old default")
    assert configs_of(describe(raw, TOPIC, name))["retention.bytes"].value == "-1"


def of_broker(raw: RawConnection, broker: str, key: str) -> tuple[str, int]:
    config = configs_of(describe(raw, BROKER, broker))[key]
    return config.value, config.config_source


def test_read_only_broker_configs(raw: RawConnection) -> None:
    here = str(metadata(raw, []).brokers[0].node_id)
    answer = alter(raw, here, [("node.id", SET, "7")], kind=BROKER)
    assert answer.error_code in (INVALID_CONFIG, INVALID_REQUEST)
