"""Metadata (3), CreateTopics (19), DeleteTopics (20), CreatePartitions (37), DescribeTopicPartitions (75)."""

from __future__ import annotations

import uuid
from typing import Any

from differential.plays import Play, scenario, topic_id
from differential.shapes import STRANGER

METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DESCRIBE_TOPIC_PARTITIONS = 3, 19, 20, 37, 75
ZERO = uuid.UUID(int=0)
NAMES = ("", ".", "..", "a b", "é", "a" * 249, "a" * 250, "with.point", "with_point", "-", "__cluster_metadata")
OPERATIONS = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}


@scenario(METADATA)
def metadata_by_name(play: Play) -> None:
    one, two = play.shared("metadata-one", 3)[0], play.shared("metadata-two")[0]

    def ask(*names: str, **options: Any) -> None:
        play.ask(
            {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False, **options}, settle=True
        )

    ask(one)
    ask(two, one)
    ask(one, one)
    ask(one, **OPERATIONS)
    if play.version >= 4:
        ask("nope", one)
        ask("nope", **OPERATIONS)
        for name in NAMES:
            if name != "with_point":
                ask(name)
    else:
        ask("a b", one)
        ask("")
    ask("__consumer_offsets")
    if play.version >= 1:
        ask()


@scenario(METADATA, lowest=10)
def metadata_by_id(play: Play) -> None:
    one = play.shared("metadata-one", 3)[0]

    def ask(*topics: dict[str, Any]) -> None:
        play.ask({"topics": list(topics), "allow_auto_topic_creation": False}, settle=True)

    ask({"name": None, "topic_id": topic_id(one)})
    ask({"name": one, "topic_id": topic_id(one)})
    ask({"name": "nope", "topic_id": topic_id(one)})
    ask({"name": None, "topic_id": STRANGER})
    ask({"name": None, "topic_id": ZERO})
    ask({"name": None, "topic_id": topic_id(one)}, {"name": one, "topic_id": ZERO})
    ask({"name": None, "topic_id": topic_id(one)}, {"name": None, "topic_id": STRANGER})


@scenario(METADATA)
def metadata_creates_topics(play: Play) -> None:
    name = play.name("asked-for")
    play.ask({"topics": [{"name": name}], "allow_auto_topic_creation": True})
    play.both.wait_for_topic(name, 2)
    play.ask({"topics": [{"name": name}], "allow_auto_topic_creation": True})
    if play.version < 4:
        return
    other = play.name("not-asked-for")
    play.ask({"topics": [{"name": other}], "allow_auto_topic_creation": False})
    play.ask({"topics": [{"name": "a b"}], "allow_auto_topic_creation": True})


@scenario(METADATA)
def metadata_of_everything(play: Play) -> None:
    play.ask({"topics": None if play.version >= 1 else []}, settle=True)
    play.ask({"topics": None if play.version >= 1 else [], **OPERATIONS}, settle=True)


def create(play: Play, *topics: dict[str, Any], **options: Any) -> Any:
    base = {"num_partitions": 1, "replication_factor": 1}
    rows = [{**base, **topic} for topic in topics]
    return play.ask({"topics": rows, "timeout_ms": 30_000, **options})


@scenario(CREATE_TOPICS)
def create_topics(play: Play) -> None:
    name = play.name("made")
    create(play, {"name": name, "num_partitions": 3}, validate_only=True)
    create(play, {"name": name, "num_partitions": 3})
    play.both.wait_for_topic(name, 3)
    create(play, {"name": name})
    create(play, {"name": name}, validate_only=True)
    create(play, {"name": play.name(), "num_partitions": -1, "replication_factor": -1})
    for bad in NAMES:
        create(play, {"name": bad}, validate_only=True)
    create(play, {"name": play.name("twice")}, {"name": play.name("twice")}, {"name": play.name("once")})
    create(play, {"name": play.name("good")}, {"name": "a b"}, {"name": name})
    create(play)


@scenario(CREATE_TOPICS)
def create_topics_with_wrong_numbers(play: Play) -> None:
    for partitions, factor in ((0, 1), (-2, 1), (1, 0), (1, 2), (1, -2), (10_001, 1), (-1, 2), (0, 0)):
        create(play, {"name": play.name(), "num_partitions": partitions, "replication_factor": factor})
    for assignments in (
        [(0, [1]), (1, [1])],
        [(0, [1]), (0, [1])],
        [(1, [1])],
        [(0, [])],
        [(0, [7])],
        [(0, [1, 1])],
        [(-1, [1])],
    ):
        rows = [{"partition_index": index, "broker_ids": replicas} for index, replicas in assignments]
        topic = {"name": play.name(), "num_partitions": -1, "replication_factor": -1, "assignments": rows}
        create(play, topic)
        create(play, {**topic, "num_partitions": 1})


