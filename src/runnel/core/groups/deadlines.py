"""When something is due: one heap for all groups of a machine. Entries are never removed, only found out of date.

A heartbeat moves a member's deadline without touching the heap; the entry that comes due early is put back.
"""

import heapq
from enum import IntEnum
from typing import NamedTuple

from runnel.core.groups.group import Group, Member


class Due(IntEnum):
    SESSION = 0
    PENDING = 1
    JOIN = 2
    SYNC = 3


class Entry(NamedTuple):
    at_ms: int
    order: int
    due: Due
    group_id: str
    member_id: str


class Deadlines:
    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._count = 0

    def add(self, at_ms: int, due: Due, group_id: str, member_id: str = "") -> None:
        self._count += 1
        heapq.heappush(self._heap, Entry(at_ms, self._count, due, group_id, member_id))

    def session(self, group: Group, member: Member, at_ms: int) -> None:
        """The member must be heard of by then."""
        member.deadline_ms = at_ms
        if member.scheduled_ms < 0 or at_ms < member.scheduled_ms:
            member.scheduled_ms = at_ms
            self.add(at_ms, Due.SESSION, group.group_id, member.member_id)

    def next_ms(self) -> int | None:
        return self._heap[0].at_ms if self._heap else None

    def pop_due(self, now_ms: int) -> Entry | None:
        if self._heap and self._heap[0].at_ms <= now_ms:
            return heapq.heappop(self._heap)
        return None
