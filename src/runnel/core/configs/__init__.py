"""Configuration tables and their resolution.

Owns every topic config of Apache Kafka 4.3 (`topic`), its group configs (`group`) and those of client metrics
subscriptions (`client_metrics`), the broker configs that Runnel has (`broker`), how a text becomes a value
(`definitions`), which of several sources wins and what DescribeConfigs shows (`view`), and which sets of overrides are
refused (`rules`). Text goes in, typed values and rows come out. Imports `runnel.wire.errors` only.
"""

from runnel.core.configs.broker import BROKER_CONFIGS
from runnel.core.configs.client_metrics import CLIENT_METRICS_CONFIGS
from runnel.core.configs.definitions import (
    ConfigDefinition,
    ConfigInvalid,
    ConfigKind,
    ConfigSource,
    ConfigType,
    ConfigUnknown,
    ConfigValue,
    parse,
    render,
)
from runnel.core.configs.group import GROUP_CONFIGS
from runnel.core.configs.rules import ConfigRules
from runnel.core.configs.topic import TOPIC_CONFIGS
from runnel.core.configs.view import BrokerConfigView, ConfigRow, ConfigSynonym, ConfigView

__all__ = [
    "BROKER_CONFIGS",
    "CLIENT_METRICS_CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfigView",
    "ConfigDefinition",
    "ConfigInvalid",
    "ConfigKind",
    "ConfigRow",
    "ConfigRules",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConfigUnknown",
    "ConfigValue",
    "ConfigView",
    "parse",
    "render",
]
