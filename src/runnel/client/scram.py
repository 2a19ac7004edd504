"""Users with passwords for SASL/SCRAM (KIP-554). The password never leaves this process: brokers get its salted hash.

In: a `Cluster`, users, passwords. Out: who has which mechanism; what became of a change.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError, refused
from runnel.client.security import SCRAM_HASHES, SCRAM_ITERATIONS_MIN
from runnel.client.settling import settle
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct

ITERATIONS_MIN = ITERATIONS_DEFAULT = SCRAM_ITERATIONS_MIN
ITERATIONS_MAX = 16384
SALT_BYTES = 24


class Mechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def word(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return SCRAM_HASHES[self.word]


class Credential(NamedTuple):
    mechanism: Mechanism
    iterations: int


def user_subject(name: str) -> str:
    return f"user '{name}'"


async def describe_users(
    cluster: Cluster, names: Sequence[str] | None = None
) -> dict[str, list[Credential] | ClientError]:
    """The credentials of each user (None: of all users)."""
    users = None if names is None else [{"name": name} for name in dict.fromkeys(names)]
    reply = await cluster.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": users})
    if reply.error_code:
        raise refused(reply.error_code, "users", reply.error_message)
    return {row.user: _credentials(row) for row in sorted(reply.results, key=lambda row: str(row.user))}


def _credentials(row: Struct) -> list[Credential] | ClientError:
    if row.error_code == ErrorCode.RESOURCE_NOT_FOUND:
        return refused(row.error_code, user_subject(row.user))
    if row.error_code:
        return refused(row.error_code, user_subject(row.user), row.error_message)
    return sorted(Credential(Mechanism(info.mechanism), info.iterations) for info in row.credential_infos)


async def set_password(
    cluster: Cluster, name: str, password: str, mechanisms: Sequence[Mechanism], iterations: int = ITERATIONS_DEFAULT
) -> ClientError | None:
    """Create the user, or change its password."""
    upsertions = [_upsertion(name, password, mechanism, iterations) for mechanism in mechanisms]
    return await _alter(cluster, name, "upsertions", upsertions)


def _upsertion(name: str, password: str, mechanism: Mechanism, iterations: int) -> dict[str, Any]:
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
    return {
        "name": name,
        "mechanism": int(mechanism),
        "iterations": iterations,
        "salt": salt,
        "salted_password": salted,
    }


async def delete_user(cluster: Cluster, name: str, mechanisms: Sequence[Mechanism]) -> ClientError | None:
    """Take away the user's credentials of these mechanisms."""
    deletions = [{"name": name, "mechanism": int(mechanism)} for mechanism in mechanisms]
    return await _alter(cluster, name, "deletions", deletions)


async def _alter(cluster: Cluster, name: str, field: str, rows: Sequence[dict[str, Any]]) -> ClientError | None:
    """One request per mechanism: Kafka takes a user only once in each. The first error ends it."""
    for change in rows:
        body = {"deletions": [], "upsertions": [], field: [change]}

        async def send(_: Sequence[str], body: dict[str, Any] = body) -> list[tuple[str, Struct]]:
            reply = await cluster.call_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, body)
            return [(row.user, row) for row in reply.results]

        error = (await settle(cluster, [name], send, user_subject))[name][1]
        if error is not None:
            return error
    return None
