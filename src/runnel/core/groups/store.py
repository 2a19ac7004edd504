"""What the coordinator knows: groups and their committed offsets, which only `replay` and `load` change; deadlines,
which are soft; limits and the cluster, which it is told.
"""

from collections.abc import Iterable

from runnel.core.groups.classic.group import ClassicGroup
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.deadlines import Deadlines
from runnel.core.groups.records import (
    GroupRecord,
    GroupRemoved,
    GroupSaved,
    Key,
    OffsetCommitted,
    OffsetRemoved,
    Removed,
    Unread,
)
from runnel.core.groups.values import NO_CLUSTER, ClusterView, GroupLimits, Offsets

Group = ClassicGroup | ConsumerGroup

NO_OFFSETS: Offsets = {}


class GroupStore:
    __slots__ = ("cluster", "deadlines", "groups", "limits", "offsets")

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.cluster: ClusterView = NO_CLUSTER
        self.deadlines = Deadlines()
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, Offsets] = {}

    def offsets_of(self, group_id: str) -> Offsets:
        return self.offsets.get(group_id, NO_OFFSETS)

    def replay(self, records: Iterable[GroupRecord]) -> None:
        """Apply the logged records of a turn. The soft state of classic groups is ahead of them already."""
        for record in records:
            if not isinstance(record, GroupSaved):
                self._apply(record)

    def load(self, records: Iterable[GroupRecord]) -> None:
        """Apply records of an earlier life."""
        for record in records:
            if isinstance(record, GroupSaved):
                self._restore(record)
            else:
                self._apply(record)

    def _restore(self, saved: GroupSaved) -> None:
        group = self.groups.get(saved.group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[saved.group_id] = ClassicGroup(saved.group_id, saved.state_ms)
        group.restore(saved)

    def _apply(self, record: GroupRecord) -> None:
        if isinstance(record, OffsetCommitted):
            self.offsets.setdefault(record.group_id, {})[record.topic, record.partition] = record
            if record.group_id not in self.groups:
                self.groups[record.group_id] = ClassicGroup(record.group_id, record.commit_ms)
        elif isinstance(record, OffsetRemoved):
            self._forget(record)
        elif isinstance(record, GroupRemoved):
            if isinstance(self.groups.get(record.group_id), ClassicGroup):
                del self.groups[record.group_id]
        elif isinstance(record, Removed):
            self._remove(record)
        elif not isinstance(record, GroupSaved | Unread):
            self._consumer_group(record.group_id).replay(record)

    def _forget(self, record: OffsetRemoved) -> None:
        offsets = self.offsets.get(record.group_id)
        if offsets is not None:
            offsets.pop((record.topic, record.partition), None)
            if not offsets:
                del self.offsets[record.group_id]

    def _remove(self, record: Removed) -> None:
        group = self.groups.get(record.group_id)
        if not isinstance(group, ConsumerGroup):
            return
        if record.key is Key.EPOCH:
            del self.groups[record.group_id]
        else:
            group.replay(record)

    def _consumer_group(self, group_id: str) -> ConsumerGroup:
        """A classic group in its place holds offsets only: one with members was removed before."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            group = self.groups[group_id] = ConsumerGroup(group_id)
        return group

    def complete(self) -> None:
        """All records are loaded: offsets without a group get one, which can be listed and can expire."""
        for group_id, offsets in self.offsets.items():
            if group_id not in self.groups:
                latest_ms = max(offset.commit_ms for offset in offsets.values())
                self.groups[group_id] = ClassicGroup(group_id, latest_ms)
