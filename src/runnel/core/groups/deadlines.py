"""When something is due: one heap for all groups of a machine. Entries are never removed, only found out of date.

A heartbeat moves a member's deadline without touching the heap; the entry that comes due early is put back.
"""

import heapq
from enum import IntEnum
from typing import NamedTuple


class Due(IntEnum):
    """SESSION: the member must be heard of. PENDING: an id that was given out must be used. JOIN and SYNC: the request
    must come, from all members of a classic group (no member id) or from one classic member of a consumer group.
    REVOCATION: the member must have given up partitions."""

    SESSION = 0
    PENDING = 1
    JOIN = 2
    SYNC = 3
    REVOCATION = 4


class Deadline(NamedTuple):
    due: Due
    group_id: str
    member_id: str = ""


class Deadlines:
    __slots__ = ("_at_ms", "_heap", "_queued_ms")

    def __init__(self) -> None:
        self._at_ms: dict[Deadline, int] = {}
        self._queued_ms: dict[Deadline, int] = {}
        self._heap: list[tuple[int, Deadline]] = []

    def set(self, due: Due, group_id: str, member_id: str, at_ms: int) -> None:
        deadline = Deadline(due, group_id, member_id)
        self._at_ms[deadline] = at_ms
        queued_ms = self._queued_ms.get(deadline)
        if queued_ms is None or at_ms < queued_ms:
            self._push(deadline, at_ms)

    def _push(self, deadline: Deadline, at_ms: int) -> None:
        self._queued_ms[deadline] = at_ms
        heapq.heappush(self._heap, (at_ms, deadline))

    def cancel(self, due: Due, group_id: str, member_id: str = "") -> None:
        self._at_ms.pop(Deadline(due, group_id, member_id), None)

    def is_set(self, due: Due, group_id: str, member_id: str = "") -> bool:
        return Deadline(due, group_id, member_id) in self._at_ms

    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Deadline | None:
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, deadline = heapq.heappop(self._heap)
            if self._queued_ms.get(deadline) != queued_ms:
                continue  # an earlier entry took its place
            del self._queued_ms[deadline]
            at_ms = self._at_ms.get(deadline)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                self._push(deadline, at_ms)
                continue
            del self._at_ms[deadline]
            return deadline
        return None
