"""OffsetCommit (8), OffsetFetch (9), OffsetDelete (47)."""

from __future__ import annotations

from typing import Any

from differential.names import Name
from differential.plays import Play, scenario, topic_id
from differential.scripts.groups import Group
from differential.shapes import STRANGER

COMMIT, FETCH, OFFSET_DELETE = 8, 9, 47
BY_ID_FROM = {COMMIT: 10, FETCH: 10, OFFSET_DELETE: 99}


class Committing:
    def __init__(self, play: Play) -> None:
        self.play = play
        self.group = Group(play)
        self.topic = play.shared("commits", 3)[0]

    def version(self, api_key: int, other: int) -> int:
        return self.play.version if self.play.api_key == api_key else other

    def where(self, api_key: int, version: int, topic: str) -> dict[str, Any]:
        if version < BY_ID_FROM[api_key]:
            return {"name": topic}
        return {"topic_id": STRANGER if topic == "nope" else topic_id(topic)}

    def commit(
        self,
        *partitions: dict[str, Any],
        topic: str = "",
        member: Name | str = "",
        generation: int = -1,
        **options: Any,
    ) -> None:
        version = self.version(COMMIT, 9)
        rows = [{"committed_leader_epoch": -1, "committed_metadata": "", **row} for row in partitions]
        topics = [{**self.where(COMMIT, version, topic or self.topic), "partitions": rows}]
        body = {
            "group_id": self.group.group_id,
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "topics": topics,
            "retention_time_ms": -1,
        }
        self.play.both.ask(COMMIT, version, {**body, **options})

    def fetch(
        self, *topics: tuple[str, list[int]], group: str | None = None, every: bool = False, **options: Any
    ) -> None:
        version = self.version(FETCH, 9)
        rows = [{**self.where(FETCH, version, topic), "partition_indexes": indexes} for topic, indexes in topics]
        asked = {"group_id": self.group.group_id if group is None else group, "topics": None if every else rows}
        body: dict[str, Any] = {"groups": [{**asked, **options}]} if version >= 8 else asked
        self.play.both.ask(FETCH, version, body)


def at(index: int, offset: int, **options: Any) -> dict[str, Any]:
    return {"partition_index": index, "committed_offset": offset, **options}


@scenario(COMMIT)
def commit_alone(play: Play) -> None:
    """Without membership: a consumer that assigns its partitions itself."""
    its = Committing(play)
    its.commit(at(0, 5))
    its.commit(at(0, 3, committed_metadata="back"), at(1, 7, committed_leader_epoch=4), at(2, 2**62))
    its.fetch((its.topic, [0, 1, 2]))
    its.commit(at(0, -1), at(1, -2))
    its.fetch(every=True)
    its.commit(
        at(0, 1, committed_metadata=None),
        at(1, 1, committed_metadata="x" * 4096),
        at(2, 1, committed_metadata="x" * 4097),
    )
    its.fetch(every=True)
    its.commit(at(3, 1), at(-1, 1), at(0, 9))
    its.commit(at(0, 1), topic="nope")
    its.commit(at(0, 1), at(0, 2))
    its.commit()
    its.fetch(every=True)
    for options in (
        {"group_id": ""},
        {"member": "stranger"},
        {"generation": 0},
        {"generation": 5},
        {"generation": 5, "member": "x"},
    ):
        its.commit(at(0, 1), **options)
    if play.version >= 7:
        its.commit(at(0, 1), group_instance_id="i")
    its.group.describe()


@scenario(COMMIT, highest=9)
def commit_odd_names(play: Play) -> None:
    its = Committing(play)
    for name in ("", "a b", "__consumer_offsets", "nope"):
        its.commit(at(0, 1), topic=name)
    play.ask({"group_id": its.group.group_id, "generation_id_or_member_epoch": -1, "member_id": "", "topics": []})
    its.fetch(every=True)


