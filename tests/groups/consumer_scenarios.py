"""Scripts of raw requests about consumer groups (KIP-848), and a transcript of what a broker answers to them.

Names are fixed and ids are replaced by names, so that two brokers can be compared line by line. Which of several equal
members gets a partition is left to the broker: transcripts have counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from harness.conditions import wait_until
from harness.raw import RawConnection, topic_id_of

COMMIT, FETCH, JOIN, BEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
DESCRIBE_CLASSIC, LIST, CREATE, DELETE_TOPICS, ADD, DELETE, OFFSET_DELETE = 15, 16, 19, 20, 37, 42, 47
HEARTBEAT, DESCRIBE = 68, 69


class Script:
    """One connection to one broker. Every call adds a line to the transcript."""

    def __init__(self, connection: RawConnection) -> None:
        self.connection = connection
        self.lines: list[tuple[Any, ...]] = []
        self.topic_ids: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    # --- topics -----------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int) -> None:
        new = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        self.connection.request(CREATE, 7, {"topics": [new], "timeout": 30_000})
        self._wait_for(topic, partitions)
        self.topic_ids[topic] = topic_id_of(self.connection, topic)

    def grow(self, topic: str, partitions: int) -> None:
        more = {"name": topic, "count": partitions, "assignments": None}
        self.connection.request(ADD, 3, {"topics": [more], "timeout": 30_000})
        self._wait_for(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        self.connection.request(DELETE_TOPICS, 6, {"topics": [{"name": topic, "topic_id": None}], "timeout": 30_000})
        self._wait_for(topic, 0)

    def _wait_for(self, topic: str, partitions: int) -> None:
        """Kafka's coordinator follows its controller with a delay: ask it by a group of one member."""
        written = len(self.lines)

        def seen() -> bool:
            reply = self.beat("probe", "p", subscribed_topic_names=[topic])
            self.beat("probe", "p", -1)
            return sum(len(row.partitions) for row in reply.assignment.topic_partitions) == partitions

        wait_until(seen, f"{partitions} partitions of {topic}")
        del self.lines[written:]

    def part(self, topic: str, *partitions: int) -> list[dict[str, Any]]:
        return [{"topic_id": self.topic_ids[topic], "partitions": list(partitions)}]

    # --- consumer protocol ------------------------------------------------------------------------------------

    def beat(self, group: str, member: str, epoch: int = 0, version: int = 1, **options: Any) -> Any:
        body: dict[str, Any] = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "server_assignor": None,
            "topic_partitions": None,
        }
        if version >= 1:
            body["subscribed_topic_regex"] = None
        if epoch == 0:
            body.update(rebalance_timeout=30_000, topic_partitions=[], subscribed_topic_names=["t"])
        reply = self.connection.request(HEARTBEAT, version, {**body, **options})
        count = None
        if reply.assignment is not None:
            count = sum(len(row.partitions) for row in reply.assignment.topic_partitions)
        told = self._words(reply.error_message)
        self._note("heartbeat", reply.error_code, told, self._known(reply.member_id), reply.member_epoch, count)
        return reply

    def describe(self, *groups: str) -> None:
        reply = self.connection.request(DESCRIBE, 1, {"group_ids": list(groups), "include_authorized_operations": True})
        for row in sorted(reply.groups, key=lambda row: str(row.group_id)):
            head = (row.group_state, row.group_epoch, row.assignment_epoch, row.assignor_name)
            words = self._words(row.error_message)
            self._note("described", row.group_id, row.error_code, words, *head, row.authorized_operations)
            members = [self._described(member) for member in row.members]
            self.lines += sorted(members, key=str)

    def _described(self, member: Any) -> tuple[Any, ...]:
        held, target = (
            sorted((row.topic_name, len(row.partitions)) for row in rows.topic_partitions)
            for rows in (member.assignment, member.target_assignment)
        )
        who = (self._known(member.member_id), member.instance_id, member.rack_id, member.client_id, member.client_host)
        wants = (tuple(sorted(member.subscribed_topic_names)), member.subscribed_topic_regex)
        return ("member", *who, member.member_epoch, *wants, tuple(held), tuple(target), member.member_type)

    # --- classic protocol -------------------------------------------------------------------------------------

    def join(self, group: str, member: str = "", version: int = 9, name: str = "", **options: Any) -> Any:
        """`name` stands for the id that the broker gives."""
        body = {
            "group_id": group,
            "session_timeout": 20_000,
            "rebalance_timeout": 20_000,
            "member_id": member,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(["t"])}],
        }
        reply = self.connection.request(JOIN, version, {**body, **options})
        if name and reply.member_id:
            self._names[reply.member_id] = name
        shown = (reply.generation_id, reply.protocol_name, self._known(reply.leader), self._known(reply.member_id))
        self._note("join", reply.error_code, *shown, len(reply.members))
        return reply

    def sync(self, group: str, member: str, generation: int, **options: Any) -> Any:
        body = {
            "group_id": group,
            "generation_id": generation,
            "member_id": member,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        }
        reply = self.connection.request(SYNC, 5, {**body, **options})
        self._note("sync", reply.error_code, reply.protocol_name, len(reply.assignment))
        return reply

    def classic_beat(self, group: str, member: str, generation: int, instance: str | None = None) -> None:
        body = {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}
        self._note("classic heartbeat", self.connection.request(BEAT, 4, body).error_code)

    def leave(self, group: str, *leaving: tuple[str, str | None]) -> None:
        rows = [{"member_id": member, "group_instance_id": instance} for member, instance in leaving]
        reply = self.connection.request(LEAVE, 5, {"group_id": group, "members": rows})
        codes = [row.error_code.name for row in reply.members]
        self._note("leave", reply.error_code, tuple(codes))

    # --- offsets and administration ---------------------------------------------------------------------------

    def commit(self, version: int, group: str, member: str, epoch: int, *partitions: int) -> None:
        rows = [
            {"partition_index": number, "committed_offset": 5, "committed_metadata": "", "committed_leader_epoch": -1}
            for number in partitions or (0,)
        ]
        topic = {"topic_id": self.topic_ids["t"]} if version >= 10 else {"name": "t"}
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "topics": [{**topic, "partitions": rows}],
        }
        reply = self.connection.request(COMMIT, version, body)
        codes = [row.error_code for topic_row in reply.topics for row in topic_row.partitions]
        self._note("commit", version, *(code.name for code in codes))

    def fetch(self, version: int, group: str, member: str | None, epoch: int) -> None:
        topic = {"topic_id": self.topic_ids["t"]} if version >= 10 else {"name": "t"}
        asked = {
            "group_id": group,
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{**topic, "partition_indexes": [0]}],
        }
        (row,) = self.connection.request(FETCH, version, {"groups": [asked]}).groups
        offsets = [part.committed_offset for topic_row in row.topics for part in topic_row.partitions]
        self._note("fetch", version, row.error_code.name, *offsets)

    def classic_view(self, *groups: str) -> None:
        for version in (5, 6):
            for row in self.connection.request(DESCRIBE_CLASSIC, version, {"groups": list(groups)}).groups:
                words = self._words(getattr(row, "error_message", None))
                self._note("classic view", row.group_id, row.error_code, words, row.group_state, len(row.members))

    def list(self, prefix: str, **filters: Sequence[str]) -> None:
        rows = self.connection.request(LIST, 5, dict(filters)).groups
        mine = [row for row in rows if row.group_id.startswith(prefix)]
        self._note("list", *sorted((row.group_id, row.protocol_type, row.group_state, row.group_type) for row in mine))

    def delete(self, *groups: str) -> None:
        rows = self.connection.request(DELETE, 2, {"groups_names": list(groups)}).results
        self._note("delete", *sorted((row.group_id, row.error_code.name) for row in rows))

    def delete_offsets(self, group: str, *topics: str) -> None:
        rows = [{"name": topic, "partitions": [{"partition_index": 0}]} for topic in topics]
        reply = self.connection.request(OFFSET_DELETE, 0, {"group_id": group, "topics": rows})
        found = sorted((row.name, part.error_code.name) for row in reply.topics for part in row.partitions)
        self._note("delete offsets", reply.error_code, *found)

    # --- the transcript ---------------------------------------------------------------------------------------

    def _note(self, *values: Any) -> None:
        self.lines.append(tuple(getattr(value, "name", value) for value in values))

    def _known(self, member_id: str | None) -> str | None:
        return self._names.get(member_id or "", member_id)

    def _words(self, message: str | None) -> str | None:
        """What RE2 and RE2/J say of a bad expression differs after the second colon."""
        if message is not None and message.startswith("SubscribedTopicRegex"):
            return message.partition(":")[0]
        for member_id, name in self._names.items():
            message = message.replace(member_id, name) if message is not None else None
        return message


