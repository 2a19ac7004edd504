"""Admin calls about topics: create, delete, grow, sizes.

In: a `Cluster` and plain values. Out: plain values. Calls about several things answer for each of them:
one that is refused carries a `ClientError` and does not stop the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.settling import settle
from runnel.wire.apis import ApiKey
from runnel.wire.messages import Struct
from runnel.wire.types import ZERO_UUID


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
    cluster: Cluster, names: Iterable[str], send: Callable[[Sequence[str]], Awaitable[Iterable[Struct]]]
) -> dict[str, tuple[Struct, ClientError | None]]:
    async def named(wanted: Sequence[str]) -> list[tuple[str, Struct]]:
        return [(row.name, row) for row in await send(wanted)]

    return await settle(cluster, names, named, lambda name: f"topic '{name}'")


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.timeout_s * 1000)
