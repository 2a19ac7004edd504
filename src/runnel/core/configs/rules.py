"""Which sets of overrides are refused, in the shape that the metadata machine asks for.

In: the overrides that a topic or broker would have. Out: None, or one line that says why not. Holds Kafka's
rules that span several keys; limits of single keys are in the tables.
"""

import difflib
from collections.abc import Mapping

from runnel.core.configs.broker import BROKER_CONFIGS
from runnel.core.configs.definitions import (
    ConfigDefinition,
    ConfigInvalid,
    ConfigType,
    ConfigUnknown,
    parse,
)
from runnel.core.configs.topic import TOPIC_CONFIGS
from runnel.core.configs.view import BrokerConfigView


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


def check_broker_configs(overrides: Mapping[str, str]) -> None:
    """ConfigInvalid where a running broker may not be given these overrides."""
    for name, text in overrides.items():
        definition = _known(BROKER_CONFIGS, name, "broker config")
        if definition.read_only:
            raise ConfigInvalid(f"{name} is read at start-up and cannot be changed on a running broker")
        parse(definition, text)


def check_static_configs(settings: Mapping[str, str]) -> None:
    """ConfigInvalid where a broker may not start with these settings."""
    for name, text in settings.items():
        parse(_known(BROKER_CONFIGS, name, "setting"), text)


class ConfigRules:
    """The rules of one broker, as `core.metadata` takes them."""

    __slots__ = ("_broker",)

    def __init__(self, broker: BrokerConfigView) -> None:
        self._broker = broker

    def topic_refusal(self, overrides: Mapping[str, str]) -> str | None:
        try:
            check_topic_configs(overrides, self._broker)
        except ConfigInvalid as error:
            return str(error)
        return None

    def broker_refusal(self, overrides: Mapping[str, str]) -> str | None:
        try:
            check_broker_configs(overrides)
        except ConfigInvalid as error:
            return str(error)
        return None

    def topic_list(self, name: str) -> tuple[str, ...] | None:
        """The default words of a topic config of type LIST; None where it is not a list."""
        definition = TOPIC_CONFIGS.get(name)
        if definition is None or definition.type is not ConfigType.LIST:
            return None
        value = self._broker.topic_defaults[name]
        return value if isinstance(value, tuple) else ()

    def broker_list(self, name: str) -> tuple[str, ...] | None:
        """The default words of a broker config of type LIST; None where it is not a list."""
        definition = BROKER_CONFIGS.get(name)
        if definition is None or definition.type is not ConfigType.LIST:
            return None
        return definition.default if isinstance(definition.default, tuple) else ()


def _known(table: Mapping[str, ConfigDefinition], name: str, what: str) -> ConfigDefinition:
    definition = table.get(name)
    if definition is None:
        near = difflib.get_close_matches(name, table, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigUnknown(f"Unknown {what} name: {name}{hint}")
    return definition
