"""Fetch (1): offsets, epochs, limits, absent things, incremental sessions."""

from __future__ import annotations

from typing import Any

from differential.names import Name
from differential.plays import Play, batch, scenario, topic_id
from differential.shapes import STRANGER

FETCH = 1
TOPIC_IDS_FROM, SESSIONS_FROM = 13, 7
LIMITS = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1}


def partition(index: int, offset: int, **options: Any) -> dict[str, Any]:
    row = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {**row, "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1, **options}


def topic(name: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    return {"topic": name, "topic_id": topic_id(name), "partitions": list(partitions)}


def fetch(play: Play, *topics: dict[str, Any], **options: Any) -> Any:
    session = {"session_id": 0, "session_epoch": -1}
    return play.ask({**LIMITS, **session, "topics": list(topics), **options})


def filled(play: Play) -> str:
    """Three batches in partition 0: offsets 0-2, 3, 4-5; partition 1 is empty."""
    name, new = play.shared("fetch-filled", 2)
    if new:
        for values in ((b"a" * 50, b"b", b"c"), (b"d" * 100,), (b"e", b"f")):
            play.produce(name, batch(*values))
    return name


@scenario(FETCH)
def fetch_offsets(play: Play) -> None:
    name = filled(play)
    for offset in (0, 1, 2, 3, 4, 5, 6, 7, -1, -2, 2**62):
        fetch(play, topic(name, partition(0, offset)))
    for offset in (0, 1, -1):
        fetch(play, topic(name, partition(1, offset)))


@scenario(FETCH)
def fetch_limits(play: Play) -> None:
    name = filled(play)
    for size in (0, 1, 100, 150, 300, -1):
        fetch(play, topic(name, partition(0, 0, partition_max_bytes=size)))
        fetch(play, topic(name, partition(0, 0)), max_bytes=size)
        fetch(play, topic(name, partition(1, 0), partition(0, 3, partition_max_bytes=size)))
    for min_bytes in (0, -1, 10_000):
        fetch(play, topic(name, partition(0, 0)), min_bytes=min_bytes)
        fetch(play, topic(name, partition(1, 0)), min_bytes=min_bytes, max_wait_ms=20)


@scenario(FETCH)
def fetch_isolation(play: Play) -> None:
    name = filled(play)
    for level in (0, 1, 2, -1):
        fetch(play, topic(name, partition(0, 0)), isolation_level=level)
        fetch(play, topic(name, partition(0, 99)), isolation_level=level)
        fetch(play, topic(name, partition(9, 0)), isolation_level=level)


@scenario(FETCH)
def fetch_epochs(play: Play) -> None:
    name = filled(play)
    for epoch in (-1, 0, 1, 5, -2):
        fetch(play, topic(name, partition(0, 3, current_leader_epoch=epoch)))
    for epoch, offset in ((0, 3), (0, 6), (0, 7), (0, 99), (1, 3), (5, 0), (-2, 0)):
        fetch(play, topic(name, partition(0, offset, last_fetched_epoch=epoch)))
        fetch(play, topic(name, partition(0, offset, last_fetched_epoch=epoch, current_leader_epoch=0)))
    fetch(play, topic(name, partition(1, 0, last_fetched_epoch=0)))


@scenario(FETCH)
def fetch_what_is_absent(play: Play) -> None:
    name = filled(play)
    fetch(play, topic(name, partition(2, 0), partition(-1, 0), partition(0, 0)))
    for where in (
        {"topic": "nope", "topic_id": STRANGER},
        {"topic": "", "topic_id": Name("topic", name)},
        {"topic": "a b"},
    ):
        fetch(play, {**where, "partitions": [partition(0, 0)]})
    fetch(play)
    fetch(play, topic(name))
    fetch(play, topic(name, partition(0, 0)), {"topic": "nope", "topic_id": STRANGER, "partitions": [partition(0, 0)]})


@scenario(FETCH)
def fetch_after_deleted_records(play: Play) -> None:
    name = play.topic("trimmed")
    for value in (b"a", b"b", b"c"):
        play.produce(name, batch(value))
    trim = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout_ms": 30_000}
    play.both.ask(21, 2, trim)
    for offset in (0, 1, 2, 3, 4):
        fetch(play, topic(name, partition(0, offset)))


@scenario(FETCH, lowest=SESSIONS_FROM)
def fetch_sessions(play: Play) -> None:
    one, two = play.topic("one", 2), play.topic("two")
    for name in (one, two):
        play.produce(name, batch(b"a"))
    opened = fetch(play, topic(one, partition(0, 0), partition(1, 0)), session_epoch=0)
    session = play.both.learn("session", play.name(), opened, lambda reply: reply["session_id"])

    def go_on(epoch: int, *topics: dict[str, Any], **options: Any) -> None:
        fetch(play, *topics, session_id=session, session_epoch=epoch, **options)

    go_on(1, topic(one, partition(0, 1)))
    go_on(2)  # nothing new
    go_on(3, topic(two, partition(0, 0)))
    go_on(4, topic(two, partition(0, 1)))
    play.produce(one, batch(b"b"))
    go_on(5)
    go_on(6, topic(one, partition(0, 2)))
    go_on(7, forgotten_topics_data=[{"topic": one, "topic_id": topic_id(one), "partitions": [1]}])
    go_on(8, topic(one, partition(0, 99)))
    go_on(9)
    go_on(8)  # an epoch again
    go_on(20)
    go_on(10, topic(one, partition(0, 2)))
    go_on(11, topic(one, partition(7, 0)))
    go_on(12)
    go_on(13, {"topic": "nope", "topic_id": STRANGER, "partitions": [partition(0, 0)]})
    go_on(14)
    go_on(-1, topic(one, partition(0, 0)))
    go_on(15)


@scenario(FETCH, lowest=SESSIONS_FROM)
def fetch_bad_sessions(play: Play) -> None:
    name = filled(play)
    for session_id, epoch in ((123, 1), (0, 1), (0, 5), (123, 0), (123, -1), (-1, 1), (0, -2), (5, -7)):
        fetch(play, topic(name, partition(0, 6)), session_id=session_id, session_epoch=epoch)
    fetch(play, session_epoch=0)


@scenario(FETCH, lowest=SESSIONS_FROM, highest=TOPIC_IDS_FROM)
def fetch_sessions_by_name_and_id(play: Play) -> None:
    """A session belongs to names or to ids."""
    name = filled(play)
    opened = fetch(play, topic(name, partition(0, 6)), session_epoch=0)
    session = play.both.learn("session", play.name(), opened, lambda reply: reply["session_id"])
    other = TOPIC_IDS_FROM if play.version < TOPIC_IDS_FROM else TOPIC_IDS_FROM - 1
    body = {**LIMITS, "session_id": session, "session_epoch": 1, "topics": [topic(name, partition(0, 6))]}
    play.both.ask(FETCH, other, body)
    play.ask(body)


@scenario(FETCH)
def fetch_as_a_follower(play: Play) -> None:
    name = filled(play)
    fetch(play, topic(name, partition(0, 0)), replica_id=5, replica_state={"replica_id": 5, "replica_epoch": 1})
    fetch(play, topic(name, partition(0, 0)), replica_id=-2, replica_state={"replica_id": -2, "replica_epoch": -1})


@scenario(FETCH, lowest=11)
def fetch_of_a_rack(play: Play) -> None:
    name = filled(play)
    fetch(play, topic(name, partition(0, 3)), rack_id="r1")
    fetch(play, topic(name, partition(0, 3)), cluster_id="somewhere else")
