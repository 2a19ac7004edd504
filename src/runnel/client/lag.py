"""How far behind groups are: each partition that a group keeps an offset of, or has assigned, with its end.

In: a `Cluster` and groups. Out: rows, also for groups without a living member, for partitions that nobody
has committed yet, and for topics that are gone (their end is unknown).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.groups import Committed, GroupMember, GroupView, committed_offsets, describe_groups
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import LATEST, list_offsets


@dataclass(frozen=True, slots=True)
class PartitionLag:
    target: TopicPartition
    committed: Committed | None
    end_offset: int | None
    owner: GroupMember | None

    @property
    def lag(self) -> int | None:
        """None where it cannot be told: nothing was committed, or the partition is gone or offline.

        Negative where the committed offset lies beyond the end, as after a topic was created anew.
        """
        if self.committed is None or self.end_offset is None:
            return None
        return self.end_offset - self.committed.offset


@dataclass(frozen=True, slots=True)
class GroupLag:
    view: GroupView
    rows: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        return sum(max(0, row.lag or 0) for row in self.rows)


async def group_lags(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, GroupLag | ClientError]:
    """Each group with its rows, or why it cannot be told."""
    views = await describe_groups(cluster, group_ids)
    known = {group_id: view for group_id, view in views.items() if isinstance(view, GroupView)}
    kept = await asyncio.gather(*(committed_offsets(cluster, group_id) for group_id in known))
    offsets = dict(zip(known, kept, strict=True))
    targets = {target for group_id, view in known.items() for target in (*offsets[group_id], *view.owners)}
    ends = await known_ends(cluster, targets)
    return {
        group_id: view if isinstance(view, ClientError) else GroupLag(view, _rows(view, offsets[group_id], ends))
        for group_id, view in views.items()
    }


def _rows(
    view: GroupView, offsets: dict[TopicPartition, Committed], ends: dict[TopicPartition, int]
) -> tuple[PartitionLag, ...]:
    owners = view.owners
    targets = sorted({*offsets, *owners})
    return tuple(PartitionLag(target, offsets.get(target), ends.get(target), owners.get(target)) for target in targets)


async def known_ends(cluster: Cluster, targets: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The end offsets of the partitions that are there and online; the others are left out."""
    wanted = set(targets)
    if not wanted:
        return {}
    view = await cluster.refresh({target.topic for target in wanted})
    online = {
        TopicPartition(topic.name, partition.index)
        for topic in view.topics.values()
        for partition in topic.partitions
        if not topic.error_code and not partition.is_offline
    }
    found = await list_offsets(cluster, dict.fromkeys(wanted & online, LATEST))
    return {target: offset.offset for target, offset in found.items()}
