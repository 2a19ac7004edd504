"""Offsets: what a partition holds, where a position given by a person lies, and trimming.

In: a `Cluster`, partitions, and positions such as `start`, `-10` or `@2026-01-01T00:00`. Out: offsets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.wire.apis import ApiKey

LATEST = -1
EARLIEST = -2
NOT_FOUND = -1

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class PositionKind(Enum):
    START = "start"
    END = "end"
    OFFSET = "offset"
    FROM_END = "from-end"
    TIMESTAMP = "timestamp"


class Position(NamedTuple):
    kind: PositionKind
    number: int = 0


class Bounds(NamedTuple):
    """The first offset that a partition still has, and the one that its next record gets."""

    start: int
    end: int


class FoundOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ResolvedPosition:
    offset: int
    asked_offset: int
    bounds: Bounds


def parse_position(text: str) -> Position:
    """`start`, `end`, an offset, `-N` (N before the end), or `@` with milliseconds or an ISO time."""
    word = text.strip().lower()
    if word in ("start", "beginning", "earliest", "oldest"):
        return Position(PositionKind.START)
    if word in ("end", "latest", "newest"):
        return Position(PositionKind.END)
    if word.startswith("@"):
        return Position(PositionKind.TIMESTAMP, parse_timestamp_ms(text.strip()[1:]))
    try:
        number = int(word)
    except ValueError:
        raise ClientError(
            f"'{text}' is not a position: write start, end, an offset such as 42, -10 for the last ten, "
            "or @TIME such as @2026-01-31T08:00"
        ) from None
    if number < 0 or word.startswith("-"):
        return Position(PositionKind.FROM_END, -number)
    return Position(PositionKind.OFFSET, number)


def parse_timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or an ISO date or date and time; UTC unless it names another zone."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ClientError(
            f"'{text}' is not a time: write milliseconds since 1970, or an ISO time such as 2026-01-31T08:00 (UTC)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


_DURATION = re.compile(
    r"(?:(?P<w>\d+)w)?(?:(?P<d>\d+(?:\.\d+)?)d)?t?"
    r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+)ms)?"
)
_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def parse_duration_ms(text: str) -> int:
    """`90m`, `1h30m`, `7d`, or ISO 8601: `PT1H30M`, `P7D`."""
    found = _DURATION.fullmatch(text.strip().lower().removeprefix("p"))
    amounts = {unit: float(amount) for unit, amount in found.groupdict().items() if amount} if found else {}
    if not amounts:
        raise ClientError(f"'{text}' is not a duration: write 90m, 1h30m, 7d, or as ISO 8601 PT1H30M")
    return round(sum(amount * _UNIT_MS[unit] for unit, amount in amounts.items()))


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """The offset for a timestamp (or EARLIEST, LATEST) in each partition; -1 where there is none."""

    async def ask(node_id: int, group: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, FoundOffset]]:
        topics = by_topic(
            {
                target: {
                    "partition_index": target.partition,
                    "current_leader_epoch": -1,
                    "timestamp": time_ms,
                }
                for target, time_ms in group.items()
            }
        )
        body = {"replica_id": -1, "isolation_level": isolation, "topics": topics}
        reply = await cluster.call(ApiKey.LIST_OFFSETS, body, node_id=node_id)
        return {
            TopicPartition(topic.name, row.partition_index): (
                row.error_code,
                FoundOffset(row.offset, row.timestamp, row.leader_epoch),
            )
            for topic in reply.topics
            for row in topic.partitions
        }

    return await cluster.ask_leaders(wanted, ask)


async def bounds(
    cluster: Cluster, targets: Iterable[TopicPartition], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, Bounds]:
    wanted = list(targets)
    starts = await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(wanted, LATEST), isolation=isolation)
    return {target: Bounds(starts[target].offset, ends[target].offset) for target in wanted}


async def resolve(
    cluster: Cluster,
    targets: Iterable[TopicPartition],
    position: Position,
    *,
    isolation: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, ResolvedPosition]:
    """Where a position lies in each partition, kept within what the partition holds."""
    limits = await bounds(cluster, targets, isolation=isolation)
    by_time: dict[TopicPartition, FoundOffset] = {}
    if position.kind is PositionKind.TIMESTAMP:
        by_time = await list_offsets(cluster, dict.fromkeys(limits, position.number), isolation=isolation)
    resolved: dict[TopicPartition, ResolvedPosition] = {}
    for target, limit in limits.items():
        asked = _asked_offset(position, limit, by_time.get(target))
        resolved[target] = ResolvedPosition(max(limit.start, min(asked, limit.end)), asked, limit)
    return resolved


def _asked_offset(position: Position, limit: Bounds, by_time: FoundOffset | None) -> int:
    match position.kind:
        case PositionKind.START:
            return limit.start
        case PositionKind.OFFSET:
            return position.number
        case PositionKind.FROM_END:
            return max(limit.start, limit.end - position.number)
        case PositionKind.TIMESTAMP if by_time is not None and by_time.offset != NOT_FOUND:
            return by_time.offset
        case _:
            return limit.end


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Drop what lies before an offset in each partition; answers where each now starts."""

    async def ask(node_id: int, group: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        topics = by_topic(
            {target: {"partition_index": target.partition, "offset": offset} for target, offset in group.items()}
        )
        body = {"topics": topics, "timeout_ms": int(cluster.timeout_s * 1000)}
        reply = await cluster.call(ApiKey.DELETE_RECORDS, body, node_id=node_id)
        return {
            TopicPartition(topic.name, row.partition_index): (row.error_code, row.low_watermark)
            for topic in reply.topics
            for row in topic.partitions
        }

    return await cluster.ask_leaders(before, ask)


def by_topic(rows: Mapping[TopicPartition, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of partitions, in the nested form that requests have."""
    topics: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for target, row in rows.items():
        topics[target.topic].append(row)
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
