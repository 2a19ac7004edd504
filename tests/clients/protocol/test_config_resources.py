"""Configs of groups, client metrics subscriptions and loggers, and ListConfigResources. Passes on Apache Kafka too."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clients.protocol.calls import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    metadata,
    versions,
)
from clients.protocol.test_configs import alter, configs_of, describe
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection

NewTopic = Callable[..., str]
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DEFAULT, OF_LOGGER, OF_CLIENT_METRICS, OF_GROUP = 5, 6, 7, 8
UNSUPPORTED_VERSION, INVALID_CONFIG, INVALID_REQUEST = 35, 40, 42
SESSION = "consumer.session.timeout.ms"


def change(raw: RawConnection, kind: int, name: str, *changes: tuple[str, int, str | None], **options: Any) -> int:
    return int(alter(raw, name, list(changes), kind=kind, **options).error_code)


def shown(raw: RawConnection, kind: int, name: str, key: str, **options: Any) -> Any:
    return configs_of(describe(raw, kind, name, **options))[key]


@pytest.fixture
def name(raw: RawConnection) -> Iterator[str]:
    """A group or subscription of this test's own, without configs afterwards."""
    name = f"resource-{uuid.uuid4().hex[:8]}"
    yield name
    for kind in (GROUP, CLIENT_METRICS):
        raw.request(ALTER_CONFIGS, 2, {"resources": [{"resource_type": kind, "resource_name": name, "configs": []}]})


# ------------------------------------------------------------------------------------------------ groups


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_a_groups_configs(raw: RawConnection, name: str, version: int) -> None:
    default = shown(raw, GROUP, name, SESSION, version=version)
    assert (default.value, default.config_source) == ("45000", DEFAULT)
    assert change(raw, GROUP, name, (SESSION, SET, "50000")) == 0
    wait_until(lambda: shown(raw, GROUP, name, SESSION, version=version).value == "50000", "the group's own value")
    config = shown(raw, GROUP, name, SESSION, version=version, include_synonyms=True)
    assert (config.config_source, config.read_only, config.is_sensitive) == (OF_GROUP, False, False)
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        (SESSION, "50000", OF_GROUP),
        (f"group.{SESSION}", "45000", DEFAULT),
    ]
    assert change(raw, GROUP, name, (SESSION, DELETE, None)) == 0
    wait_until(lambda: shown(raw, GROUP, name, SESSION).value == "45000", "the default again")


@pytest.mark.parametrize("version", versions(INCREMENTAL_ALTER_CONFIGS))
@pytest.mark.parametrize(
    ("key", "operation", "value", "code"),
    [
        ("no.such.config", SET, "1", INVALID_CONFIG),
        (SESSION, SET, "1", INVALID_CONFIG),
        (SESSION, SET, "99999999", INVALID_CONFIG),
        (SESSION, SET, "soon", INVALID_CONFIG),
        (SESSION, SET, None, INVALID_REQUEST),
        (SESSION, APPEND, "46000", INVALID_CONFIG),
        ("consumer.heartbeat.interval.ms", SET, "4999", INVALID_CONFIG),
        ("share.auto.offset.reset", SET, "none", INVALID_CONFIG),
        ("share.auto.offset.reset", SET, "by_duration:PT1H", 0),
        ("streams.num.standby.replicas", SET, "1", 0),
    ],
)
def test_group_configs_are_checked(
    raw: RawConnection, name: str, key: str, operation: int, value: str | None, code: int, version: int
) -> None:
    assert change(raw, GROUP, name, (key, operation, value), version=version, validate_only=True) == code


def test_a_group_must_have_a_name(raw: RawConnection) -> None:
    assert describe(raw, GROUP, "").error_code == INVALID_REQUEST
    assert change(raw, GROUP, "", (SESSION, SET, "50000")) == INVALID_REQUEST


# ------------------------------------------------------------------------------------------------ client metrics


