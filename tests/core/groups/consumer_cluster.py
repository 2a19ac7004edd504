"""A group machine with a cluster beside it, and members of consumer groups that behave as they should."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from uuid import UUID

from group_cluster import Coordinator

from runnel.core.groups import ClusterView, ConsumerGroupDescription, Heartbeat, HeartbeatReply, Resolution, Turn
from runnel.wire.errors import ErrorCode

Place = tuple[str, int]


class Topic(NamedTuple):
    topic_id: UUID
    partitions: tuple[None, ...]


class Cluster(Coordinator):
    """Topics come and go; expressions are resolved as the service does it: before the machine is asked."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.topics: dict[str, Topic] = {}
        self.names: dict[UUID, str] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self._topic_number = 0
        self.turns: list[Turn] = []

    def set_topic(self, name: str, partitions: int) -> UUID:
        """Create a topic, or give it more partitions."""
        if name in self.topics:
            topic_id = self.topics[name].topic_id
        else:
            self._topic_number += 1
            topic_id = UUID(int=self._topic_number)
        self.topics = {**self.topics, name: Topic(topic_id, (None,) * partitions)}
        self.names = {**self.names, topic_id: name}
        self._tell()
        return topic_id

    def delete_topic(self, name: str) -> None:
        self.names = {key: value for key, value in self.names.items() if value != name}
        self.topics = {key: topic for key, topic in self.topics.items() if key != name}
        self._tell()

    def configure(self, group_id: str, **configs: str) -> None:
        self.group_configs = {**self.group_configs, group_id: {k.replace("_", "."): v for k, v in configs.items()}}
        self._tell()

    def _tell(self) -> None:
        view = ClusterView(self.topics, self.names, self.group_configs, self._topic_number)
        self.machine.follow(view, self.limits)

    def restart(self) -> None:
        super().restart()
        self._tell()

    def carry_out(self, turn: Turn) -> Any:
        self.turns.append(turn)
        return super().carry_out(turn)

    # --- heartbeats -------------------------------------------------------------------------------------------

    def beat(self, member_id: str, epoch: int = 0, **options: Any) -> HeartbeatReply:
        """As a member with this id; a join says what it must."""
        values: dict[str, Any] = {"group_id": "g", "client_id": "client", "client_host": "/127.0.0.1"}
        if epoch == 0:
            values.update(rebalance_timeout_ms=30_000, owned={}, topics=["t"])
        names_members = options.pop("client_names_members", True)
        beat = Heartbeat(member_id=member_id, epoch=epoch, **{**values, **options})
        resolution = self._resolve(beat)
        turn = self.machine.consumer_heartbeat(beat, resolution, self.now_ms, client_names_members=names_members)
        reply = self.carry_out(turn)
        assert isinstance(reply, HeartbeatReply)
        return reply

    def _resolve(self, beat: Heartbeat) -> Resolution | None:
        regexes = {*self.machine.regexes_to_resolve(beat.group_id, self.now_ms), beat.regex or ""} - {""}
        if not regexes:
            return None
        return Resolution(self.topics, {regex: self._matching(regex) for regex in regexes})

    def _matching(self, regex: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self.topics if re.fullmatch(regex, name)))

    def describe(self, group_id: str = "g") -> ConsumerGroupDescription:
        return self.machine.describe_consumer(group_id)

    def held(self, group_id: str = "g") -> dict[str, list[int]]:
        """What each member has, or has not given up yet, of any topic."""
        rows = self.describe(group_id).members
        return {row.member.member_id: sorted(p for ps in row.held.values() for p in ps) for row in rows}

    def targets(self, group_id: str = "g") -> dict[str, list[int]]:
        rows = self.describe(group_id).members
        return {row.member.member_id: sorted(p for ps in row.target.values() for p in ps) for row in rows}


class Consumer:
    """A member as a good client is one: it gives up what it is told to before it says so, and takes what it gets."""

    def __init__(self, cluster: Cluster, member_id: str, **options: Any) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.options = options
        self.instance_id: str | None = options.get("instance_id")
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self.told: dict[UUID, list[int]] = {}

    def join(self) -> Consumer:
        self.epoch = 0
        self.owned, self.told = {}, {}
        self._take(self.cluster.beat(self.member_id, **self.options))
        return self

    def beat(self, **options: Any) -> HeartbeatReply:
        """Say what it has; then do as it is told."""
        if self.instance_id is not None:
            options["instance_id"] = self.instance_id
        reply = self.cluster.beat(self.member_id, self.epoch, owned=self.owned, **options)
        self._take(reply)
        return reply

    def _take(self, reply: HeartbeatReply) -> None:
        if reply.code is not ErrorCode.NONE:
            self.epoch, self.owned, self.told = 0, {}, {}
            return
        assert reply.epoch >= self.epoch, "a member epoch went back"
        self.epoch = reply.epoch
        if reply.assignment is not None:
            self.told = {topic_id: list(partitions) for topic_id, partitions in reply.assignment.items()}
            self.owned = self.told

    def leave(self, epoch: int = -1) -> HeartbeatReply:
        self.owned, self.told = {}, {}
        return self.cluster.beat(self.member_id, epoch, instance_id=self.instance_id)

    @property
    def partitions(self) -> list[int]:
        return sorted(partition for partitions in self.owned.values() for partition in partitions)


def settle(*members: Consumer, rounds: int = 6) -> None:
    """Everybody beats until everybody has what it should."""
    for _ in range(rounds):
        for member in members:
            member.beat()
