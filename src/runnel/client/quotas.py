"""Client quotas: limits of users, client ids and addresses (KIP-546).

In: a `Cluster` and entities. Out: which limits are set, which of them applies to a client (the most specific,
in Kafka's order), and what became of a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError, refused
from runnel.client.settling import settle
from runnel.wire.apis import ApiKey
from runnel.wire.messages import Struct

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)
# key: what it limits, for people
CLIENT_KEYS = {
    "producer_byte_rate": "bytes per second that may be produced",
    "consumer_byte_rate": "bytes per second that may be fetched",
    "request_percentage": "percent of one thread's time that requests may take",
    "controller_mutation_rate": "partitions per second that may be created or deleted",
}
IP_KEYS = {"connection_creation_rate": "connections per second that may be opened"}
DEFAULT: None = None
_EXACT, _DEFAULT, _ANY = 0, 1, 2

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Sorted pairs of type and name; None is the default of that type."""


class Quota(NamedTuple):
    entity: Entity
    values: dict[str, float]


class Applied(NamedTuple):
    """The limit that a client meets, and whose it is."""

    value: float
    entity: Entity


def entity_name(entity: Entity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else repr(name)}" for kind, name in entity)


def make_entity(parts: Mapping[str, str | None]) -> Entity:
    # The order that people say it in; brokers do not care.
    return tuple((kind, parts[kind]) for kind in ENTITY_TYPES if kind in parts)


async def describe_quotas(
    cluster: Cluster, parts: Mapping[str, str | None] | None = None, *, any_of: Iterable[str] = (), strict: bool = False
) -> list[Quota]:
    """Quotas whose entity has all these parts; if `strict`, and no others. Nothing given: all quotas."""
    components = [
        {"entity_type": kind, "match_type": _DEFAULT if name is None else _EXACT, "match": name}
        for kind, name in (parts or {}).items()
    ]
    components += [{"entity_type": kind, "match_type": _ANY, "match": None} for kind in any_of]
    reply = await cluster.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": components, "strict": strict})
    if reply.error_code:
        raise refused(reply.error_code, "quotas", reply.error_message)
    return sorted((_quota(row) for row in reply.entries or []), key=lambda quota: entity_name(quota.entity))


def _quota(row: Struct) -> Quota:
    entity = make_entity({part.entity_type: part.entity_name for part in row.entity})
    return Quota(entity, {value.key: value.value for value in sorted(row.values, key=lambda value: str(value.key))})


async def alter_quotas(
    cluster: Cluster, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> ClientError | None:
    """Set limits of one entity, or take them away (None); the error, if the broker refuses."""
    operations = [
        {"key": key, "value": value if value is not None else 0.0, "remove": value is None}
        for key, value in changes.items()
    ]

    async def send(wanted: Sequence[Entity]) -> list[tuple[Entity, Struct]]:
        entries: list[dict[str, Any]] = [
            {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in each], "ops": operations}
            for each in wanted
        ]
        reply = await cluster.call_controller(
            ApiKey.ALTER_CLIENT_QUOTAS, {"entries": entries, "validate_only": validate_only}
        )
        return [
            (make_entity({part.entity_type: part.entity_name for part in row.entity}), row) for row in reply.entries
        ]

    settled = await settle(cluster, [entity], send, lambda each: f"quota of {entity_name(each)}")
    return settled[entity][1]


def applied_quotas(
    quotas: Iterable[Quota], user: str | None, client_id: str | None, ip: str | None
) -> dict[str, Applied]:
    """What limits a client of this user, client id and address: the most specific quota of each key wins."""
    by_entity = {quota.entity: quota.values for quota in quotas}
    found: dict[str, Applied] = {}
    for entity in _precedence(user, client_id, ip):
        for key, value in by_entity.get(entity, {}).items():
            found.setdefault(key, Applied(value, entity))
    return found


def _precedence(user: str | None, client_id: str | None, ip: str | None) -> list[Entity]:
    """Kafka's order: with the user's name, then the default user, then the client id alone; in each, the more
    exact client id first. Addresses stand for themselves."""
    users, clients, addresses = (_with_default(name) for name in (user, client_id, ip))
    combined = [
        parts for name in users for parts in (*({USER: name, CLIENT_ID: client} for client in clients), {USER: name})
    ]
    alone = [*({CLIENT_ID: client} for client in clients), *({IP: address} for address in addresses)]
    return [make_entity(parts) for parts in (*combined, *alone)]


def _with_default(name: str | None) -> list[str | None]:
    return [name, DEFAULT] if name else [DEFAULT]
