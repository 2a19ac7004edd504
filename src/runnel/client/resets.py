"""Where a group's offsets would go: by position, by shift, to what is committed, or as a file says.

In: partitions, what is committed now, and a rule. Out: a plan; nothing is changed here. An offset beyond
what a partition holds becomes the nearest one that it has, as kafka-consumer-groups does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.groups import Committed
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import Bounds, Position, bounds, resolve


class Shift(NamedTuple):
    """So many offsets on from what is committed; back, if negative."""

    by: int


class Current(NamedTuple):
    """What is committed; the end, where nothing is."""


class Given(NamedTuple):
    """An offset for each partition."""

    offsets: Mapping[TopicPartition, int]


Rule: TypeAlias = Position | Shift | Current | Given


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    old: int | None
    new: int
    asked: int
    bounds: Bounds


async def plan_offsets(
    cluster: Cluster,
    targets: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    rule: Rule,
) -> dict[TopicPartition, PlannedOffset]:
    """The new offset of each partition."""
    old = {target: committed[target].offset if target in committed else None for target in sorted(set(targets))}
    if isinstance(rule, Position):
        resolved = await resolve(cluster, old, rule)
        asked = {target: place.asked_offset for target, place in resolved.items()}
        limits = {target: place.bounds for target, place in resolved.items()}
    else:
        limits = await bounds(cluster, old)
        asked = {target: _asked(rule, target, old[target], limits[target]) for target in old}
    return {
        target: PlannedOffset(
            old[target],
            max(limits[target].start, min(asked[target], limits[target].end)),
            asked[target],
            limits[target],
        )
        for target in old
    }


def _asked(rule: Shift | Current | Given, target: TopicPartition, old: int | None, limit: Bounds) -> int:
    if isinstance(rule, Given):
        return rule.offsets[target]
    if isinstance(rule, Current):
        return limit.end if old is None else old
    if old is None:
        raise ClientError(f"partition {target} has no committed offset that could be shifted; use another rule for it")
    return old + rule.by
