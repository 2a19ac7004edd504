"""One classic group: its state, its members, who waits for what. Values and small moves; the rules are elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runnel.core.groups.embedded import subscribed_topics
from runnel.core.groups.records import GroupSaved, SavedMember
from runnel.core.groups.values import CONSUMER, Join
from runnel.wire.errors import ErrorCode, Refusal


class GroupState(Enum):
    """The words are those of DescribeGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    """`join_token` and `sync_token` are parked requests. `is_new`: it joined and has not been answered yet."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = True
    join_token: Any = None
    sync_token: Any = None

    @property
    def is_awaiting(self) -> bool:
        return self.join_token is not None or self.sync_token is not None

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str | None:
        return next((name for name, _ in self.protocols if name in candidates), None)


@dataclass(slots=True)
class ClassicGroup:
    group_id: str
    state_ms: int
    state: GroupState = GroupState.EMPTY
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    """Member ids that were given out and have not come back (KIP-394)."""
    unsynced: set[str] = field(default_factory=set)
    is_first_rebalance: bool = False
    members_added: bool = False
    join_remaining_ms: int = 0

    def become(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_ms = now_ms

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def awaiting_join_count(self) -> int:
        return sum(1 for member in self.members.values() if member.join_token is not None)

    def all_joined(self) -> bool:
        return not self.pending and all(member.join_token is not None for member in self.members.values())

    # --- members ----------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        self.unsynced.discard(member_id)
        if member is None:
            return None
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename_static(self, instance_id: str, new_id: str) -> Member:
        """The member of this instance under a new id: its old owner is fenced from now on (KIP-345)."""
        old_id = self.static_members[instance_id]
        member = self.members[old_id]
        member.member_id = new_id
        self.members = {(new_id if key == old_id else key): value for key, value in self.members.items()}
        self.static_members[instance_id] = new_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member; Refusal where the id is unknown, or belongs to a later owner of the instance."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
            if current != member_id:
                raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} has another member now")
        member = self.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is no member of {self.group_id}")
        return member

    def elect_leader(self) -> bool:
        """Keep the leader if it has rejoined, else take a member that has; whether there is one."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_token is not None:
            return True
        joined = next((m for m in self.members.values() if m.join_token is not None), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None

    # --- protocols --------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member that speaks these protocols can live with the others."""
        if not self.members:
            return bool(protocol_type) and bool(tuple(names))
        return protocol_type == self.protocol_type and not self._candidates().isdisjoint(names)

    def _candidates(self) -> set[str]:
        """The protocols that every member speaks."""
        sets = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def select_protocol(self) -> str | None:
        """The one with the most votes; each member votes for the first of its own list that all speak."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else None

    def is_subscribed(self, topic: str) -> bool:
        """Whether a living consumer of this group reads the topic, as far as its subscription can be read."""
        if self.protocol_type != CONSUMER or not self.members or self.protocol is None:
            return False
        topics = [subscribed_topics(member.metadata(self.protocol)) for member in self.members.values()]
        return any(known is None or topic in known for known in topics)

    # --- saving -----------------------------------------------------------------------------------------------

    def saved(self) -> GroupSaved:
        members = tuple(
            SavedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol),
                member.assignment,
            )
            for member in self.members.values()
        )
        type_name = self.protocol_type or ""
        return GroupSaved(self.group_id, type_name, self.generation, self.protocol, self.leader, self.state_ms, members)

    def restore(self, saved: GroupSaved) -> None:
        """Be as a generation was saved."""
        self.protocol_type = saved.protocol_type or None
        self.generation = saved.generation
        self.protocol = saved.protocol
        self.leader = saved.leader
        self.state = GroupState.STABLE if saved.members else GroupState.EMPTY
        self.state_ms = saved.state_ms
        self.members = {member.member_id: _restored(member, saved.protocol) for member in saved.members}
        self.static_members = {m.instance_id: m.member_id for m in saved.members if m.instance_id is not None}


def new_member(join: Join, member_id: str, token: Any) -> Member:
    return Member(
        member_id,
        join.instance_id,
        join.client_id,
        join.client_host,
        join.session_timeout_ms,
        join.rebalance_timeout_ms,
        tuple(join.protocols),
        join_token=token,
    )


def _restored(saved: SavedMember, protocol: str | None) -> Member:
    return Member(
        saved.member_id,
        saved.instance_id,
        saved.client_id,
        saved.client_host,
        saved.session_timeout_ms,
        saved.rebalance_timeout_ms,
        ((protocol or "", saved.subscription),),
        saved.assignment,
        is_new=False,
    )
