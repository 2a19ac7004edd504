"""DescribeClientQuotas and AlterClientQuotas: entities, filters, refusals, restart. Passes on Apache Kafka too."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clients.protocol.calls import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS, versions
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42
Entity = dict[str, str | None]
Found = dict[frozenset[tuple[str, str | None]], dict[str, float]]


def alter(
    raw: RawConnection,
    entity: Entity,
    changes: dict[str, float | None],
    *,
    version: int = 1,
    validate_only: bool = False,
) -> Any:
    """The row of the entity; None removes a quota."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes.items()]
    entry = {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()], "ops": ops}
    body = {"entries": [entry], "validate_only": validate_only}
    return raw.request(ALTER_CLIENT_QUOTAS, version, body).entries[0]


def ask(
    raw: RawConnection, filters: list[tuple[str, int, str | None]], *, strict: bool = False, version: int = 1
) -> Any:
    components = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in filters]
    return raw.request(DESCRIBE_CLIENT_QUOTAS, version, {"components": components, "strict": strict})


def found(reply: Any) -> Found:
    assert reply.error_code == 0, reply.error_message
    return {
        frozenset((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in reply.entries
    }


def key(**entity: str | None) -> frozenset[tuple[str, str | None]]:
    return frozenset((name.replace("_", "-"), value) for name, value in entity.items())


@pytest.fixture
def user(raw: RawConnection) -> Iterator[str]:
    """A user of this test's own; its quotas are gone afterwards."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    yield name
    for entity, quotas in found(ask(raw, [("user", EXACT, name)])).items():
        alter(raw, dict(entity), dict.fromkeys(quotas))


@pytest.mark.parametrize("version", versions(ALTER_CLIENT_QUOTAS))
def test_quotas_are_set_shown_and_removed(raw: RawConnection, user: str, version: int) -> None:
    outcome = alter(raw, {"user": user}, {"producer_byte_rate": 1e6, "request_percentage": 12.5}, version=version)
    assert outcome.error_code == 0
    assert [(part.entity_type, part.entity_name) for part in outcome.entity] == [("user", user)]
    expected = {key(user=user): {"producer_byte_rate": 1e6, "request_percentage": 12.5}}
    look = [("user", EXACT, user)]
    wait_until(lambda: found(ask(raw, look, version=version)) == expected, "the quotas are shown")
    assert alter(raw, {"user": user}, {"request_percentage": None}, version=version).error_code == 0
    wait_until(lambda: found(ask(raw, look)) == {key(user=user): {"producer_byte_rate": 1e6}}, "the quotas are shown")
    assert alter(raw, {"user": user}, {"producer_byte_rate": None}, version=version).error_code == 0
    wait_until(lambda: found(ask(raw, look)) == {}, "the quotas are shown")


def test_filters(raw: RawConnection, user: str) -> None:
    entities: list[Entity] = [
        {"user": user},
        {"user": user, "client-id": "client-a"},
        {"user": user, "client-id": None},
    ]
    for entity in entities:
        assert alter(raw, entity, {"consumer_byte_rate": 5e8}).error_code == 0
    of_user = ("user", EXACT, user)
    alone, with_client, with_default = (
        key(user=user),
        key(user=user, client_id="client-a"),
        key(user=user, client_id=None),
    )
    wait_until(lambda: set(found(ask(raw, [of_user]))) == {alone, with_client, with_default}, "the quotas are shown")
    assert set(found(ask(raw, [of_user], strict=True))) == {alone}
    assert set(found(ask(raw, [of_user, ("client-id", EXACT, "client-a")]))) == {with_client}
    assert set(found(ask(raw, [of_user, ("client-id", DEFAULT, None)], strict=True))) == {with_default}
    assert set(found(ask(raw, [of_user, ("client-id", SPECIFIED, None)]))) == {with_client, with_default}
    assert {alone, with_client, with_default} <= set(found(ask(raw, [])))
    assert found(ask(raw, [], strict=True)) == {}
    assert found(ask(raw, [("user", EXACT, "nobody")])) == {}


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ([("user", EXACT, None)], INVALID_REQUEST),
        ([("user", DEFAULT, "x")], INVALID_REQUEST),
        ([("user", SPECIFIED, "x")], INVALID_REQUEST),
        ([("user", 3, None)], INVALID_REQUEST),
        ([("group", SPECIFIED, None)], UNSUPPORTED_VERSION),
        ([("", SPECIFIED, None)], INVALID_REQUEST),
        ([("user", SPECIFIED, None), ("user", SPECIFIED, None)], INVALID_REQUEST),
        ([("user", SPECIFIED, None), ("ip", SPECIFIED, None)], INVALID_REQUEST),
    ],
)
def test_filters_that_cannot_be(raw: RawConnection, filters: list[tuple[str, int, str | None]], code: int) -> None:
    reply = ask(raw, filters)
    assert (reply.error_code, reply.entries) == (code, None)
    assert reply.error_message


@pytest.mark.parametrize(
    ("entity", "quota", "value"),
    [
        ({}, "producer_byte_rate", 1.0),
        ({"group": "g"}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"ip": "256.0.0.1"}, "connection_creation_rate", 1.0),
        ({"ip": "1.2.3.4", "user": "a"}, "connection_creation_rate", 1.0),
        ({"ip": "1.2.3.4"}, "producer_byte_rate", 1.0),
        ({"user": "a"}, "connection_creation_rate", 1.0),
        ({"user": "a"}, "nope", 1.0),
        ({"user": "a"}, "producer_byte_rate", 0.0),
        ({"user": "a"}, "producer_byte_rate", -1.0),
        ({"user": "a"}, "producer_byte_rate", 0.5),
        ({"user": "a"}, "producer_byte_rate", 1e30),
        ({"ip": None}, "connection_creation_rate", 2.0**31),
    ],
)
def test_alterations_that_cannot_be(raw: RawConnection, entity: Entity, quota: str, value: float) -> None:
    ops = [{"key": quota, "value": value, "remove": False}]
    entry = {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()], "ops": ops}
    outcome = raw.request(ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": False}).entries[0]
    assert outcome.error_code == INVALID_REQUEST
    assert outcome.error_message
    assert {(part.entity_type, part.entity_name) for part in outcome.entity} == set(entity.items())


def test_validate_only_changes_nothing(raw: RawConnection, user: str) -> None:
    assert alter(raw, {"user": user}, {"producer_byte_rate": 1.0}, validate_only=True).error_code == 0
    assert found(ask(raw, [("user", EXACT, user)])) == {}
    assert alter(raw, {"user": user}, {"producer_byte_rate": -1.0}, validate_only=True).error_code == INVALID_REQUEST


def test_quotas_survive_a_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with RawConnection(broker.address) as connection:
        assert alter(connection, {"ip": "10.1.2.3"}, {"connection_creation_rate": 100.0}).error_code == 0
        assert alter(connection, {"user": "u", "client-id": None}, {"producer_byte_rate": 7.0}).error_code == 0
    broker.terminate()
    broker.start()
    with RawConnection(broker.address) as connection:
        assert found(ask(connection, [])) == {
            key(ip="10.1.2.3"): {"connection_creation_rate": 100.0},
            key(user="u", client_id=None): {"producer_byte_rate": 7.0},
        }
