"""Moves of classic groups: scripted members join, beat, commit, leave; and what can be asked about groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from differential.both import Pair
from differential.chance.world import World
from differential.names import Name
from differential.scripts.groups import SUBSCRIPTION, group_state

JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE = 11, 12, 13, 14, 15, 16, 42
COMMIT, FETCH_OFFSETS, DELETE_OFFSETS = 8, 9, 47
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}
STATIC_FROM, BATCHED_FROM, ID_REQUIRED_FROM, INSTANCES_FROM = 5, 3, 4, {HEARTBEAT: 3, SYNC: 3, COMMIT: 7}
MEMBERS_MAX = 3
GROUPS_FETCHED_FROM = 8
GROUPS_MAX = 2


@dataclass(slots=True)
class Member:
    name: Name
    connection: str
    instance: str | None


@dataclass(slots=True)
class ScriptedGroup:
    group_id: str
    generation: int = 0
    members: list[Member] = field(default_factory=list)
    """The first is the leader."""


class Groups:
    """The groups of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.groups: list[ScriptedGroup] = []

    def any(self) -> ScriptedGroup:
        chance = self.world.chance
        if not self.groups or (len(self.groups) < GROUPS_MAX and chance.random() < 0.3):
            self.groups.append(ScriptedGroup(self.world.new_name("g")))
        return chance.choice(self.groups)

    # --- membership -------------------------------------------------------------------------------------------

    def join(self) -> None:
        group = self.any()
        if len(group.members) >= MEMBERS_MAX:
            return self.leave()
        world = self.world
        text = world.new_name("m")
        instance = text if world.chance.random() < 0.3 else None
        member = Member(Name("member", text), text, instance)
        version = world.version(JOIN, lowest=STATIC_FROM if instance else 0)
        body = _join_body(group, "", instance)
        if version >= ID_REQUIRED_FROM and instance is None:
            self._learn(member, world.ask(JOIN, body, version, on=text))
            body = _join_body(group, member.name, None)
        if not group.members:
            self._learn(member, world.ask(JOIN, body, version, on=text))
            group.members.append(member)
        else:
            self._rebalance(group, member, version, body)
        group.generation += 1
        self._sync(group)
        return None

    def _learn(self, member: Member, pair: Pair) -> None:
        self.world.both.learn("member", member.name.text, pair, lambda reply: reply["member_id"])

    def _rebalance(self, group: ScriptedGroup, newcomer: Member | None, version: int = 0, body: Any = None) -> None:
        """A newcomer joins, or somebody left: all members join again."""
        world, both = self.world, self.world.both
        if newcomer is not None:
            world.note(f"{JOIN} v{version} on {newcomer.connection}: {body}")
            both.send(JOIN, version, body, on=newcomer.connection)
        both.wait_for(lambda side: group_state(side, group.group_id) == "PreparingRebalance")
        sent = []
        for member in group.members:
            one = world.version(JOIN, lowest=STATIC_FROM if member.instance else 0)
            again = _join_body(group, member.name, member.instance)
            world.note(f"{JOIN} v{one} on {member.connection}: {again}")
            both.send(JOIN, one, again, on=member.connection)
            sent.append((member, one, again))
        if newcomer is not None:
            member = newcomer
            both.receive_named(JOIN, version, body, on=member.connection, learn=lambda pair: self._learn(member, pair))
        for member, one, again in sent:
            both.receive(JOIN, one, again, on=member.connection)
        if newcomer is not None:
            group.members.append(newcomer)
        world.stop_if_different()

    def _sync(self, group: ScriptedGroup) -> None:
        """The leader first, so that nobody waits."""
        world = self.world
        rows = [{"member_id": member.name, "assignment": member.connection.encode()} for member in group.members]
        for member in group.members:
            lowest = INSTANCES_FROM[SYNC] if member.instance else 0
            assignments = rows if member is group.members[0] else []
            body = {**_place(group, member), "assignments": assignments, **PROTOCOL}
            world.ask(SYNC, body, world.version(SYNC, lowest=lowest), on=member.connection)

    def leave(self) -> None:
        """A follower, or all of them: who leads next is a matter of hashes in Kafka."""
        group = self.any()
        if not group.members:
            return
        world = self.world
        followers = group.members[1:]
        leaving = group.members[:]
        if followers and world.chance.random() < 0.7:
            leaving = [world.chance.choice(followers)]
        version = world.version(LEAVE, lowest=BATCHED_FROM if len(leaving) > 1 else 0)
        world.ask(LEAVE, _leave_body(group, leaving), version)
        for member in leaving:
            group.members.remove(member)
            world.both.hang_up(member.connection)
        if group.members:
            self._rebalance(group, None)
            group.generation += 1
            self._sync(group)
        else:
            group.generation += 1  # an empty group has a generation of its own

    def come_back(self) -> None:
        """A static member that restarts, with a follower's unchanged subscription: no rebalance."""
        group = self.any()
        static = [member for member in group.members[1:] if member.instance]
        if not static:
            return self.heartbeat()
        member = self.world.chance.choice(static)
        version = self.world.version(JOIN, lowest=STATIC_FROM)
        body = _join_body(group, "", member.instance)
        self._learn(member, self.world.ask(JOIN, body, version, on=member.connection))
        lowest = INSTANCES_FROM[SYNC]
        sync = {**_place(group, member), "assignments": [], **PROTOCOL}
        self.world.ask(SYNC, sync, self.world.version(SYNC, lowest=lowest), on=member.connection)
        return None

    def heartbeat(self) -> None:
        group = self.any()
        world = self.world
        member: Any = world.chance.choice([*group.members, *group.members, None])
        body = {"group_id": group.group_id, "generation_id": self._generation(group), "member_id": "stranger"}
        if member is not None:
            body |= {"member_id": member.name, "group_instance_id": member.instance}
        world.ask(HEARTBEAT, body, world.version(HEARTBEAT, lowest=INSTANCES_FROM[HEARTBEAT]))

    def _generation(self, group: ScriptedGroup) -> int:
        chance = self.world.chance
        return group.generation + (chance.choice([-1, 1, 7]) if chance.random() < 0.2 else 0)

    # --- offsets ----------------------------------------------------------------------------------------------

    def commit(self) -> None:
        group, world = self.any(), self.world
        chance = world.chance
        topic = world.topic()
        index = world.partition(topic)
        row = {
            "partition_index": index,
            "committed_offset": world.offset(topic, index),
            "committed_leader_epoch": world.epoch(),
        }
        row["committed_metadata"] = chance.choice(["", "m", None])
        topics = [{**world.where(topic), "partitions": [row]}]
        body: dict[str, Any] = {"group_id": group.group_id, "retention_time_ms": -1, "topics": topics}
        if group.members and chance.random() < 0.9:
            member = chance.choice(group.members)
            body |= {"member_id": member.name, "group_instance_id": member.instance}
            body["generation_id_or_member_epoch"] = self._generation(group)
        else:
            body |= {"member_id": "", "generation_id_or_member_epoch": -1}
        world.ask(COMMIT, body, world.version(COMMIT, lowest=INSTANCES_FROM[COMMIT]))

    def fetch_offsets(self) -> None:
        world = self.world
        version = world.version(FETCH_OFFSETS, lowest=2)
        topic = world.topic()
        where = world.where(topic) if version >= GROUPS_FETCHED_FROM else {"name": topic}
        topics = [{**where, "partition_indexes": [0, 1, 2]}]
        asked = {"group_id": self.any().group_id, "topics": None if world.chance.random() < 0.3 else topics}
        world.ask(FETCH_OFFSETS, {"groups": [asked]} if version >= GROUPS_FETCHED_FROM else asked, version, settle=True)

    def delete_offsets(self) -> None:
        world = self.world
        topic = world.topic()
        rows = [{"name": topic, "partitions": [{"partition_index": world.partition(topic)}]}]
        world.ask(DELETE_OFFSETS, {"group_id": self.any().group_id, "topics": rows})

    # --- looking ----------------------------------------------------------------------------------------------

    def describe(self) -> None:
        self.world.ask(DESCRIBE, {"groups": [self.any().group_id, "nobody"]}, settle=True)

    def list(self) -> None:
        states = self.world.chance.choice([[], ["Stable"], ["Empty", "CompletingRebalance"]])
        self.world.ask(LIST, {"states_filter": states}, settle=True)

    def delete(self) -> None:
        group = self.any()
        pair = self.world.ask(DELETE, {"groups_names": [group.group_id]})
        if pair.kafka["results"][0]["error_code"] == 0:
            self.groups.remove(group)

    def part(self) -> None:
        """The end of the world: nobody stays behind."""
        for group in self.groups:
            for member in group.members:
                self.world.both.hang_up(member.connection)


def _join_body(group: ScriptedGroup, member: Name | str, instance: str | None) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }


def _place(group: ScriptedGroup, member: Member) -> dict[str, Any]:
    body = {"group_id": group.group_id, "generation_id": group.generation, "member_id": member.name}
    return {**body, "group_instance_id": member.instance}


def _leave_body(group: ScriptedGroup, members: list[Member]) -> dict[str, Any]:
    rows = [{"member_id": member.name, "group_instance_id": member.instance} for member in members]
    return {"group_id": group.group_id, "member_id": members[0].name, "members": rows}
