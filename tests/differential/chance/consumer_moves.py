"""Moves of consumer groups (KIP-848): members join, own, beat, commit and leave, all of it driven by heartbeats.

All use the range assignor: what the uniform one gives to whom depends, in Kafka, on the order of hash maps. Range goes
by ids in Kafka, and by who came first in Runnel: here ids rise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from differential.both import Pair
from differential.chance.world import World
from differential.names import Name
from differential.sides import Side

HEARTBEAT, DESCRIBE, COMMIT, FETCH_OFFSETS = 68, 69, 8, 9
JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
MEMBERS_MAX = 3
JOINS = {"topic_partitions": [], "rebalance_timeout_ms": 60_000, "server_assignor": "range"}


@dataclass(slots=True)
class Consumer:
    member_id: str
    instance: str | None
    epoch: int = 0
    owned: list[dict[str, Any]] = field(default_factory=list)


class ConsumerGroups:
    """One group of each world. Kafka's coordinator hears of topics late, so it subscribes to one made for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.group_id = world.new_name("c")
        self.members: list[Consumer] = []
        self._static = world.chance.random() < 0.5  # all or none: Kafka puts static members first
        self._topic = ""
        self._made = 0

    def topic(self) -> str:
        """Made when first used, and waited for with a group of its own."""
        if self._topic:
            return self._topic
        both = self.world.both
        self._topic = both.topic(self.world.new_name("assigned"), 4)
        probe = {
            "group_id": f"{self.group_id}-probe",
            "member_id": "p",
            "subscribed_topic_names": [self._topic],
            **JOINS,
        }

        def is_assigned(side: Side) -> bool:
            reply = side.ask(HEARTBEAT, 0, {**probe, "member_epoch": JOINING})
            side.ask(HEARTBEAT, 0, {**probe, "member_epoch": LEAVING})
            return bool(reply["assignment"] and reply["assignment"]["topic_partitions"])

        both.wait_for(is_assigned)
        for side in both.sides:
            side.ask(42, 2, {"groups_names": [probe["group_id"]]})
        return self._topic

    def _beat(self, member: Consumer, body: dict[str, Any]) -> Pair:
        whole = {"group_id": self.group_id, "member_id": member.member_id, "instance_id": member.instance}
        whole |= {"member_epoch": member.epoch, "topic_partitions": None, **body}
        pair = self.world.ask(HEARTBEAT, whole)
        reply = pair.kafka
        if reply["error_code"] == 0:
            member.epoch = reply["member_epoch"]
            if reply["assignment"] is not None:
                member.owned = [
                    {"topic_id": Name("topic", self._topic), "partitions": sorted(row["partitions"])}
                    for row in reply["assignment"]["topic_partitions"]
                ]
        return pair

    def _new_id(self) -> str:
        self._made += 1
        return f"m{self.world.seed}-{self._made:04}"

    def join(self) -> None:
        topic = self.topic()
        if len(self.members) >= MEMBERS_MAX:
            return self.leave()
        chance = self.world.chance
        text = self._new_id()
        member = Consumer(text, text if self._static else None)
        names = [topic, *(["nope"] if chance.random() < 0.2 else [])]
        pair = self._beat(member, {"subscribed_topic_names": names, **JOINS})
        if pair.kafka["error_code"] == 0:
            self.members.append(member)
        return None

    def beat(self) -> None:
        """A member says what it owns: what it was told to; or beats in a wrong epoch."""
        if not self.members:
            return self.join()
        chance = self.world.chance
        member = chance.choice(self.members)
        if chance.random() < 0.1:
            body: dict[str, Any] = {"member_epoch": max(1, member.epoch + chance.choice([-1, 1, 5]))}
            self.world.ask(
                HEARTBEAT, {"group_id": self.group_id, "member_id": member.member_id, **body, "topic_partitions": None}
            )
        else:
            self._beat(member, {"topic_partitions": member.owned} if chance.random() < 0.7 else {})
        return None

    def subscribe(self) -> None:
        if not self.members:
            return self.join()
        names = self.world.chance.choice([[self._topic], [self._topic, "nope"]])
        self._beat(self.world.chance.choice(self.members), {"subscribed_topic_names": names})
        return None

    def leave(self) -> None:
        if not self.members:
            return
        member = self.world.chance.choice(self.members)
        static = member.instance is not None and self.world.chance.random() < 0.5
        self._beat(member, {"member_epoch": LEAVING_FOR_A_WHILE if static else LEAVING})
        self.members.remove(member)
        if static:  # and comes back under another id
            again = Consumer(self._new_id(), member.instance)
            self._beat(again, {"subscribed_topic_names": [self._topic], **JOINS})
            self.members.append(again)

    def commit(self) -> None:
        if not self.members:
            return
        member = self.world.chance.choice(self.members)
        row = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": ""}
        topics = [{**self.world.where(self._topic), "topic_id": Name("topic", self._topic), "partitions": [row]}]
        epoch = member.epoch + self.world.chance.choice([0, 0, 0, -1, 1])
        body = {"group_id": self.group_id, "member_id": member.member_id, "generation_id_or_member_epoch": epoch}
        self.world.ask(COMMIT, {**body, "topics": topics}, self.world.version(COMMIT, lowest=8))

    def fetch_offsets(self) -> None:
        member = self.world.chance.choice([*self.members, None])
        asked: dict[str, Any] = {"group_id": self.group_id, "topics": None}
        if member is not None:
            asked |= {"member_id": member.member_id, "member_epoch": member.epoch + self.world.chance.choice([0, 0, 1])}
        self.world.ask(FETCH_OFFSETS, {"groups": [asked]}, self.world.version(FETCH_OFFSETS, lowest=9))

    def describe(self) -> None:
        self.world.ask(DESCRIBE, {"group_ids": [self.group_id]})
