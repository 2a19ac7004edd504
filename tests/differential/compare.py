"""Where two replies differ: path, Kafka's value, Runnel's value.

In: two normalised replies. Out: a list of `Difference`. Arrays of entities are paired by their key fields, not by
place: Kafka's order is often that of a hash map. Arrays of numbers and strings are compared in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

KEY_FIELDS = frozenset(
    {
        "name",
        "topic",
        "topic_id",
        "topic_name",
        "group_id",
        "partition_index",
        "partition",
        "index",
        "member_id",
        "group_instance_id",
        "node_id",
        "broker_id",
        "replica_id",
        "producer_id",
        "api_key",
        "key",
        "resource_type",
        "resource_name",
        "log_dir",
        "entity_type",
        "entity_name",
        "mechanism",
        "user",
        "feature",
    }
)
"""What tells the items of an array apart. All that an item has of these make up its key."""


class _Absent:
    def __repr__(self) -> str:
        return "<absent>"


ABSENT = _Absent()


class Difference(NamedTuple):
    path: str
    kafka: Any
    runnel: Any
    shape: str
    """The path without the keys of array items."""

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.kafka!r}, Runnel {self.runnel!r}"


def differences(kafka: dict[str, Any], runnel: dict[str, Any]) -> list[Difference]:
    if kafka["connection"] != runnel["connection"]:
        return [Difference("connection", kafka["connection"], runnel["connection"], "connection")]
    return list(_compared(kafka, runnel, "", ""))


def _compared(kafka: Any, runnel: Any, path: str, shape: str) -> Iterator[Difference]:
    if isinstance(kafka, dict) and isinstance(runnel, dict):
        for name in kafka.keys() | runnel.keys():
            inner = (f"{path}.{name}", f"{shape}.{name}") if path else (name, name)
            yield from _compared(kafka.get(name, ABSENT), runnel.get(name, ABSENT), *inner)
    elif _is_entities(kafka) and _is_entities(runnel):
        theirs, ours = _by_key(kafka), _by_key(runnel)
        for key in theirs | ours:
            yield from _compared(theirs.get(key, ABSENT), ours.get(key, ABSENT), f"{path}[{key}]", shape)
    elif kafka != runnel or type(kafka) is not type(runnel):
        yield Difference(path, kafka, runnel, shape)


def _is_entities(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_second_name(field: str, item: dict[str, Any]) -> bool:
    """A topic is known by its name where it has one."""
    return field == "topic_id" and (item.get("name") or item.get("topic")) is not None


def _by_key(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Items by key; a key that comes again is numbered, as are items without one."""
    found: dict[str, dict[str, Any]] = {}
    for item in items:
        key = key_of(item)
        copies = 1
        unique = key or "1"
        while unique in found:
            copies += 1
            unique = f"{key}#{copies}" if key else str(copies)
        found[unique] = item
    return found


def key_of(item: dict[str, Any]) -> str:
    """What an item of an array is told apart by; empty where nothing does."""
    if "entity" in item:  # of a quota: what it is for is a list
        return ",".join(sorted(f"{part['entity_type']}={part['entity_name']}" for part in item["entity"]))
    return ",".join(f"{name}={item[name]}" for name in item if name in KEY_FIELDS and not _is_second_name(name, item))