@scenario(COMMIT)
def commit_as_a_member(play: Play) -> None:
    its = Committing(play)
    one = its.group.first("one")
    its.commit(at(0, 1), member=one, generation=1)  # before its assignment
    its.group.sync(one, [(one, b"all")])
    its.commit(at(0, 2), member=one, generation=1)
    for options in (
        {"member": one, "generation": 0},
        {"member": one, "generation": 2},
        {"member": one, "generation": -1},
        {"member": "stranger", "generation": 1},
        {"member": "", "generation": 1},
        {},
    ):
        its.commit(at(0, 3), **options)
    its.fetch(every=True)
    its.group.leave((one, None))
    its.commit(at(0, 4), member=one, generation=1)
    its.commit(at(0, 5))
    its.fetch(every=True)


@scenario(FETCH)
def fetch_commits(play: Play) -> None:
    its = Committing(play)
    its.fetch((its.topic, [0]))
    its.commit(at(0, 5, committed_metadata="m"), at(2, 6, committed_leader_epoch=0))
    its.fetch((its.topic, [0, 1, 2, 9, -1]))
    its.fetch((its.topic, []))
    its.fetch()
    its.fetch((its.topic, [0, 0]))
    its.fetch(("nope", [0]))
    its.fetch((its.topic, [0]), ("nope", [1]))
    its.fetch((its.topic, [0]), group="")
    its.fetch((its.topic, [0]), group="nobody")
    if play.version >= 2:
        its.fetch(every=True)
        its.fetch(every=True, group="nobody")
        its.fetch(every=True, group="")
    if play.version >= 9:
        its.fetch((its.topic, [0]), member_id="stranger", member_epoch=1)
        its.fetch((its.topic, [0]), member_id="stranger", member_epoch=-1)
        its.fetch((its.topic, [0]), member_id=None, member_epoch=3)


@scenario(FETCH, lowest=8)
def fetch_commits_of_several(play: Play) -> None:
    its = Committing(play)
    its.commit(at(0, 5))
    name = {"topic_id": topic_id(its.topic)} if play.version >= 10 else {"name": its.topic}
    rows = [{**name, "partition_indexes": [0, 1]}]
    for stable in (False, True):
        groups = [{"group_id": group, "topics": rows} for group in (its.group.group_id, "nobody", "")]
        play.ask({"groups": groups, "require_stable": stable})
    play.ask({"groups": [{"group_id": its.group.group_id, "topics": None}, {"group_id": "nobody", "topics": None}]})
    play.ask({"groups": []})
    play.ask({"groups": [{"group_id": its.group.group_id, "topics": rows}] * 2})


@scenario(OFFSET_DELETE)
def delete_commits(play: Play) -> None:
    its = Committing(play)
    its.commit(at(0, 5), at(1, 6), at(2, 7))

    def delete(*topics: tuple[str, list[int]], group: str = its.group.group_id) -> None:
        rows = [{"name": name, "partitions": [{"partition_index": i} for i in indexes]} for name, indexes in topics]
        play.ask({"group_id": group, "topics": rows})

    delete()
    delete((its.topic, [9]), ("nope", [0]), ("a b", [0]))
    delete((its.topic, [0]))
    delete((its.topic, [0, 1]))
    its.fetch(every=True)
    delete((its.topic, [0]), group="nobody")
    delete((its.topic, [0]), group="")
    delete((its.topic, []))
    used = play.shared("used")[0]
    its.commit(at(0, 1), topic=used)
    one = its.group.first("one")
    delete((used, [0]), (its.topic, [2]))
    its.group.sync(one, [(one, b"all")])
    delete((used, [0]), (its.topic, [2]))
    its.fetch(every=True)


@scenario(OFFSET_DELETE)
def delete_commits_of_strangers(play: Play) -> None:
    """A group whose protocol is not "consumer": nothing is known of its subscriptions."""
    its = Committing(play)
    its.commit(at(0, 5))
    one = its.group.first("one", protocol_type="connect", protocols=[{"name": "v0", "metadata": b""}])
    body = {"group_id": its.group.group_id, "topics": [{"name": its.topic, "partitions": [{"partition_index": 0}]}]}
    play.ask(body)
    its.group.leave((one, None))
    play.ask(body)
