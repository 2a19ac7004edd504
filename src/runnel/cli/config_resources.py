"""Which resource a config verb is about: options as kafka-configs has them, made into `ConfigResource`s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from runnel.cli.options import BrokerId, Decorated, GroupName, TopicName
from runnel.client.configs import ALL_BROKERS, ConfigResource, ResourceType

ENTITY_TYPES = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
_BY_OPTION = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker_loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client_metrics": ResourceType.CLIENT_METRICS,
}


def resource_options(function: Decorated) -> Decorated:
    """Adds the options; their values arrive as keyword arguments for `chosen_resources`."""
    for option in reversed(
        (
            click.option("-t", "--topic", "topics", multiple=True, type=TopicName(), help="A topic."),
            click.option("--broker", "brokers", multiple=True, type=BrokerId(), help="One broker, by its number."),
            click.option("--broker-defaults", is_flag=True, help="What all brokers share."),
            click.option("-g", "--group", "groups", multiple=True, type=GroupName(), help="A consumer group."),
            click.option(
                "--broker-logger",
                "broker_loggers",
                multiple=True,
                type=BrokerId(),
                help="The log levels of a broker, by its number.",
            ),
            click.option("--client-metrics", metavar="NAME", multiple=True, help="A subscription to client metrics."),
            click.option("--entity-type", type=click.Choice(list(ENTITY_TYPES)), hidden=True),
            click.option("--entity-name", "entity_names", multiple=True, hidden=True),
            click.option("--entity-default", is_flag=True, hidden=True),
        )
    ):
        function = option(function)
    return function


def chosen_resources(options: Mapping[str, Any]) -> list[ConfigResource]:
    """What the options name, in their order and without repeats; nothing named is a usage error."""
    chosen = [ConfigResource(kind, name) for option, kind in _BY_OPTION.items() for name in options[option]]
    if options["broker_defaults"]:
        chosen.append(ConfigResource(ResourceType.BROKER, ALL_BROKERS))
    chosen += _entities(options["entity_type"], options["entity_names"], options["entity_default"])
    if not chosen:
        raise click.UsageError(
            "say whose configs: --topic NAME, --broker ID, --broker-defaults, --group NAME, --broker-logger ID "
            "or --client-metrics NAME"
        )
    for resource in chosen:
        if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name != ALL_BROKERS:
            _check_number(resource.name)
    return list(dict.fromkeys(chosen))


def _entities(entity_type: str | None, names: Sequence[str], default: bool) -> list[ConfigResource]:
    if entity_type is None:
        if names or default:
            raise click.UsageError("--entity-name needs --entity-type")
        return []
    if not names and not default:
        raise click.UsageError("--entity-type needs --entity-name or --entity-default")
    kind = ENTITY_TYPES[entity_type]
    return [ConfigResource(kind, name) for name in (*names, *((ALL_BROKERS,) if default else ()))]


def _check_number(name: str) -> None:
    if not (name.isascii() and name.isdigit()):
        raise click.UsageError(f"'{name}' is not a broker: brokers are numbers (`runnel cluster info` lists them)")
