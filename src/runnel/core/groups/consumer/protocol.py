"""ConsumerGroupHeartbeat for consumer groups: finds or makes the group, and asks the right part."""

from runnel.core.groups.classic.group import ClassicGroup
from runnel.core.groups.consumer.acknowledgements import Acknowledgements
from runnel.core.groups.consumer.classic_members import ClassicMembers
from runnel.core.groups.consumer.group import ConsumerGroup
from runnel.core.groups.consumer.heartbeat import Heartbeats
from runnel.core.groups.consumer.leaving import Departures
from runnel.core.groups.consumer.timing import Timing
from runnel.core.groups.consumer.values import JOINS, Heartbeat, HeartbeatReply, Resolution
from runnel.core.groups.migration import Migration
from runnel.core.groups.records import GroupRemoved
from runnel.core.groups.store import GroupStore
from runnel.core.groups.values import Turn
from runnel.wire.errors import ErrorCode, Refusal


class ConsumerProtocol:
    __slots__ = ("_heartbeats", "_migration", "_store", "classic_members", "departures", "timing")

    def __init__(self, store: GroupStore, migration: Migration) -> None:
        self._store = store
        self._migration = migration
        self.timing = Timing(store)
        acknowledgements = Acknowledgements()
        self._heartbeats = Heartbeats(store, self.timing, acknowledgements)
        self.departures = Departures(store, self.timing, acknowledgements, migration)
        self.classic_members = ClassicMembers(store, self.timing, migration)

    def heartbeat(self, beat: Heartbeat, resolution: Resolution | None, turn: Turn, now_ms: int) -> HeartbeatReply:
        if beat.epoch < JOINS:
            return self.departures.leave(self._known(beat.group_id, "Group"), beat, turn, now_ms)
        if beat.epoch > JOINS:
            group = self._known(beat.group_id, "Consumer group")
            return self._heartbeats.beat(group, beat, resolution, turn, now_ms)
        return self._join(beat, resolution, turn, now_ms)

    def _known(self, group_id: str, what: str) -> ConsumerGroup:
        group = self._store.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def _join(self, beat: Heartbeat, resolution: Resolution | None, turn: Turn, now_ms: int) -> HeartbeatReply:
        group = self._store.groups.get(beat.group_id)
        if isinstance(group, ConsumerGroup):
            return self._heartbeats.beat(group, beat, resolution, turn, now_ms)
        if isinstance(group, ClassicGroup) and not group.is_empty:
            upgraded = self._migration.upgraded(group, turn)
            reply = self._heartbeats.beat(upgraded, beat, resolution, turn, now_ms)
            self._migration.part_with(group, turn)
            self.timing.loaded(upgraded, now_ms)
            return reply
        if group is not None:  # an empty classic group: the first to join decides on the protocol
            turn.records.append(GroupRemoved(beat.group_id))
        return self._heartbeats.beat(ConsumerGroup(beat.group_id), beat, resolution, turn, now_ms)