def test_subscriptions_are_kept_and_listed(raw: RawConnection, name: str) -> None:
    assert change(raw, CLIENT_METRICS, name, ("interval.ms", SET, "60000"), ("match", SET, "client_id=a.*")) == 0
    wait_until(lambda: name in listed(raw, 0), "the subscription is listed")
    interval = shown(raw, CLIENT_METRICS, name, "interval.ms", include_synonyms=True)
    assert (interval.value, interval.config_source) == ("60000", OF_CLIENT_METRICS)
    assert [one.name for one in interval.synonyms] == ["interval.ms"]
    metrics = shown(raw, CLIENT_METRICS, name, "metrics", include_synonyms=True)
    assert (metrics.value, metrics.config_source, metrics.synonyms) == ("", DEFAULT, ())
    body = {"resources": [{"resource_type": CLIENT_METRICS, "resource_name": name, "configs": []}]}
    assert raw.request(ALTER_CONFIGS, 2, body).responses[0].error_code == 0
    wait_until(lambda: name not in listed(raw, 0), "a subscription without configs is gone")


@pytest.mark.parametrize(
    ("key", "operation", "value", "code"),
    [
        ("no.such.config", SET, "1", INVALID_REQUEST),
        ("interval.ms", SET, "99", INVALID_REQUEST),
        ("interval.ms", SET, "often", INVALID_CONFIG),
        ("match", SET, "client_id=[", INVALID_CONFIG),
        ("match", SET, "nobody=a", INVALID_CONFIG),
        ("metrics", APPEND, "org.", INVALID_CONFIG),
        ("metrics", SET, "*", 0),
    ],
)
def test_subscriptions_are_checked(
    raw: RawConnection, name: str, key: str, operation: int, value: str, code: int
) -> None:
    assert change(raw, CLIENT_METRICS, name, (key, operation, value), validate_only=True) == code


def test_a_subscription_must_have_a_name(raw: RawConnection) -> None:
    assert describe(raw, CLIENT_METRICS, "").error_code == INVALID_REQUEST
    assert change(raw, CLIENT_METRICS, "", ("metrics", SET, "*")) == INVALID_REQUEST


# ------------------------------------------------------------------------------------------------ loggers


@pytest.fixture
def broker_id(raw: RawConnection) -> str:
    return str(metadata(raw, []).brokers[0].node_id)


@pytest.fixture
def logger(raw: RawConnection, broker_id: str) -> Iterator[str]:
    """Some logger of the broker; it inherits its level again afterwards."""
    name = next(key for key in sorted(configs_of(describe(raw, BROKER_LOGGER, broker_id))) if "." in key)
    yield name
    assert change(raw, BROKER_LOGGER, broker_id, (name, DELETE, None)) == 0


@pytest.mark.parametrize("version", versions(DESCRIBE_CONFIGS))
def test_log_levels_are_shown_and_set(raw: RawConnection, broker_id: str, logger: str, version: int) -> None:
    inherited = shown(raw, BROKER_LOGGER, broker_id, "root", version=version).value
    for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
        assert change(raw, BROKER_LOGGER, broker_id, (logger, SET, level)) == 0
        config = shown(raw, BROKER_LOGGER, broker_id, logger, version=version)
        assert (config.value, config.config_source, config.read_only) == (level, OF_LOGGER, False)
    assert change(raw, BROKER_LOGGER, broker_id, (logger, DELETE, None)) == 0
    assert shown(raw, BROKER_LOGGER, broker_id, logger).value == inherited


def test_log_levels_are_checked(raw: RawConnection, broker_id: str, logger: str) -> None:
    before = shown(raw, BROKER_LOGGER, broker_id, logger).value
    for changes, code in (
        ([(logger, SET, "LOUD")], INVALID_CONFIG),
        ([(logger, SET, "info")], INVALID_CONFIG),
        ([("no.such.logger", SET, "INFO")], INVALID_CONFIG),
        ([("no.such.logger", DELETE, None)], INVALID_CONFIG),
        ([(logger, APPEND, "INFO")], INVALID_REQUEST),
        ([(logger, SET, None)], INVALID_REQUEST),
        ([("root", DELETE, None)], INVALID_REQUEST),
        ([(logger, SET, "INFO"), (logger, SET, "WARN")], INVALID_REQUEST),
        ([(logger, SET, "FATAL"), ("root", DELETE, None)], INVALID_REQUEST),
    ):
        assert change(raw, BROKER_LOGGER, broker_id, *changes) == code, changes
    assert change(raw, BROKER_LOGGER, broker_id, (logger, SET, "FATAL"), validate_only=True) == 0
    assert shown(raw, BROKER_LOGGER, broker_id, logger).value == before


