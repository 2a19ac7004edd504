"""Which sets of overrides are refused, in the shape that the metadata machine asks for.

In: the kind of a resource and the overrides that it would have. Out: None, or a Refusal with Kafka's code that says why
not. Holds Kafka's rules that span several keys; limits of single keys are in the tables.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from runnel.core.configs.broker import BROKER_CONFIGS
from runnel.core.configs.client_metrics import CLIENT_METRICS_CONFIGS, INTERVAL_MS_MAX, INTERVAL_MS_MIN
from runnel.core.configs.definitions import (
    ConfigDefinition,
    ConfigInvalid,
    ConfigKind,
    ConfigType,
    ConfigUnknown,
    parse,
)
from runnel.core.configs.group import GROUP_CONFIGS, GROUP_KINDS, LIMITS
from runnel.core.configs.topic import TOPIC_CONFIGS
from runnel.core.configs.view import BrokerConfigView
from runnel.wire.errors import ErrorCode, Refusal


class ConfigMisused(ConfigInvalid):
    """What is asked cannot be, whatever the value."""


def check_topic_configs(overrides: Mapping[str, str], broker: BrokerConfigView) -> None:
    """ConfigInvalid where a topic may not have these overrides on this broker."""
    for name, text in overrides.items():
        parse(_known(TOPIC_CONFIGS, name, "topic config"), text)
    view = broker.topic(overrides)
    minimum, maximum = view["min.compaction.lag.ms"], view["max.compaction.lag.ms"]
    if minimum > maximum:
        raise ConfigInvalid(f"min.compaction.lag.ms ({minimum}) is more than max.compaction.lag.ms ({maximum})")
    if view["remote.storage.enable"]:
        # Kafka refuses the same way while remote.log.storage.system.enable is false, its default.
        raise ConfigInvalid("remote.storage.enable: tiered storage is not switched on in this broker")


def check_broker_configs(overrides: Mapping[str, str], broker: BrokerConfigView) -> None:
    """ConfigInvalid where a running broker may not be given these overrides."""
    for name, text in overrides.items():
        definition = _known(BROKER_CONFIGS, name, "broker config")
        if definition.read_only:
            raise ConfigInvalid(f"{name} is read at start-up and cannot be changed on a running broker")
        parse(definition, text)


def check_group_configs(overrides: Mapping[str, str], broker: BrokerConfigView) -> None:
    """ConfigInvalid where a group may not have these overrides on this broker."""
    for name, text in overrides.items():
        parse(_known(GROUP_CONFIGS, name, "group config"), text)
    view = broker.group(overrides)
    for name, limit in LIMITS.items():
        if name in overrides:
            minimum = broker.get(limit.minimum_key, limit.minimum)
            maximum = broker.get(limit.maximum_key, limit.maximum)
            if not minimum <= view[name] <= maximum:
                raise ConfigInvalid(f"{name}: {view[name]} is not allowed; give from {minimum} to {maximum}")
    for kind in GROUP_KINDS:
        session_ms, heartbeat_ms = view[f"{kind}.session.timeout.ms"], view[f"{kind}.heartbeat.interval.ms"]
        if session_ms <= heartbeat_ms:
            message = f"{kind}.session.timeout.ms ({session_ms}) must be more than {kind}.heartbeat.interval.ms"
            raise ConfigInvalid(f"{message} ({heartbeat_ms})")


def check_client_metrics_configs(overrides: Mapping[str, str], broker: BrokerConfigView) -> None:
    """ConfigInvalid where a client metrics subscription may not have these overrides. Kafka's codes differ by what is
    wrong: a bad request where the key or the interval is, a bad config else."""
    for name, text in overrides.items():
        try:
            value = parse(_known(CLIENT_METRICS_CONFIGS, name, "client metrics configuration"), text)
        except ConfigUnknown as error:
            raise ConfigMisused(str(error)) from error
        if name == "interval.ms" and isinstance(value, int) and not INTERVAL_MS_MIN <= value <= INTERVAL_MS_MAX:
            raise ConfigMisused(f"{name}: {value} is not allowed; give from {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}")


def check_static_configs(settings: Mapping[str, str]) -> None:
    """ConfigInvalid where a broker may not start with these settings."""
    for name, text in settings.items():
        parse(_known(BROKER_CONFIGS, name, "setting"), text)
    _check_consumer_groups(BrokerConfigView(settings))


def _check_consumer_groups(broker: BrokerConfigView) -> None:
    """The defaults of consumer groups lie within the limits that are set for single groups, as Kafka demands."""
    for rest in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        least, value, most = (broker[f"group.consumer.{part}{rest}"] for part in ("min.", "", "max."))
        if not least <= value <= most:
            raise ConfigInvalid(f"group.consumer.{rest} is {value}; its limits are set to {least} and {most}")
    session_ms, beat_ms = broker["group.consumer.session.timeout.ms"], broker["group.consumer.heartbeat.interval.ms"]
    if session_ms <= beat_ms:
        message = f"group.consumer.session.timeout.ms ({session_ms}) must be more than"
        raise ConfigInvalid(f"{message} group.consumer.heartbeat.interval.ms ({beat_ms})")


class _Rule(NamedTuple):
    table: Mapping[str, ConfigDefinition]
    check: Callable[[Mapping[str, str], BrokerConfigView], None]
    code: ErrorCode


_RULES = {
    ConfigKind.TOPIC: _Rule(TOPIC_CONFIGS, check_topic_configs, ErrorCode.INVALID_CONFIG),
    ConfigKind.BROKER: _Rule(BROKER_CONFIGS, check_broker_configs, ErrorCode.INVALID_REQUEST),
    ConfigKind.CLIENT_METRICS: _Rule(CLIENT_METRICS_CONFIGS, check_client_metrics_configs, ErrorCode.INVALID_CONFIG),
    ConfigKind.GROUP: _Rule(GROUP_CONFIGS, check_group_configs, ErrorCode.INVALID_CONFIG),
}


class ConfigRules:
    """The rules of one broker, as `core.metadata` takes them."""

    __slots__ = ("_broker",)

    def __init__(self, broker: BrokerConfigView) -> None:
        self._broker = broker

    def refusal(self, kind: int, overrides: Mapping[str, str]) -> Refusal | None:
        """Why a resource of this kind may not have these overrides."""
        rule = _RULES[ConfigKind(kind)]
        try:
            rule.check(overrides, self._broker)
        except ConfigMisused as error:
            return Refusal(ErrorCode.INVALID_REQUEST, str(error))
        except ConfigInvalid as error:
            return Refusal(rule.code, str(error))
        return None

    def list_default(self, kind: int, name: str) -> tuple[str, ...] | None:
        """The default words of a config of type LIST, to which more can be appended; None where it is not one.

        Kafka knows no lists but those of topics and brokers.
        """
        if kind not in (ConfigKind.TOPIC, ConfigKind.BROKER):
            return None
        definition = _RULES[ConfigKind(kind)].table.get(name)
        if definition is None or definition.type is not ConfigType.LIST:
            return None
        value = self._broker.topic_defaults[name] if kind == ConfigKind.TOPIC else definition.default
        return value if isinstance(value, tuple) else ()


def _known(table: Mapping[str, ConfigDefinition], name: str, what: str) -> ConfigDefinition:
    definition = table.get(name)
    if definition is None:
        near = difflib.get_close_matches(name, table, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigUnknown(f"Unknown {what} name: {name}{hint}")
    return definition