@scenario(CREATE_TOPICS)
def create_topics_with_configs(play: Play) -> None:
    def configs(**values: str | None) -> dict[str, Any]:
        rows = [{"name": name.replace("_", "."), "value": value} for name, value in values.items()]
        return {"name": play.name(), "configs": rows}

    create(play, configs(retention_ms="1000", cleanup_policy="compact,delete", segment_bytes="2000000"))
    for bad in (
        {"nope": "1"},
        {"retention_ms": None},
        {"retention_ms": "x"},
        {"retention_ms": "-2"},
        {"cleanup_policy": "keep"},
        {"cleanup_policy": ""},
        {"segment_bytes": "1"},
        {"compression_type": "brotli"},
        {"min_insync_replicas": "0"},
        {"": "1"},
    ):
        create(play, configs(**bad), validate_only=True)
    twice = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    create(play, {"name": play.name(), "configs": twice})


@scenario(CREATE_TOPICS)
def create_topics_in_no_time(play: Play) -> None:
    for timeout_ms in (0, -1):
        create(play, {"name": play.name()}, timeout_ms=timeout_ms, validate_only=True)


@scenario(DELETE_TOPICS)
def delete_topics(play: Play) -> None:
    one, two, three = (play.topic(suffix) for suffix in ("one", "two", "three"))

    def delete(*names: str) -> None:
        topics = [{"name": name, "topic_id": ZERO} for name in names]
        body = {"topics": topics} if play.version >= 6 else {"topic_names": list(names)}
        play.ask({**body, "timeout_ms": 30_000})

    for bad in ("nope", "a b", "", "__cluster_metadata"):
        delete(bad)
    delete(one)
    delete(one)
    delete(two, "nope")
    delete(three, three)
    delete("nope", "nope")
    delete()


@scenario(DELETE_TOPICS, lowest=6)
def delete_topics_by_id(play: Play) -> None:
    one, two, three = (play.topic(suffix) for suffix in ("one", "two", "three"))

    def delete(*topics: dict[str, Any]) -> None:
        play.ask({"topics": list(topics), "timeout_ms": 30_000})

    delete({"name": None, "topic_id": topic_id(one)})
    delete({"name": None, "topic_id": topic_id(one)})
    delete({"name": None, "topic_id": STRANGER})
    delete({"name": None, "topic_id": ZERO})
    delete({"name": two, "topic_id": topic_id(two)})
    delete({"name": two, "topic_id": STRANGER})
    delete({"name": two, "topic_id": ZERO}, {"name": None, "topic_id": topic_id(two)})
    delete({"name": None, "topic_id": topic_id(three)}, {"name": None, "topic_id": topic_id(three)})
    delete({"name": None, "topic_id": topic_id(three)}, {"name": "nope", "topic_id": ZERO})


@scenario(CREATE_PARTITIONS)
def create_partitions(play: Play) -> None:
    name = play.topic("grows", 2)

    def grow(*topics: dict[str, Any], **options: Any) -> None:
        rows = [{"assignments": None, **topic} for topic in topics]
        play.ask({"topics": rows, "timeout_ms": 30_000, "validate_only": False, **options})

    for count in (2, 1, 0, -1):
        grow({"name": name, "count": count})
    grow({"name": name, "count": 3}, validate_only=True)
    grow({"name": name, "count": 3})
    play.both.wait_for_topic(name, 3)
    for brokers in ([], [[]], [[7]], [[1, 1]], [[1], [1]]):
        grow({"name": name, "count": 4, "assignments": [{"broker_ids": ids} for ids in brokers]})
    grow({"name": name, "count": 4, "assignments": [{"broker_ids": [1]}]})
    for bad in ("nope", "a b", "", "__cluster_metadata"):
        grow({"name": bad, "count": 4})
    grow({"name": name, "count": 5}, {"name": name, "count": 6})
    grow({"name": name, "count": 5}, {"name": "nope", "count": 6})
    grow()


@scenario(DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(play: Play) -> None:
    names = [play.topic(suffix, count) for suffix, count in (("a", 3), ("b", 1), ("c", 2))]

    def describe(*topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        place = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        rows = [{"name": name} for name in topics]
        play.ask({"topics": rows, "response_partition_limit": limit, "cursor": place}, settle=True)

    describe(*names)
    describe(*reversed(names))
    describe(names[0], names[0])
    for limit in (0, 1, 2, 3, 4, 5, -1):
        describe(*names, limit=limit)
    for cursor in (
        (names[0], 1),
        (names[0], 3),
        (names[0], 99),
        (names[1], 0),
        (names[2], 1),
        ("zzz", 0),
        (names[0], -1),
    ):
        describe(*names, cursor=cursor)
        describe(*names, cursor=cursor, limit=1)
    describe("nope")
    describe("nope", names[0], "a b")
    describe(names[0], cursor=("", 0))
    describe(cursor=("", 0))
    describe(cursor=("zzzz", 0))
    describe(limit=3)