def subscription(topics: Iterable[str], *owned: int, version: int = 3) -> bytes:
    names = [topic.encode() for topic in topics]
    parts = [struct.pack(">hi", version, len(names))]
    parts += [struct.pack(">h", len(name)) + name for name in names]
    parts.append(struct.pack(">i", -1))
    if version >= 1:
        parts.append(struct.pack(">i", 1) + struct.pack(f">h1si{len(owned)}i", 1, b"t", len(owned), *owned))
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(struct.pack(">h", -1))
    return b"".join(parts)


def assignment(*partitions: int) -> bytes:
    """Of topic t."""
    numbers = struct.pack(f">{len(partitions)}i", *partitions)
    return struct.pack(">hih1si", 3, 1, 1, b"t", len(partitions)) + numbers + struct.pack(">i", -1)


# ------------------------------------------------------------------------------------------ scenarios


def refused_requests(script: Script) -> None:
    group = "refused"
    script.beat(group, "")
    script.beat("", "m")
    for wrong in (
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout": -1},
        {"topic_partitions": None},
        {"topic_partitions": script.part("t")},
        {"subscribed_topic_names": None},
        {"server_assignor": "x"},
        {"server_assignor": ""},
        {"subscribed_topic_regex": "("},
        {"subscribed_topic_regex": r"(a)\1"},
        {"subscribed_topic_regex": "(?=a)"},
    ):
        script.beat(group, "m", **wrong)
    script.beat(group, "m", -2)
    script.beat(group, "m", -3)
    for epoch in (1, -1):
        script.beat("nowhere", "m", epoch)
    script.beat("nowhere", "m", -2, instance_id="i")
    script.describe("nowhere", "")
    script.beat("nothing", "m", subscribed_topic_names=[])
    script.describe("nothing")


