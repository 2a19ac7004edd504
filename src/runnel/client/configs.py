"""Configs of topics, brokers, groups, broker loggers and client metrics: describe, change, list who has some.

In: a `Cluster` and resources. Out: entries with their source and documentation; per resource, an error does
not stop the others. What a broker alone knows (its own configs and loggers) is asked of that broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError, refused
from runnel.client.settling import settle
from runnel.wire.apis import ApiKey
from runnel.wire.messages import Struct


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


# The defaults of all brokers have no name of their own.
ALL_BROKERS = ""


class ConfigResource(NamedTuple):
    type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.type is ResourceType.BROKER and self.name == ALL_BROKERS:
            return "all brokers"
        return f"{self.type.word.replace('-', ' ')} '{self.name}'"


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    operation: ConfigOperation
    name: str
    value: str | None = None


CONFIG_SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
# What was set for a resource itself, rather than for what it inherits from.
OWN_SOURCES: dict[ResourceType, tuple[str, ...]] = {
    ResourceType.TOPIC: ("topic",),
    ResourceType.BROKER: ("broker", "cluster"),
    ResourceType.BROKER_LOGGER: ("logger",),
    ResourceType.CLIENT_METRICS: ("client-metrics",),
    ResourceType.GROUP: ("group",),
}
CONFIG_TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str
    type: str
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: tuple[Synonym, ...] = ()

    def is_own(self, resource_type: ResourceType) -> bool:
        """Whether it was set for the resource itself, and can be unset there."""
        return self.source in OWN_SOURCES[resource_type]


async def describe_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    names: Sequence[str] | None = None,
    *,
    documentation: bool = False,
    synonyms: bool = False,
) -> dict[ConfigResource, list[ConfigEntry] | ClientError]:
    """The configs of each resource (only `names`, if given), sorted by name."""
    wanted = list(dict.fromkeys(resources))
    described: dict[ConfigResource, list[ConfigEntry] | ClientError] = {}
    for node_id, group in _by_node(wanted).items():
        rows = [{**_named(resource), "configuration_keys": names} for resource in group]
        body = {"resources": rows, "include_synonyms": synonyms, "include_documentation": documentation}
        reply = await cluster.call(ApiKey.DESCRIBE_CONFIGS, body, node_id=node_id)
        for result in reply.results:
            resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
            if result.error_code:
                described[resource] = refused(result.error_code, str(resource), result.error_message)
            else:
                described[resource] = sorted(map(_entry, result.configs), key=lambda entry: entry.name)
    return {resource: described[resource] for resource in wanted if resource in described}


async def topic_configs(cluster: Cluster, name: str) -> list[ConfigEntry]:
    (found,) = (await describe_configs(cluster, [topic_resource(name)])).values()
    if isinstance(found, ClientError):
        raise found
    return found


async def alter_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    changes: Sequence[ConfigChange],
    *,
    validate_only: bool = False,
) -> dict[ConfigResource, ClientError | None]:
    """Make the same changes to each resource; what is not named stays as it is."""
    configs = [
        {"name": change.name, "config_operation": int(change.operation), "value": change.value} for change in changes
    ]
    outcomes: dict[ConfigResource, ClientError | None] = {}
    for node_id, group in _by_node(resources).items():

        async def send(
            wanted: Sequence[ConfigResource], node_id: int | None = node_id
        ) -> list[tuple[ConfigResource, Struct]]:
            body = {
                "resources": [{**_named(resource), "configs": configs} for resource in wanted],
                "validate_only": validate_only,
            }
            api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
            reply = await (
                cluster.call_controller(api_key, body)
                if node_id is None
                else cluster.call(api_key, body, node_id=node_id)
            )
            return [(_resource(row), row) for row in reply.responses]

        outcomes |= {key: error for key, (_, error) in (await settle(cluster, group, send, str)).items()}
    return outcomes


async def list_config_resources(cluster: Cluster, types: Iterable[ResourceType]) -> list[ConfigResource]:
    """Who may have configs, as the broker tells (KIP-1142; an older broker says UNSUPPORTED_VERSION)."""
    reply = await cluster.call(ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [int(kind) for kind in types]})
    if reply.error_code:
        raise refused(reply.error_code, "config resources")
    return sorted(map(_resource, reply.config_resources))


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    nodes: defaultdict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in resources:
        nodes[_node(resource)].append(resource)
    return nodes


def _node(resource: ConfigResource) -> int | None:
    if resource.type not in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) or resource.name == ALL_BROKERS:
        return None
    if not resource.name.isdigit():
        raise ClientError(f"'{resource.name}' is not a broker: brokers are numbers; `runnel cluster info` lists them")
    return int(resource.name)


def _named(resource: ConfigResource) -> dict[str, Any]:
    return {"resource_type": int(resource.type), "resource_name": resource.name}


def _resource(row: Struct) -> ConfigResource:
    return ConfigResource(ResourceType(row.resource_type), row.resource_name)


def _entry(row: Struct) -> ConfigEntry:
    return ConfigEntry(
        row.name,
        row.value,
        _source(row.config_source),
        CONFIG_TYPES.get(row.config_type, "unknown"),
        row.read_only,
        row.is_sensitive,
        row.documentation,
        tuple(Synonym(each.name, each.value, _source(each.source)) for each in row.synonyms),
    )


def _source(code: int) -> str:
    return CONFIG_SOURCES.get(code, str(code))
