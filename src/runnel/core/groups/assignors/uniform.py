"""The uniform assignor: loads as even as the subscriptions allow, and nothing moves without need.

Members keep what they have; what nobody has goes to those with the least; then partitions move, one by one, from a
member to one that has at least two fewer and reads the topic too. At the end no single move makes it more even. Where
all members read the same topics, loads differ by one at most, and no fewer partitions could have moved.
"""

import heapq
from collections.abc import Mapping, Sequence
from itertools import groupby
from uuid import UUID

from runnel.core.groups.assignors.values import Wish
from runnel.core.groups.records import Partitions

Place = tuple[int, int]
"""The number of a topic in their order, and a partition: cheaper to hash and compare than a UUID."""


class _Pool:
    """The partitions of all topics that the same members read."""

    __slots__ = ("free", "held", "readers")

    def __init__(self, readers: tuple[str, ...]) -> None:
        self.readers = readers
        self.free: list[Place] = []
        self.held: dict[str, list[Place]] = {reader: [] for reader in readers}


def assign_uniformly(wishes: Mapping[str, Wish], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    topics = sorted({topic_id for wish in wishes.values() for topic_id in wish.topics}, key=lambda topic: topic.int)
    pools = _pools(topics, wishes, counts)
    loads = dict.fromkeys(sorted(wishes), 0)
    for pool in pools:
        for member_id, held in pool.held.items():
            loads[member_id] += len(held)
    for pool in sorted(pools, key=lambda pool: len(pool.readers)):
        _hand_out(pool, loads)
    while sum(_level(pool, loads) for pool in pools) and len(pools) > 1:
        pass  # what moved in one pool may have made another one uneven; every move lowers the sum of squares
    return _collect(topics, wishes, pools)


def _pools(topics: Sequence[UUID], wishes: Mapping[str, Wish], counts: Mapping[UUID, int]) -> list[_Pool]:
    """Most groups are one pool: all members read the same topics."""
    alike: dict[frozenset[UUID], list[str]] = {}
    for member_id in sorted(wishes):
        alike.setdefault(wishes[member_id].topics, []).append(member_id)
    by_readers: dict[tuple[str, ...], _Pool] = {}
    for number, topic_id in enumerate(topics):
        readers = tuple(sorted(reader for wanted, members in alike.items() if topic_id in wanted for reader in members))
        if readers not in by_readers:
            by_readers[readers] = _Pool(readers)
        _keep(by_readers[readers], number, topic_id, counts.get(topic_id, 0), wishes)
    return list(by_readers.values())


def _keep(pool: _Pool, number: int, topic_id: UUID, count: int, wishes: Mapping[str, Wish]) -> None:
    taken = [False] * count
    for member_id in pool.readers:
        held = pool.held[member_id]
        for index in wishes[member_id].current.get(topic_id, ()):
            if index < count and not taken[index]:
                taken[index] = True
                held.append((number, index))
    pool.free += ((number, index) for index in range(count) if not taken[index])


def _hand_out(pool: _Pool, loads: dict[str, int]) -> None:
    if not pool.free:
        return
    heap = [(loads[reader], order, reader) for order, reader in enumerate(pool.readers)]
    heapq.heapify(heap)
    for place in pool.free:
        load, order, reader = heap[0]
        pool.held[reader].append(place)
        loads[reader] = load + 1
        heapq.heapreplace(heap, (load + 1, order, reader))


def _level(pool: _Pool, loads: dict[str, int]) -> int:
    """Move partitions until no move within the pool makes it more even; how many were moved."""
    low = [(loads[reader], order, reader) for order, reader in enumerate(pool.readers)]
    high = [(-load, order, reader) for load, order, reader in low if pool.held[reader]]
    heapq.heapify(low)
    heapq.heapify(high)
    moves = 0
    while high:
        minus_load, giver_order, giver = high[0]
        load, taker_order, taker = low[0]
        if -minus_load != loads[giver] or not pool.held[giver]:
            heapq.heappop(high)  # out of date: it received, or gave all that it had
        elif load != loads[taker]:
            heapq.heappop(low)
        elif loads[giver] - load < 2:
            break
        else:
            pool.held[taker].append(pool.held[giver].pop())
            loads[giver] -= 1
            loads[taker] += 1
            moves += 1
            for reader, order in ((giver, giver_order), (taker, taker_order)):
                heapq.heappush(low, (loads[reader], order, reader))
                heapq.heappush(high, (-loads[reader], order, reader))
    return moves


def _collect(topics: Sequence[UUID], wishes: Mapping[str, Wish], pools: list[_Pool]) -> dict[str, Partitions]:
    assigned: dict[str, Partitions] = {}
    for member_id in wishes:
        places = sorted(place for pool in pools for place in pool.held.get(member_id, ()))
        assigned[member_id] = {
            topics[number]: tuple(index for _, index in group)
            for number, group in groupby(places, key=lambda place: place[0])
        }
    return assigned
