"""The next-generation group protocol (KIP-848): ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69)."""

from __future__ import annotations

from typing import Any

from differential.both import Pair
from differential.plays import Play, scenario, topic_id
from differential.sides import Side

HEARTBEAT, DESCRIBE, COMMIT, FETCH_OFFSETS, DELETE_GROUPS, LIST_GROUPS, LEAVE_GROUP = 68, 69, 8, 9, 42, 16, 13
JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2


class ConsumerGroup:
    """Members that make up their ids, as the protocol wants it since version 1."""

    def __init__(self, play: Play, suffix: str = "group") -> None:
        self.play = play
        self.group_id = play.name(suffix)
        self.topic = play.shared("assigned", 3)[0]
        self._wait_until_coordinated()

    def _wait_until_coordinated(self) -> None:
        """Kafka's coordinator hears of a new topic after its broker."""
        if "coordinated" in self.play.both.shared:
            return
        self.play.both.shared.add("coordinated")

        def is_assigned(side: Side) -> bool:
            body = {**self.joining("probe"), "group_id": "probe"}
            side.ask(HEARTBEAT, 0, {**body, "member_epoch": LEAVING})
            reply = side.ask(HEARTBEAT, 0, body)
            side.ask(HEARTBEAT, 0, {**body, "member_epoch": LEAVING})
            return bool(reply["assignment"] and reply["assignment"]["topic_partitions"])

        self.play.both.wait_for(is_assigned)

    def joining(self, member: str, **options: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"group_id": self.group_id, "member_id": member, "member_epoch": JOINING}
        body |= {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [self.topic], "topic_partitions": []}
        return {**body, **options}

    def join(self, member: str, **options: Any) -> Pair:
        return self._ask(self.joining(member, **options))

    def beat(self, member: str, epoch: int, **options: Any) -> Pair:
        return self._ask({"group_id": self.group_id, "member_id": member, "member_epoch": epoch, **options})

    def _ask(self, body: dict[str, Any]) -> Pair:
        version = self.play.version if self.play.api_key == HEARTBEAT else 1
        return self.play.both.ask(HEARTBEAT, version, {"topic_partitions": None, **body})

    def owning(self, *partitions: int) -> list[dict[str, Any]]:
        return [{"topic_id": topic_id(self.topic), "partitions": list(partitions)}]

    def describe(self, **options: Any) -> Pair:
        version = self.play.version if self.play.api_key == DESCRIBE else 1
        return self.play.both.ask(DESCRIBE, version, {"group_ids": [self.group_id], **options})


@scenario(HEARTBEAT)
def consumers_refused(play: Play) -> None:
    group = ConsumerGroup(play)
    for options in (
        {"group_id": ""},
        {"member_id": ""},
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 0},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": None, "subscribed_topic_regex": None},
        {"topic_partitions": None},
        {"topic_partitions": group.owning(0)},
        {"server_assignor": "nope"},
        {"server_assignor": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": 5},
        {"member_epoch": -1},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"member_epoch": -2, "instance_id": "i"},
        {"subscribed_topic_regex": "("},
        {"subscribed_topic_names": [], "subscribed_topic_regex": ""},
    ):
        if not (options.get("member_id") == "" and play.version == 0):
            group.join("one", **options)
    play.both.ask(DELETE_GROUPS, 2, {"groups_names": [group.group_id]})


@scenario(HEARTBEAT, highest=0)
def consumers_with_ids_from_the_broker(play: Play) -> None:
    group = ConsumerGroup(play)
    pair = group.join("")
    one = play.both.learn("member", group.group_id, pair, lambda reply: reply["member_id"])
    group.beat(one, 1)  # type: ignore[arg-type]
    group.beat(one, LEAVING)  # type: ignore[arg-type]


@scenario(HEARTBEAT)
def consumers_alone(play: Play) -> None:
    group = ConsumerGroup(play)
    group.join("one")
    group.describe()
    group.beat("one", 1, topic_partitions=group.owning(0, 1, 2))
    group.beat("one", 1)
    for epoch in (0, 2, 7, -5):
        group.beat("one", epoch)
    group.beat("stranger", 1)
    group.beat("stranger", LEAVING)
    group.beat("one", 1, subscribed_topic_names=[group.topic, "nope"])
    group.describe()
    group.beat("one", 2, subscribed_topic_names=["nope"])
    group.beat("one", 2, topic_partitions=[])
    group.beat("one", 3, topic_partitions=[])
    group.beat("one", 3, subscribed_topic_names=[group.topic], server_assignor="range")
    group.beat("one", 4, rebalance_timeout_ms=500)
    group.describe()
    group.join("one")  # again from the start, without having left
    group.beat("one", LEAVING)
    group.describe()


