"""Admin calls: topics, partitions, configs, offsets, log dirs.

In: a `Cluster` and plain values. Out: plain values. Calls about several things answer for each of them:
one that is refused carries a `ClientError` and does not stop the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from runnel.client.cluster import Cluster, Patience
from runnel.client.errors import ClientError, refused
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct
from runnel.wire.types import ZERO_UUID

# These say "not here" or "not yet", before anything was done.
_PASSING = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
)


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


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


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one thing in a request about several."""

    name: str
    error: ClientError | None
    topic_id: uuid.UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    untouched: bool = False  # there was nothing to do, and the caller had said that this is fine


class ConfigChange(NamedTuple):
    operation: ConfigOperation
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def is_overridden(self) -> bool:
        return self.source == "topic"


async def create_topics(cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[Outcome]:
    async def send(names: Sequence[str]) -> Sequence[Struct]:
        body = {
            "topics": [_new_topic(topic) for topic in topics if topic.name in names],
            "timeout_ms": _timeout_ms(cluster),
            "validate_only": validate_only,
        }
        reply = await cluster.call_controller(ApiKey.CREATE_TOPICS, body)
        return list(reply.topics)

    rows = await _settle(cluster, [topic.name for topic in topics], send)
    return [
        Outcome(name, error, row.topic_id, row.num_partitions, row.replication_factor)
        for name, (row, error) in rows.items()
    ]


def _new_topic(topic: NewTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> list[Outcome]:
    async def send(wanted: Sequence[str]) -> Sequence[Struct]:
        body = {
            "topics": [{"name": name, "topic_id": ZERO_UUID} for name in wanted],
            "topic_names": list(wanted),  # before version 6
            "timeout_ms": _timeout_ms(cluster),
        }
        reply = await cluster.call_controller(ApiKey.DELETE_TOPICS, body)
        return list(reply.responses)

    rows = await _settle(cluster, names, send)
    return [Outcome(name, error, row.topic_id) for name, (row, error) in rows.items()]


async def create_partitions(
    cluster: Cluster, totals: Mapping[str, int], *, validate_only: bool = False
) -> list[Outcome]:
    """Grow topics to the given numbers of partitions."""

    async def send(wanted: Sequence[str]) -> Sequence[Struct]:
        body = {
            "topics": [{"name": name, "count": totals[name], "assignments": None} for name in wanted],
            "timeout_ms": _timeout_ms(cluster),
            "validate_only": validate_only,
        }
        reply = await cluster.call_controller(ApiKey.CREATE_PARTITIONS, body)
        return list(reply.results)

    rows = await _settle(cluster, list(totals), send)
    return [Outcome(name, error, partitions=totals[name]) for name, (_, error) in rows.items()]


async def alter_topic_configs(
    cluster: Cluster, names: Sequence[str], changes: Sequence[ConfigChange], *, validate_only: bool = False
) -> list[Outcome]:
    configs = [
        {"name": change.name, "config_operation": int(change.operation), "value": change.value} for change in changes
    ]

    async def send(wanted: Sequence[str]) -> Sequence[Struct]:
        resources = [
            {"resource_type": int(ResourceType.TOPIC), "resource_name": name, "configs": configs} for name in wanted
        ]
        body = {"resources": resources, "validate_only": validate_only}
        reply = await cluster.call_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
        return list(reply.responses)

    rows = await _settle(cluster, names, send)
    return [Outcome(name, error) for name, (_, error) in rows.items()]


async def describe_topic_configs(
    cluster: Cluster, names: Sequence[str], *, documentation: bool = False
) -> dict[str, list[ConfigEntry]]:
    """Every config of each topic, sorted by name."""
    resources = [
        {"resource_type": int(ResourceType.TOPIC), "resource_name": name, "configuration_keys": None} for name in names
    ]
    body = {"resources": resources, "include_synonyms": False, "include_documentation": documentation}
    reply = await cluster.call(ApiKey.DESCRIBE_CONFIGS, body)
    described: dict[str, list[ConfigEntry]] = {}
    for result in reply.results:
        if result.error_code:
            raise refused(result.error_code, f"topic '{result.resource_name}'", result.error_message)
        described[result.resource_name] = sorted(map(_config_entry, result.configs), key=lambda row: row.name)
    return described


def _config_entry(row: Struct) -> ConfigEntry:
    source = CONFIG_SOURCES.get(row.config_source, str(row.config_source))
    return ConfigEntry(row.name, row.value, source, row.read_only, row.is_sensitive, row.documentation)


async def topic_sizes(cluster: Cluster, names: Sequence[str]) -> dict[str, dict[int, int]]:
    """Bytes on disk by topic and partition, of the largest replica."""
    topics = []
    for name in names:
        topic = cluster.view.topics[name]
        topics.append({"topic": name, "partitions": [partition.index for partition in topic.partitions]})
    sizes: dict[str, dict[int, int]] = {name: {} for name in names}
    for node_id in cluster.view.brokers:
        reply = await cluster.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": topics}, node_id=node_id)
        for directory in reply.results:
            for topic in directory.topics:
                of_topic = sizes.setdefault(topic.name, {})
                for row in topic.partitions:
                    index = row.partition_index
                    of_topic[index] = max(of_topic.get(index, 0), row.partition_size)
    return sizes


async def _settle(
    cluster: Cluster, names: Sequence[str], send: Callable[[Sequence[str]], Awaitable[Sequence[Struct]]]
) -> dict[str, tuple[Struct, ClientError | None]]:
    """Send until each name has a final answer; only what was not yet touched is sent again."""
    settled: dict[str, tuple[Struct, ClientError | None]] = {}
    patience = Patience(cluster.timeout_s)
    remaining = list(dict.fromkeys(names))
    while remaining:
        passing: ClientError | None = None
        for row in await send(remaining):
            name = row.resource_name if "resource_name" in row.to_dict() else row.name
            error = refused(row.error_code, f"topic '{name}'", row.error_message) if row.error_code else None
            if error is not None and error.code in _PASSING:
                passing = error
            else:
                settled[name] = row, error
        remaining = [name for name in remaining if name not in settled]
        if remaining:
            await patience.wait_or_raise(passing or _left_out(remaining))
            await cluster.refresh(())
    return {name: settled[name] for name in dict.fromkeys(names)}


def _left_out(names: Sequence[str]) -> ClientError:
    return ClientError(f"the broker's answer leaves out {', '.join(names)}")


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.timeout_s * 1000)
