"""The range assignor: each topic is cut into one run of partitions per reader, in the same order of readers for all.

So topics with the same number of partitions and the same readers are co-partitioned: whoever reads partition 3 of one
reads partition 3 of the other. Readers are in the order of what they have now, newcomers last: a run moves only as far
as its length changes.
"""

from collections.abc import Mapping
from uuid import UUID

from runnel.core.groups.assignors.values import Wish
from runnel.core.groups.records import Partitions


def assign_ranges(wishes: Mapping[str, Wish], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    assigned: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in wishes}
    readers_of: dict[UUID, list[str]] = {}
    for member_id in sorted(wishes, key=lambda member_id: _place(member_id, wishes[member_id], counts)):
        for topic_id in wishes[member_id].topics:
            readers_of.setdefault(topic_id, []).append(member_id)
    for topic_id, readers in readers_of.items():
        start, count = 0, counts.get(topic_id, 0)
        for order, member_id in enumerate(readers):
            length = count // len(readers) + (order < count % len(readers))
            if length:
                assigned[member_id][topic_id] = tuple(range(start, start + length))
            start += length
    return dict(assigned)


def _place(member_id: str, wish: Wish, counts: Mapping[UUID, int]) -> tuple[float, str]:
    """Where in its topics a member reads now, from 0 to 1; then its name, which a static member keeps."""
    starts = [
        indexes[0] / counts[topic_id]
        for topic_id, indexes in wish.current.items()
        if topic_id in wish.topics and indexes and counts.get(topic_id)
    ]
    return (sum(starts) / len(starts) if starts else 1.0), wish.instance_id or member_id