@scenario(HEARTBEAT)
def consumers_in_pairs(play: Play) -> None:
    group = ConsumerGroup(play)
    group.join("one", server_assignor="range")
    group.beat("one", 1, topic_partitions=group.owning(0, 1, 2))
    group.join("two", server_assignor="range")
    group.describe()
    group.beat("two", 2)  # nothing yet: it is still the other's
    group.beat("one", 1, topic_partitions=group.owning(0, 1, 2))
    group.beat("one", 1, topic_partitions=group.owning(0, 1))
    group.beat("two", 2)
    group.beat("two", 2, topic_partitions=group.owning(2))
    group.describe()
    group.beat("one", 2)
    group.beat("one", LEAVING)
    group.beat("two", 2)
    group.beat("two", 3, topic_partitions=group.owning(0, 1, 2))
    group.describe()
    group.beat("two", LEAVING)
    group.describe()


@scenario(HEARTBEAT)
def consumers_static(play: Play) -> None:
    group = ConsumerGroup(play)
    group.join("one", instance_id="i")
    group.join("two", instance_id="i")
    group.beat("one", 1, instance_id="j")
    group.beat("one", LEAVING_FOR_A_WHILE, instance_id="i")
    group.beat("one", 1, instance_id="i")
    group.describe()
    group.join("two", instance_id="i")
    group.beat("two", 1, instance_id="i")
    group.beat("one", 1, instance_id="i")
    group.beat("two", LEAVING_FOR_A_WHILE)
    group.beat("two", LEAVING, instance_id="i")
    group.describe()


@scenario(HEARTBEAT)
def consumers_and_the_other_apis(play: Play) -> None:
    group = ConsumerGroup(play)
    group.join("one")
    both, name = play.both, group.group_id
    commit = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    for version in (8, 9):
        for member, epoch in (("one", 1), ("one", 0), ("one", 2), ("stranger", 1), ("", -1), ("", 0)):
            body = {"group_id": name, "generation_id_or_member_epoch": epoch, "member_id": member}
            both.ask(COMMIT, version, {**body, "topics": [{"name": group.topic, "partitions": [commit]}]})
    for member, epoch in (("one", 1), ("one", 2), ("stranger", 1), (None, -1)):
        asked = {"group_id": name, "member_id": member, "member_epoch": epoch, "topics": None}
        both.ask(FETCH_OFFSETS, 9, {"groups": [asked]})
    both.ask(15, 5, {"groups": [name]})
    both.ask(15, 6, {"groups": [name]})
    both.ask(12, 4, {"group_id": name, "generation_id": 1, "member_id": "one"})
    both.ask(
        14, 5, {"group_id": name, "generation_id": 1, "member_id": "one", "protocol_type": "a", "protocol_name": "b"}
    )
    both.ask(DELETE_GROUPS, 2, {"groups_names": [name]})
    both.ask(47, 0, {"group_id": name, "topics": [{"name": group.topic, "partitions": [{"partition_index": 0}]}]})
    both.ask(LEAVE_GROUP, 5, {"group_id": name, "members": [{"member_id": "stranger"}, {"member_id": "one"}]})
    group.describe()
    both.ask(DELETE_GROUPS, 2, {"groups_names": [name]})
    group.describe()


@scenario(HEARTBEAT, lowest=1)
def consumers_by_pattern(play: Play) -> None:
    group = ConsumerGroup(play)
    group.join("one", subscribed_topic_names=None, subscribed_topic_regex="no-topic-is-called-so.*")
    group.describe()
    group.beat("one", 1, subscribed_topic_regex="[")
    group.beat("one", LEAVING)


@scenario(DESCRIBE)
def describe_consumers(play: Play) -> None:
    group = ConsumerGroup(play)
    for names in ([], [""], ["nobody"], ["nobody", "nobody"]):
        for operations in (False, True):
            play.ask({"group_ids": names, "include_authorized_operations": operations})
    group.join("one", rack_id="r", server_assignor="uniform")
    group.describe()
    group.describe(include_authorized_operations=True)
    group.beat("one", 1, topic_partitions=group.owning(0, 1, 2))
    group.describe()
    play.ask({"group_ids": [group.group_id, "nobody"]})
    group.beat("one", LEAVING)
    group.describe()
