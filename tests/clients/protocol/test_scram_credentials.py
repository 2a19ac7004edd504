"""AlterUserScramCredentials and DescribeUserScramCredentials. Passes on Apache Kafka too."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.protocol.calls import ALTER_CREDENTIALS, DESCRIBE_CREDENTIALS
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection

SHA_256, SHA_512 = 1, 2
UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL = 33, 91, 92, 93
SECRET = b"salted-and-hashed-elsewhere-0123"


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"pepper",
        "salted_password": SECRET,
    }


def deletion(user: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": user, "mechanism": mechanism}


def alter(raw: RawConnection, *changes: dict[str, Any]) -> dict[str, int]:
    body = {
        "deletions": [change for change in changes if "salt" not in change],
        "upsertions": [change for change in changes if "salt" in change],
    }
    results = raw.request(ALTER_CREDENTIALS, 0, body).results
    assert all(row.error_message for row in results if row.error_code != 0)
    return {row.user: int(row.error_code) for row in results}


def described(raw: RawConnection, *users: str) -> dict[str, tuple[int, dict[int, int]]]:
    body = {"users": [{"name": user} for user in users] or None}
    reply = raw.request(DESCRIBE_CREDENTIALS, 0, body)
    assert reply.error_code == 0
    return {
        row.user: (int(row.error_code), {info.mechanism: info.iterations for info in row.credential_infos})
        for row in reply.results
    }


@pytest.fixture
def user(raw: RawConnection) -> Iterator[str]:
    name = f"user-{uuid.uuid4().hex[:8]}"
    yield name
    for mechanism in described(raw, name)[name][1]:
        alter(raw, deletion(name, mechanism))


def test_credentials_are_made_shown_and_deleted(raw: RawConnection, user: str) -> None:
    assert alter(raw, upsertion(user)) == {user: 0}
    assert alter(raw, upsertion(user, SHA_512, 16_384)) == {user: 0}
    wait_until(
        lambda: described(raw, user) == {user: (0, {SHA_256: 4096, SHA_512: 16_384})}, "the credentials are shown"
    )
    assert described(raw)[user] == (0, {SHA_256: 4096, SHA_512: 16_384})
    assert alter(raw, upsertion(user, SHA_256, 8192)) == {user: 0}
    wait_until(lambda: described(raw, user)[user][1][SHA_256] == 8192, "the credentials are shown")
    assert alter(raw, deletion(user)) == {user: 0}
    wait_until(lambda: described(raw, user) == {user: (0, {SHA_512: 16_384})}, "the credentials are shown")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), UNACCEPTABLE_CREDENTIAL),
        (upsertion("refused", 0), UNSUPPORTED_SASL_MECHANISM),
        (upsertion("refused", 3), UNSUPPORTED_SASL_MECHANISM),
        (upsertion("refused", SHA_256, 4095), UNACCEPTABLE_CREDENTIAL),
        (upsertion("refused", SHA_512, 16_385), UNACCEPTABLE_CREDENTIAL),
        (deletion(""), UNACCEPTABLE_CREDENTIAL),
        (deletion("refused", 9), UNSUPPORTED_SASL_MECHANISM),
        (deletion("refused"), RESOURCE_NOT_FOUND),
    ],
)
def test_refusals(raw: RawConnection, change: dict[str, Any], code: int) -> None:
    assert alter(raw, change) == {change["name"]: code}
    assert described(raw, "refused") == {"refused": (RESOURCE_NOT_FOUND, {})}


def test_a_user_is_named_once(raw: RawConnection, user: str) -> None:
    assert alter(raw, upsertion(user), upsertion(user, SHA_512)) == {user: DUPLICATE_RESOURCE}
    assert alter(raw, deletion(user), deletion(user), upsertion(user)) == {user: RESOURCE_NOT_FOUND}
    reply = raw.request(DESCRIBE_CREDENTIALS, 0, {"users": [{"name": user}, {"name": user}]})
    assert [row.error_code for row in reply.results] == [DUPLICATE_RESOURCE]


def test_credentials_survive_a_restart_and_the_secret_is_nowhere(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()
    with RawConnection(broker.address) as connection:
        assert alter(connection, upsertion("alice", SHA_512, 5000)) == {"alice": 0}
    broker.terminate()
    broker.start()
    with RawConnection(broker.address) as connection:
        assert described(connection) == {"alice": (0, {SHA_512: 5000})}
    broker.stop()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"pepper" in path.read_bytes() for path in files), "the salt is in the metadata log"
    assert not any(SECRET in path.read_bytes() for path in files)
