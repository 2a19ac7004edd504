"""What is asked of consumer groups and what they answer."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from runnel.core.groups.records import MemberSaved, Owned, Partitions
from runnel.wire.errors import ErrorCode

JOINS = 0
LEAVES = -1
LEAVES_FOR_NOW = -2
"""Member epochs of ConsumerGroupHeartbeat that are no epochs. The last one: a static member that will be back."""


class Resolution(NamedTuple):
    """What expressions match among the topics of one state of the cluster (the mapping itself says which)."""

    topics: object
    matches: Mapping[str, tuple[str, ...]]


class Heartbeat(NamedTuple):
    """None, and -1 for the timeout: as it was. `new_member_id` is for members of version 0, which have none."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Mapping[UUID, Collection[int]] | None = None
    client_id: str = ""
    client_host: str = ""
    new_member_id: str = ""

    @property
    def is_full(self) -> bool:
        """A member says everything when it joins and after an error; it is told everything then."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


class HeartbeatReply(NamedTuple):
    """`assignment` None: as it was."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[UUID, Sequence[int]] | None = None


class DescribedConsumer(NamedTuple):
    """`held` has what the member must still give up, too."""

    member: MemberSaved
    epoch: int
    held: Mapping[UUID, Sequence[int]]
    target: Partitions


class ConsumerGroupDescription(NamedTuple):
    group_id: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: Sequence[DescribedConsumer]


def partitions_of(owned: Owned) -> dict[UUID, list[int]]:
    return {topic_id: sorted(partitions) for topic_id, partitions in owned.items()}
