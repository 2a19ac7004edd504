"""A request of any API whose fields are drawn from pools: what scripts did not think of."""

from __future__ import annotations

from typing import Any

from differential.chance.world import World
from differential.compare import key_of
from differential.shapes import ALWAYS, STRANGER
from differential.versions import SERVED
from runnel.wire.schemas import EntitySchema, FieldSchema, load

# Not drawn: what waits for others, has no reply, would change the whole cluster, or has moves of its own.
NOT_DRAWN = {0, 1, 11, 14, 18, 19, 20, 37, 49, 51, 57}
NUMBERS = (-2, -1, 0, 1, 2, 3, 100)
BOUNDED = {
    "max_wait_ms": (0, 5),
    "timeout_ms": (30_000,),
    "session_timeout_ms": (1, 10_000),
    "match_type": (0, 1, 2),
    "resource_type": (0, 2, 4, 8, 16, 32),
}
NEVER_NULL = {"entity_name", "subscribed_topic_regex"}
ITEMS_MAX = 2
METADATA = 3


def anything(world: World) -> None:
    api_key = world.chance.choice([key for key in SERVED if key not in NOT_DRAWN])
    lowest = 4 if api_key == METADATA else 0  # below, it makes topics
    version = world.version(api_key, lowest=lowest)
    schema = load(api_key, "request", version)
    body = _entity(world, schema) | {k: v for k, v in ALWAYS.get(api_key, {}).items() if schema.field(k)}
    if api_key == METADATA:
        body["allow_auto_topic_creation"] = False
    world.ask(api_key, body, version, settle=True)


def _entity(world: World, schema: EntitySchema) -> dict[str, Any]:
    return {field.name: _value(world, field) for field in schema.fields if field.tag is None}


def _value(world: World, field: FieldSchema) -> Any:
    chance = world.chance
    if field.nullable and field.name not in NEVER_NULL and chance.random() < 0.15:
        return None
    if field.is_array:
        items = [_item(world, field) for _ in range(chance.choice([0, 1, 1, ITEMS_MAX]))]
        # Of things that are named twice Kafka makes one, or an error, or the last counts: scripts look at that.
        return list({_named(item): item for item in items}.values())
    return _item(world, field)


def _named(item: Any) -> str:
    return (key_of(item) or str(item)) if isinstance(item, dict) else str(item)


def _item(world: World, field: FieldSchema) -> Any:
    chance = world.chance
    if field.entity is not None:
        return _entity(world, field.entity)
    if field.name in BOUNDED:
        return chance.choice(BOUNDED[field.name])
    if field.kind == "string":
        return chance.choice([world.topic(), world.topic(), "nobody", "", "1"])
    pools: dict[str, tuple[Any, ...]] = {
        "bool": (True, False),
        "uuid": (STRANGER, STRANGER.__class__(int=0)),
        "bytes": (b"", b"\0\1"),
        "records": (None, b""),
        "float64": (0.0, 1.0, -1.0, 1e9),
        "uint16": (0, 1, 9092),
    }
    return chance.choice(pools.get(field.kind, NUMBERS))
