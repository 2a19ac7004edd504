"""The range assignor: each topic is cut into one run of partitions per reader, in the same order of readers for all.

So topics with the same number of partitions and the same readers are co-partitioned: whoever reads partition 3 of one
reads partition 3 of the other. The order is that in which members read now, newcomers last: a run moves only as far as
lengths change.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from uuid import UUID

from runnel.core.groups.assignors.values import Wish
from runnel.core.groups.records import Partitions


def assign_ranges(wishes: Mapping[str, Wish], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    assigned: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in wishes}
    for topic_id, readers in _readers(wishes, _order(wishes)).items():
        start, count = 0, counts.get(topic_id, 0)
        for order, member_id in enumerate(readers):
            length = count // len(readers) + (order < count % len(readers))
            if length:
                assigned[member_id][topic_id] = tuple(range(start, start + length))
            start += length
    return dict(assigned)


def _readers(wishes: Mapping[str, Wish], order: Sequence[str]) -> dict[UUID, list[str]]:
    readers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic_id in wishes[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    return readers


def _order(wishes: Mapping[str, Wish]) -> list[str]:
    """An order that agrees with what everybody reads now, in every topic; by name where that leaves a choice, or where
    no order agrees, since the partitions were assigned in another way."""
    following: dict[str, set[str]] = {member_id: set() for member_id in wishes}
    for earlier, later in _precedences(wishes):
        following[earlier].add(later)
    blocked = dict.fromkeys(wishes, 0)
    for laters in following.values():
        for later in laters:
            blocked[later] += 1
    heap = [(count, wishes[member_id].instance_id or member_id, member_id) for member_id, count in blocked.items()]
    heapq.heapify(heap)
    order: dict[str, None] = {}
    while heap:
        count, _, member_id = heapq.heappop(heap)
        if member_id in order or count != blocked[member_id]:
            continue
        order[member_id] = None
        for later in following[member_id]:
            blocked[later] -= 1
            heapq.heappush(heap, (blocked[later], wishes[later].instance_id or later, later))
    return list(order)


def _precedences(wishes: Mapping[str, Wish]) -> Iterator[tuple[str, str]]:
    """In each topic: readers by where they read, then those that read it and have nothing of it."""
    for topic_id, readers in _readers(wishes, sorted(wishes)).items():
        holders = [member_id for member_id in readers if wishes[member_id].current.get(topic_id)]
        holders.sort(key=lambda member_id: wishes[member_id].current[topic_id][0])
        yield from pairwise(holders)
        if holders:
            others = set(readers).difference(holders)
            yield from ((holders[-1], member_id) for member_id in others)
