"""Which value wins, and what DescribeConfigs shows.

In: the texts that were set, by source. Out: typed values by name, and rows with Kafka's sources and synonyms.
The order is Kafka's: topic > this broker, dynamic > all brokers, dynamic > settings at start-up > default.
Views are immutable; a change of configuration makes a new one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from runnel.core.configs.broker import BROKER_CONFIGS, FAMILIES
from runnel.core.configs.client_metrics import CLIENT_METRICS_CONFIGS
from runnel.core.configs.definitions import (
    ConfigDefinition,
    ConfigInvalid,
    ConfigKind,
    ConfigSource,
    ConfigType,
    ConfigValue,
    parse,
    render,
)
from runnel.core.configs.group import GROUP_CONFIGS
from runnel.core.configs.topic import TOPIC_CONFIGS

_TABLES = {
    ConfigKind.TOPIC: (TOPIC_CONFIGS, ConfigSource.TOPIC),
    ConfigKind.GROUP: (GROUP_CONFIGS, ConfigSource.GROUP),
    ConfigKind.CLIENT_METRICS: (CLIENT_METRICS_CONFIGS, ConfigSource.CLIENT_METRICS),
}
_NOTHING: Mapping[str, str] = MappingProxyType({})


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigRow(NamedTuple):
    """One entry of DescribeConfigs; `value` is None where it is unset or sensitive."""

    name: str
    value: str | None
    source: ConfigSource
    is_default: bool
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    documentation: str


class BrokerConfigView:
    """The configuration of one broker: settings at start-up under what was changed since.

    Texts that do not parse (a log written by another version) are left out and named in `ignored`.
    """

    __slots__ = ("_by_source", "_defaults", "_values", "ignored", "topic_defaults")

    def __init__(
        self,
        static: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
        dynamic: Mapping[str, str] = _NOTHING,
    ) -> None:
        ignored: list[str] = []
        self._by_source = (
            (ConfigSource.DYNAMIC_BROKER, _parse_known(BROKER_CONFIGS, dynamic, ignored)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, _parse_known(BROKER_CONFIGS, dynamic_default, ignored)),
            (ConfigSource.STATIC_BROKER, _parse_known(BROKER_CONFIGS, static, ignored)),
        )
        values = {name: definition.default for name, definition in BROKER_CONFIGS.items()}
        for _, texts_and_values in reversed(self._by_source):
            values.update((name, value) for name, (_, value) in texts_and_values.items())
        self._values = values
        self.ignored = tuple(ignored)
        self._defaults: dict[ConfigKind, Mapping[str, ConfigValue]] = {
            kind: MappingProxyType({name: self._default(definition) for name, definition in table.items()})
            for kind, (table, _) in _TABLES.items()
        }
        self.topic_defaults = self._defaults[ConfigKind.TOPIC]

    # Typed Any on purpose: the type of a value follows from its key, and the tables are tested for that.
    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any) -> Any:
        """The value of a key that this release may not have."""
        return self._values.get(name, default)

    def with_dynamic(
        self, dynamic_default: Mapping[str, str] = _NOTHING, dynamic: Mapping[str, str] = _NOTHING
    ) -> "BrokerConfigView":
        """The same settings at start-up under other dynamic ones."""
        static = {name: text for name, (text, _) in self._by_source[2][1].items()}
        return BrokerConfigView(static, dynamic_default, dynamic)

    def topic(self, overrides: Mapping[str, str] = _NOTHING) -> "ConfigView":
        """The configuration of a topic with these overrides on this broker."""
        return ConfigView(self, overrides)

    def group(self, overrides: Mapping[str, str] = _NOTHING) -> "ConfigView":
        return ConfigView(self, overrides, ConfigKind.GROUP)

    def client_metrics(self, overrides: Mapping[str, str] = _NOTHING) -> "ConfigView":
        return ConfigView(self, overrides, ConfigKind.CLIENT_METRICS)

    def defaults(self, kind: ConfigKind) -> Mapping[str, ConfigValue]:
        """What a topic, a group or a subscription has that sets nothing."""
        return self._defaults[kind]

    def describe(self, names: Collection[str] | None = None) -> list[ConfigRow]:
        """The rows of one broker; all of them, or those named that exist."""
        return [
            self._row(definition, self.synonyms(definition.name)) for definition in _selected(BROKER_CONFIGS, names)
        ]

    def describe_default(self, names: Collection[str] | None = None) -> list[ConfigRow]:
        """The rows of the broker resource without a name: only what is set for all brokers."""
        set_for_all = self._by_source[1][1]
        rows = []
        for definition in _selected(BROKER_CONFIGS, names):
            if definition.name in set_for_all:
                synonyms = self.synonyms(definition.name)
                default = ConfigSource.DYNAMIC_DEFAULT_BROKER
                rows.append(self._default_row(definition, [row for row in synonyms if row.source is default]))
        return rows

    def synonyms(self, name: str) -> tuple[ConfigSynonym, ...]:
        """Every place that sets this key, strongest first.

        A key with coarser relatives (log.retention.ms, .minutes, .hours) lists those too, but only from its
        own first entry on: what comes before is left out, exactly as Kafka does.
        """
        family = _FAMILY_OF.get(name, (name,))
        found = [
            ConfigSynonym(member, None if BROKER_CONFIGS[member].sensitive else values[member][0], source)
            for source, values in self._by_source
            for member in family
            if member in values
        ]
        for member in family:
            definition = BROKER_CONFIGS[member]
            if definition.default is not None:
                text = None if definition.sensitive else render(definition.default)
                found.append(ConfigSynonym(member, text, ConfigSource.DEFAULT))
        first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return tuple(found[first:])

    def _row(self, definition: ConfigDefinition, synonyms: tuple[ConfigSynonym, ...]) -> ConfigRow:
        return _row(definition, self._values[definition.name], synonyms)

    def _default_row(self, definition: ConfigDefinition, synonyms: Iterable[ConfigSynonym]) -> ConfigRow:
        value = self._by_source[1][1][definition.name][1]
        return _row(definition, value, tuple(synonyms))

    def _default(self, definition: ConfigDefinition) -> ConfigValue:
        if definition.broker_synonym is None:
            return definition.default
        for member, factor in FAMILIES.get(definition.broker_synonym, ((definition.broker_synonym, 1),)):
            value = self._values.get(member)
            if value is not None:
                # A negative duration means no limit, in whatever unit.
                return value * factor if isinstance(value, int) and factor != 1 and value > 0 else value
        return definition.default


class ConfigView:
    """The effective configuration of one topic, group or subscription. `view["retention.ms"]` is the typed value."""

    __slots__ = ("_broker", "_kind", "_overrides", "_values", "ignored")

    def __init__(
        self,
        broker: BrokerConfigView,
        overrides: Mapping[str, str] = _NOTHING,
        kind: ConfigKind = ConfigKind.TOPIC,
    ) -> None:
        ignored: list[str] = []
        self._broker = broker
        self._kind = kind
        self._overrides = _parse_known(_TABLES[kind][0], overrides, ignored) if overrides else {}
        self.ignored = tuple(ignored)
        # Most topics set nothing: they share one mapping, so 10 000 views cost little.
        self._values = broker.defaults(kind)
        if self._overrides:
            own = {name: value for name, (_, value) in self._overrides.items()}
            self._values = {**self._values, **own}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def describe(self, names: Collection[str] | None = None) -> list[ConfigRow]:
        """The rows of DescribeConfigs; all of them, or those named that exist."""
        return [self._row(definition) for definition in _selected(_TABLES[self._kind][0], names)]

    def _row(self, definition: ConfigDefinition) -> ConfigRow:
        value = self._values[definition.name]
        synonyms = self._below(definition)
        if definition.name in self._overrides:
            text = None if definition.sensitive else render(value)
            synonyms = (ConfigSynonym(definition.name, text, _TABLES[self._kind][1]), *synonyms)
        return _row(definition, value, synonyms)

    def _below(self, definition: ConfigDefinition) -> tuple[ConfigSynonym, ...]:
        """Where the value would come from that is not set here."""
        broker_name = definition.broker_synonym
        if broker_name in BROKER_CONFIGS:
            return self._broker.synonyms(broker_name)
        if self._kind is not ConfigKind.GROUP:
            return ()
        # Kafka names the broker key, which this broker may not have, or the key itself.
        return (ConfigSynonym(broker_name or definition.name, render(definition.default), ConfigSource.DEFAULT),)


_FAMILY_OF: dict[str, tuple[str, ...]] = {
    name: tuple(member for member, _ in members) for members in FAMILIES.values() for name, _ in members
}


def _row(definition: ConfigDefinition, value: ConfigValue, synonyms: tuple[ConfigSynonym, ...]) -> ConfigRow:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigRow(
        name=definition.name,
        value=None if definition.sensitive else render(value),
        source=source,
        is_default=source is ConfigSource.DEFAULT,
        read_only=definition.read_only,
        sensitive=definition.sensitive,
        synonyms=synonyms,
        type=definition.type,
        documentation=definition.documentation,
    )


def _selected(table: Mapping[str, ConfigDefinition], names: Collection[str] | None) -> list[ConfigDefinition]:
    if names is None:
        return list(table.values())
    return [definition for name, definition in table.items() if name in names]


def _parse_known(
    table: Mapping[str, ConfigDefinition], texts: Mapping[str, str], ignored: list[str]
) -> dict[str, tuple[str, ConfigValue]]:
    """Text and value of every key that is known and parses; the others go to `ignored`."""
    known: dict[str, tuple[str, ConfigValue]] = {}
    for name, text in texts.items():
        try:
            known[name] = (text, parse(table[name], text))
        except (KeyError, ConfigInvalid):
            ignored.append(name)
    return known
