"""DescribeQuorum (55), UpdateFeatures (57), DescribeProducers (61), ListConfigResources (74)."""

from __future__ import annotations

from typing import Any

from differential.plays import Play, batch, batch_of, scenario

QUORUM, FEATURES, PRODUCERS, RESOURCES = 55, 57, 61, 74
IN_TIME = {"timeout_ms": 30_000}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@scenario(QUORUM)
def describe_quorum(play: Play) -> None:
    def describe(*partitions: tuple[str, list[int]]) -> None:
        rows = [
            {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in partitions
        ]
        play.ask({"topics": rows})

    describe(("__cluster_metadata", [0]))
    describe(("__cluster_metadata", [1]))
    describe(("__cluster_metadata", [0, 1]))
    describe(("nope", [0]))
    describe(("__cluster_metadata", [0]), ("nope", [0]))
    describe(("__cluster_metadata", []))
    describe()


@scenario(FEATURES)
def update_features(play: Play) -> None:
    def update(feature: str, level: int, kind: int = UPGRADE, **options: Any) -> None:
        row = {"feature": feature, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != UPGRADE}
        play.ask({"feature_updates": [row], "validate_only": False, **IN_TIME, **options})

    update("nope", 1)
    update("nope", 0)
    update("", 1)
    update("group.version", 1)
    update("group.version", 1, validate_only=True)
    for level in (0, 2, 99, -1):
        update("group.version", level, validate_only=True)
        for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, 0, 9):
            if kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE) or play.version >= 1:
                update("group.version", level, kind, validate_only=True)
    update("metadata.version", 99)
    update("metadata.version", 1, SAFE_DOWNGRADE, validate_only=True)
    play.ask({"feature_updates": [], **IN_TIME})
    rows = [{"feature": name, "max_version_level": 1, "upgrade_type": UPGRADE} for name in ("nope", "group.version")]
    play.ask({"feature_updates": rows, **IN_TIME})
    play.ask({"feature_updates": rows[1:] * 2, **IN_TIME})


@scenario(PRODUCERS)
def describe_producers(play: Play) -> None:
    name = play.topic("written", 2)
    one, two = play.producer("one"), play.producer("two")
    play.produce(name, batch(b"nobody's"))
    play.produce(name, batch_of(one, 0, 0, 2))
    play.produce(name, batch_of(two, 3, 0))
    play.produce(name, batch_of(one, 0, 2))

    def describe(*topics: tuple[str, list[int]]) -> None:
        play.ask({"topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in topics]})

    describe((name, [0, 1]))
    describe((name, [7, -1]))
    describe(("nope", [0]))
    describe(("", [0]), ("a b", [0]))
    describe((name, []))
    describe()


@scenario(RESOURCES)
def list_config_resources(play: Play) -> None:
    for kinds in ([], [16], [2], [4], [8], [32], [2, 4], [0], [1], [99], [-1], [16, 16]):
        play.ask({"resource_types": kinds}, settle=True)
