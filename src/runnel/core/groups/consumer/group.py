"""One consumer group: the latest record of each key, and what follows from them. Changed by `replay` only."""

from collections.abc import Iterator
from enum import Enum
from uuid import UUID

from runnel.core.groups.records import (
    ConsumerRecord,
    CurrentSaved,
    EpochSaved,
    Key,
    MemberSaved,
    MemberState,
    Owned,
    Partitions,
    RegexSaved,
    Removed,
    TargetEpochSaved,
    TargetSaved,
)
from runnel.core.groups.records.consumer import NO_PARTITIONS

FIRST_EPOCH = 1


class ConsumerState(Enum):
    """The words are those of ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """`topics_seen` is soft: the topics of the cluster for which the group's metadata hash was last compared, and
    `regexes_seen` those for which its expressions were last resolved, and when."""

    __slots__ = (
        "current",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "regex_members",
        "regexes",
        "regexes_seen",
        "regexes_seen_ms",
        "static_members",
        "target_epoch",
        "target_ms",
        "targets",
        "topics_seen",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_ms = 0
        self.members: dict[str, MemberSaved] = {}
        self.current: dict[str, CurrentSaved] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, RegexSaved] = {}
        self.static_members: dict[str, str] = {}
        self.regex_members: dict[str, int] = {}
        self.owners: dict[UUID, dict[int, str]] = {}
        self.topics_seen: object = None
        self.regexes_seen: object = None
        self.regexes_seen_ms = 0

    # --- what it is -------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current_of(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def current_of(self, member_id: str) -> CurrentSaved:
        return self.current.get(member_id) or CurrentSaved(self.group_id, member_id)

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def owner_of(self, topic_id: UUID, partition: int) -> str | None:
        """Who has the partition, or has not given it up yet."""
        return self.owners.get(topic_id, {}).get(partition)

    def wanted_topics(self, member: MemberSaved) -> frozenset[str]:
        """What a member reads by name and by expression."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return frozenset(member.topics) if resolved is None else frozenset((*member.topics, *resolved.topics))

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in self.wanted_topics(member) for member in self.members.values())

    # --- records ----------------------------------------------------------------------------------------------

    def removal_records(self) -> Iterator[Removed]:
        """What deletes the group; the epoch comes last, since it stands for the group."""
        for key, names in (
            (Key.CURRENT, self.current),
            (Key.TARGET, self.targets),
            (Key.MEMBER, self.members),
            (Key.REGEX, self.regexes),
        ):
            yield from (Removed(key, self.group_id, name) for name in names)
        yield Removed(Key.TARGET_EPOCH, self.group_id)
        yield Removed(Key.EPOCH, self.group_id)

    def replay(self, record: ConsumerRecord) -> None:
        if isinstance(record, CurrentSaved):
            self._set_current(record)
        elif isinstance(record, TargetSaved):
            self.targets[record.member_id] = record.partitions
        elif isinstance(record, TargetEpochSaved):
            self.target_epoch, self.target_ms = record.epoch, record.at_ms
        elif isinstance(record, EpochSaved):
            self.epoch, self.metadata_hash = record.epoch, record.metadata_hash
        elif isinstance(record, MemberSaved):
            self._set_member(record)
        elif isinstance(record, RegexSaved):
            self.regexes[record.regex] = record
        else:
            self._remove(record)

    def _remove(self, record: Removed) -> None:
        if record.key is Key.MEMBER:
            self._unlist(self.members.pop(record.name, None))
        elif record.key is Key.CURRENT:
            self._release(self.current.pop(record.name, None))
        elif record.key is Key.TARGET:
            self.targets.pop(record.name, None)
        elif record.key is Key.REGEX:
            self.regexes.pop(record.name, None)
        elif record.key is Key.TARGET_EPOCH:
            self.target_epoch, self.target_ms = FIRST_EPOCH, 0

    def _set_member(self, member: MemberSaved) -> None:
        self._unlist(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if member.regex:
            self.regex_members[member.regex] = self.regex_members.get(member.regex, 0) + 1

    def _unlist(self, member: MemberSaved | None) -> None:
        """Take a member, as it was, out of what is kept by instance and by expression."""
        if member is None:
            return
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        if member.regex:
            self.regex_members[member.regex] -= 1
            if not self.regex_members[member.regex]:
                del self.regex_members[member.regex]

    def _set_current(self, record: CurrentSaved) -> None:
        self._release(self.current.get(record.member_id))
        self.current[record.member_id] = record
        self._claim(record.member_id, record.assigned)
        self._claim(record.member_id, record.revoking)

    def _claim(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _release(self, record: CurrentSaved | None) -> None:
        if record is None:
            return
        for owned in (record.assigned, record.revoking):
            for topic_id, partitions in owned.items():
                owners = self.owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == record.member_id:
                        del owners[partition]
                if not owners:
                    self.owners.pop(topic_id, None)
