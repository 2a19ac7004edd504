"""Moves that make, change, look at and delete topics and their configs."""

from __future__ import annotations

from typing import Any

from differential.chance.world import TOPICS_MAX, World
from differential.sides import Side
from harness.conditions import wait_until

METADATA, CREATE, DELETE, GROW, DESCRIBE, DESCRIBE_CONFIGS, CHANGE_CONFIGS, LOG_DIRS = 3, 19, 20, 37, 75, 32, 44, 35
UNKNOWN_TOPIC = 3
IN_TIME = {"timeout_ms": 30_000}
TOPIC = 2
CONFIGS = {
    "retention.ms": ("1000000000000", "-1", "x"),
    "max.message.bytes": ("1000000", "150", "-1"),
    "cleanup.policy": ("delete", "compact,delete", "nope"),
    "message.timestamp.type": ("CreateTime", "CreateTime", "never"),
    "segment.bytes": ("2000000", "5"),
    "nope": ("1",),
}


def create(world: World) -> None:
    chance = world.chance
    if len(world.partitions) >= TOPICS_MAX:
        return delete(world)
    name = chance.choice([f"t{world.seed}-{letter}" for letter in "abcdef"])
    count = chance.choice([1, 1, 2, 3, -1, 0]) if chance.random() < 0.3 else chance.randint(1, 3)
    configs = [_config(world)] if chance.random() < 0.2 else []
    topic = {"name": name, "num_partitions": count, "replication_factor": chance.choice([1, -1]), "configs": configs}
    only = chance.random() < 0.1
    pair = world.ask(CREATE, {"topics": [topic], "validate_only": only, **IN_TIME})
    if pair.kafka["topics"][0]["error_code"] or only:
        return None
    world.partitions[name] = 2 if count == -1 else count  # num.partitions of both
    world.both.wait_for_topic(name, world.partitions[name])
    by_name = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    for side in world.both.sides:
        side.names.learn_topic(name, side.ask(METADATA, 12, by_name)["topics"][0]["topic_id"])
    return None


def _config(world: World) -> dict[str, Any]:
    name = world.chance.choice(list(CONFIGS))
    return {"name": name, "value": world.chance.choice(CONFIGS[name])}


def delete(world: World) -> None:
    name = world.topic()
    topics = [{"name": name, "topic_id": None}]
    world.ask(DELETE, {"topics": topics, "topic_names": [name], **IN_TIME})
    if world.partitions.pop(name, None) is None:
        return
    for key in [key for key in world.ends if key[0] == name]:
        del world.ends[key]
    for producer in world.producers:
        for key in [key for key in producer.next_sequences if key[0] == name]:
            del producer.next_sequences[key]
    world.sessions.clear()
    body = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}], "replica_id": -1}

    def is_gone(side: Side) -> bool:
        rows = side.ask(2, 7, body)["topics"][0]["partitions"]
        return bool(rows[0]["error_code"] == UNKNOWN_TOPIC)

    for side in world.both.sides:
        wait_until(lambda side=side: is_gone(side), f"the end of {name} on {side}")  # type: ignore[misc]


def grow(world: World) -> None:
    name = world.topic()
    count = world.partitions.get(name, 1) + world.chance.choice([1, 1, 0, -1])
    only = world.chance.random() < 0.2
    rows = [{"name": name, "count": count, "assignments": None}]
    pair = world.ask(GROW, {"topics": rows, "validate_only": only, **IN_TIME})
    if pair.kafka["results"][0]["error_code"] == 0 and not only:
        world.partitions[name] = count
        world.both.wait_for_topic(name, count)


def metadata(world: World) -> None:
    chance = world.chance
    version = world.version(METADATA, lowest=4)  # below, unknown topics are made
    topics = None if chance.random() < 0.2 else [{"name": world.topic()} for _ in range(chance.randint(0, 3))]
    options = {"include_topic_authorized_operations": chance.random() < 0.3}
    world.ask(METADATA, {"topics": topics, "allow_auto_topic_creation": False, **options}, version, settle=True)


def describe(world: World) -> None:
    chance = world.chance
    names = sorted({world.topic() or "nope" for _ in range(chance.randint(1, 3))})
    cursor = {"topic_name": chance.choice(names), "partition_index": chance.randint(0, 2)}
    body = {"topics": [{"name": name} for name in names], "response_partition_limit": chance.choice([0, 1, 2, 100])}
    world.ask(DESCRIBE, {**body, "cursor": cursor if chance.random() < 0.5 else None}, settle=True)


def describe_configs(world: World) -> None:
    keys = world.chance.choice([None, [], list(CONFIGS)])
    row = {"resource_type": TOPIC, "resource_name": world.topic(), "configuration_keys": keys}
    options = {"include_synonyms": world.chance.random() < 0.5}
    world.ask(DESCRIBE_CONFIGS, {"resources": [row], **options}, settle=True)


def change_configs(world: World) -> None:
    chance = world.chance
    changes = [{**_config(world), "config_operation": chance.randint(0, 3)} for _ in range(chance.randint(1, 2))]
    row = {"resource_type": TOPIC, "resource_name": world.topic(), "configs": changes}
    world.ask(CHANGE_CONFIGS, {"resources": [row], "validate_only": chance.random() < 0.2})
    describe = {"resource_type": TOPIC, "resource_name": row["resource_name"], "configuration_keys": None}
    world.ask(DESCRIBE_CONFIGS, {"resources": [describe]}, settle=True)


def log_dirs(world: World) -> None:
    topic = world.topic()
    indexes = list(range(world.partitions.get(topic, 1)))
    world.ask(LOG_DIRS, {"topics": [{"topic": topic, "partitions": indexes}]}, settle=True)
