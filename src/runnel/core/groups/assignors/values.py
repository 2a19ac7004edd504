"""What an assignor is given and gives."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from runnel.core.groups.records import Partitions


class Wish(NamedTuple):
    """The topics that a member reads, and what it was assigned last: the more of it it keeps, the better."""

    topics: frozenset[UUID]
    current: Partitions
    instance_id: str | None = None


Assignor: TypeAlias = Callable[[Mapping[str, Wish], Mapping[UUID, int]], dict[str, Partitions]]
"""Wishes by member id, and how many partitions each topic has."""