def test_loggers_are_of_one_broker(raw: RawConnection, broker_id: str) -> None:
    for other in ("", "x", f"{broker_id}7"):
        assert describe(raw, BROKER_LOGGER, other).error_code == INVALID_REQUEST
        assert change(raw, BROKER_LOGGER, other, ("root", SET, "INFO")) == INVALID_REQUEST
    resource = {"resource_type": BROKER_LOGGER, "resource_name": broker_id, "configs": []}
    assert raw.request(ALTER_CONFIGS, 2, {"resources": [resource]}).responses[0].error_code == INVALID_REQUEST
    twice = raw.request(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource, resource]})
    assert [row.error_code for row in twice.responses] == [INVALID_REQUEST, INVALID_REQUEST]


def test_a_level_that_is_set_is_in_force(start_broker: Callable[..., BrokerProcess]) -> None:
    """The broker writes to stderr what its loggers let through: set to FATAL, a closed connection goes unsaid."""
    broker = start_broker()
    with RawConnection(broker.address) as connection:
        assert change(connection, BROKER_LOGGER, "1", ("runnel.listener", SET, "FATAL")) == 0
        send_nonsense(broker)
        assert change(connection, BROKER_LOGGER, "1", ("runnel.listener", SET, "WARN")) == 0
        send_nonsense(broker)
    assert broker.stderr_path.read_text().count("malformed request") == 1


def send_nonsense(broker: BrokerProcess) -> None:
    with RawConnection(broker.address) as connection:
        connection.send_bytes(b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff")
        assert connection.is_closed_by_peer()


# ------------------------------------------------------------------------------------------------ all of them


def listed(raw: RawConnection, version: int, *types: int) -> list[str]:
    reply = raw.request(LIST_CONFIG_RESOURCES, version, {"resource_types": list(types)})
    assert reply.error_code == 0
    return [resource.resource_name for resource in reply.config_resources]


def test_resources_are_listed_by_type(raw: RawConnection, new_topic: NewTopic, name: str, broker_id: str) -> None:
    topic = new_topic()
    assert change(raw, GROUP, name, (SESSION, SET, "50000")) == 0
    wait_until(lambda: name in listed(raw, 1, GROUP), "the group is listed")
    assert topic in listed(raw, 1, TOPIC)
    assert name not in listed(raw, 1, TOPIC)
    assert broker_id in listed(raw, 1, BROKER)
    assert broker_id in listed(raw, 1, BROKER_LOGGER)
    assert {topic, name, broker_id} <= set(listed(raw, 1))
    assert {topic, broker_id} <= set(listed(raw, 1, TOPIC, BROKER))
    assert topic not in listed(raw, 0)
    assert change(raw, GROUP, name, (SESSION, DELETE, None)) == 0
    wait_until(lambda: name not in listed(raw, 1, GROUP), "a group without configs is not listed")


@pytest.mark.parametrize("types", [[0], [99], [TOPIC, 99]])
def test_resources_of_an_unknown_type(raw: RawConnection, types: list[int]) -> None:
    reply = raw.request(LIST_CONFIG_RESOURCES, 1, {"resource_types": types})
    assert (reply.error_code, reply.config_resources) == (UNSUPPORTED_VERSION, ())


def test_an_empty_list_of_keys_asks_for_all(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert len(configs_of(describe(raw, TOPIC, name, keys=[]))) == len(configs_of(describe(raw, TOPIC, name)))


def test_configs_survive_a_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with RawConnection(broker.address) as connection:
        assert change(connection, GROUP, "g", (SESSION, SET, "50000")) == 0
        assert change(connection, CLIENT_METRICS, "m", ("metrics", SET, "*")) == 0
        assert change(connection, BROKER, "", ("log.retention.ms", SET, "5000000")) == 0
    broker.terminate()
    broker.start()
    with RawConnection(broker.address) as connection:
        assert shown(connection, GROUP, "g", SESSION).value == "50000"
        assert shown(connection, CLIENT_METRICS, "m", "metrics").value == "*"
        assert shown(connection, BROKER, "1", "log.retention.ms").value == "5000000"