def reconciliation(script: Script) -> None:
    group = "reconciled"
    script.beat(group, "a", rack_id="r")
    script.beat(group, "b")
    for epoch in (3, 1):
        script.beat(group, "a", epoch)
    script.beat(group, "z", 2)
    script.beat(group, "a", 2)
    script.beat(group, "a", 2, topic_partitions=script.part("t", 0, 1, 2))
    script.describe(group)
    script.beat(group, "b", 3)
    script.beat(group, "a", 2, topic_partitions=script.part("t", 0, 1))
    script.describe(group)
    script.beat(group, "a", 2, topic_partitions=script.part("t", 0))
    script.beat(group, "a", 2)
    script.beat(group, "a", 2, topic_partitions=script.part("t", 0, 1, 2))
    script.beat(group, "b", 3)
    script.beat(
        group,
        "b",
        3,
        topic_partitions=script.part("t", 2),
        rebalance_timeout=30_000,
        subscribed_topic_names=["t"],
    )
    script.describe(group)
    script.beat(group, "b", 3, subscribed_topic_names=["u"])
    script.beat(group, "a", 3)
    script.beat(group, "a", 4, server_assignor="range")
    script.describe(group)
    script.beat(group, "b", 3, topic_partitions=[])
    script.beat(group, "a", 4)
    script.describe(group)
    for _ in range(2):
        script.beat(group, "b", -1)
    script.describe(group)
    script.beat(group, "a", 4)
    script.beat(group, "a", -1)
    script.describe(group)
    script.delete(group, "nowhere")
    script.describe(group)


def static_members(script: Script) -> None:
    group = "static"
    script.beat(group, "a", instance_id="i")
    script.beat(group, "b", instance_id="i")
    script.beat(group, "a", instance_id="i")
    script.beat(group, "b", 2, instance_id="i")
    script.beat(group, "b", 2, instance_id="j")
    script.beat(group, "a", 2)
    script.beat(group, "d")
    script.beat(group, "b", -2, instance_id="i")
    script.beat(group, "a", -2, instance_id="i")
    script.describe(group)
    script.beat(group, "a", 2, instance_id="i")
    script.beat(group, "c", instance_id="i")
    script.describe(group)
    script.beat(group, "a", 3, instance_id="i")
    script.leave(group, ("", "i"), ("", "j"), ("x", "i"), ("z", None))
    script.describe(group)
    script.beat(group, "d", -1)
    script.describe(group)


def offsets(script: Script) -> None:
    group = "offsets"
    for version in (8, 9, 10):
        script.commit(version, "nowhere", "m", 1)
        script.fetch(max(version, 8), "nowhere", "m", 1)
    script.beat(group, "a")
    script.beat(group, "b")
    for version in (2, 8, 9, 10):
        for member, epoch in (("a", 2), ("a", 1), ("a", 9), ("z", 2), ("", -1), ("b", 3)):
            script.commit(version, group, member, epoch)
    script.beat(group, "a", 2)
    script.commit(10, group, "a", 2, 0, 1, 2)
    script.beat(group, "a", 2, topic_partitions=script.part("t", 0, 1))
    for version in (9, 10):
        script.commit(version, group, "a", 2, 0, 1)
        script.commit(version, group, "a", 2, 0, 2)
        script.commit(version, group, "a", 1, 0)
        for member, epoch in (("a", 3), (None, -1), ("a", 2), ("a", 9), ("z", 3), ("", -1)):
            script.fetch(version, group, member, epoch)
    script.fetch(8, group, "z", 9)
    script.delete_offsets(group, "t", "u")
    script.classic_view(group, "nowhere")
    script.delete(group)
    script.list("off")
    script.list("off", types_filter=["Consumer"])
    script.list("off", types_filter=["classic"])
    script.list("off", states_filter=["reconciling", "Assigning"])
    script.list("off", states_filter=["Stable"])
    script.classic_beat(group, "a", 3)
    script.sync(group, "a", 3)
    script.leave(group, ("a", None), ("z", None))
    script.beat(group, "b", -1)
    script.commit(8, group, "", -1)
    script.list("off")
    script.delete(group)
    script.list("off")


