"""Configuration tables and their resolution.

Owns every topic config of Apache Kafka 4.3 (`topic`), the broker configs that Runnel has (`broker`), how a
text becomes a value (`definitions`), which of several sources wins and what DescribeConfigs shows (`view`),
and which sets of overrides are refused (`rules`). Text goes in, typed values and rows come out. Imports
nothing of ours.
"""

from runnel.core.configs.broker import BROKER_CONFIGS
from runnel.core.configs.definitions import (
    ConfigDefinition,
    ConfigInvalid,
    ConfigSource,
    ConfigType,
    ConfigUnknown,
    ConfigValue,
    parse,
    render,
)
from runnel.core.configs.rules import ConfigRules
from runnel.core.configs.topic import TOPIC_CONFIGS
from runnel.core.configs.view import BrokerConfigView, ConfigRow, ConfigSynonym, ConfigView

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfigView",
    "ConfigDefinition",
    "ConfigInvalid",
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
