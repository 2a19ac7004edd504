"""Which partitions a member was told of and has not yet said that it has: it may still be about to take them.

A request that says everything (after an error, or right after joining) tells what the member has at that moment. A
partition that is missing there was either given up, or is told but not taken yet: librdkafka sends such a request
between being told and asking its application. Only a partition that the member once said it has can be taken for given
up in such a request. Soft state: after a restart of the coordinator every word counts again, as it does in Kafka.
"""

from collections.abc import Container
from uuid import UUID

from runnel.core.groups.consumer.reconciliation import Reported
from runnel.core.groups.records import CurrentSaved

Place = tuple[UUID, int]


class Acknowledgements:
    __slots__ = ("_awaited",)

    def __init__(self) -> None:
        self._awaited: dict[tuple[str, str], set[Place]] = {}

    def told(self, had: CurrentSaved, has: CurrentSaved) -> None:
        """The member is being told what it has now: what is new is awaited, what it lost is not any more."""
        if had.assigned == has.assigned:
            return
        key = (has.group_id, has.member_id)
        before, now = _places(had), _places(has)
        awaited = (self._awaited.get(key, set()) & now) | (now - before)
        self._awaited.pop(key, None)
        if awaited:
            self._awaited[key] = awaited

    def reported(self, group_id: str, member_id: str, reported: Reported) -> None:
        awaited = self._awaited.get((group_id, member_id))
        if awaited:
            awaited -= {(topic_id, number) for topic_id, numbers in reported.items() for number in numbers}

    def awaits(self, group_id: str, member_id: str, topics: Container[UUID]) -> bool:
        """Whether the member may still take something; topics that are gone cannot be taken."""
        awaited = self._awaited.get((group_id, member_id), ())
        return any(topic_id in topics for topic_id, _ in awaited)

    def forget(self, group_id: str, member_id: str) -> None:
        self._awaited.pop((group_id, member_id), None)


def _places(current: CurrentSaved) -> set[Place]:
    return {(topic_id, number) for topic_id, numbers in current.assigned.items() for number in numbers}