def topics(script: Script) -> None:
    group = "topics"
    script.create("first", 2)
    script.beat(group, "a", subscribed_topic_names=["first", "later"])
    script.create("later", 1)
    script.beat(group, "a", 2)
    script.grow("first", 4)
    script.beat(group, "a", 3)
    script.describe(group)
    script.delete_topic("first")
    script.beat(group, "a", 4)
    script.beat(group, "a", 4, topic_partitions=script.part("later", 0))
    script.describe(group)


def upgrade_and_downgrade(script: Script) -> None:
    group = "migrated"
    joined = script.join(group, name="M")
    joined = script.join(group, joined.member_id)
    member = joined.member_id
    script.sync(group, member, 1, assignments=[{"member_id": member, "assignment": assignment(0, 1, 2)}])
    script.commit(8, group, member, 1)
    script.describe(group)
    script.beat(group, "n")
    script.describe(group)
    for generation in (1, 2):
        script.classic_beat(group, member, generation)
    script.commit(8, group, member, 1)
    script.commit(9, group, member, 2)
    script.fetch(9, group, member, 1)
    script.fetch(9, group, member, 7)
    script.sync(group, member, 1)
    script.classic_view(group)
    script.join(group, member, protocols=[{"name": "range", "metadata": subscription(["t"], 0, 1, 2)}])
    script.describe(group)
    script.classic_beat(group, member, 1)
    script.sync(group, member, 1)
    script.join(group, member, protocols=[{"name": "range", "metadata": subscription(["t"], 0, 1)}])
    script.classic_beat(group, member, 2)
    for wrong in ({"protocol_name": "roundrobin"}, {"protocol_type": "connect"}, {"generation_id": 1}):
        script.sync(group, member, **{"generation": 2, **wrong} if "generation_id" not in wrong else {"generation": 1})
    script.sync(group, member, 2)
    script.beat(group, "n", 2)
    script.describe(group)
    script.join(group, member, protocols=[{"name": "other", "metadata": subscription(["t"])}])
    script.join(group, "", protocol_type="connect")
    script.join(group, "x", group_instance_id="nobody")
    script.join(group, "own")
    script.describe(group)
    script.beat(group, "n", -1)
    script.describe(group)
    script.classic_view(group)
    for generation in (2, 3):
        script.classic_beat(group, member, generation)


def static_migration(script: Script) -> None:
    group = "static-migrated"
    one = script.join(group, name="M1", group_instance_id="i1")
    script.sync(
        group,
        one.member_id,
        1,
        group_instance_id="i1",
        assignments=[{"member_id": one.member_id, "assignment": assignment(0, 1, 2)}],
    )
    script.beat(group, "n1", instance_id="i1")
    script.describe(group)
    script.classic_beat(group, one.member_id, 1, "i1")
    script.beat(group, "n2", instance_id="i2")
    back = script.join(group, name="M2", group_instance_id="i1")
    script.describe(group)
    script.sync(group, back.member_id, back.generation_id, group_instance_id="i1")
    last = script.join(group, name="M3", group_instance_id="i2")
    script.describe(group)
    script.classic_view(group)
    script.sync(group, last.member_id, last.generation_id, group_instance_id="i2")
    script.leave(group, ("", "i1"), ("", "i2"))
    script.beat(group, "n3")
    script.describe(group)
    script.beat(group, "n3", -1)
    again = script.join(group, name="M4", group_instance_id="i3")
    script.describe(group)
    script.sync(group, again.member_id, again.generation_id, group_instance_id="i3")
    script.join("connect", name="C", group_instance_id="i", protocol_type="connect")
    script.beat("connect", "n")
    script.beat("connect", "n", 3)
    script.beat("connect", "n", -1)
    broken = [{"name": "range", "metadata": b"x"}]
    script.join("broken", name="B", group_instance_id="i", protocols=broken)
    script.beat("broken", "n")


SCENARIOS = (
    refused_requests,
    reconciliation,
    static_members,
    offsets,
    topics,
    upgrade_and_downgrade,
    static_migration,
)
