"""The SCRAM credentials of users: changed in the metadata log, and described without their secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from runnel.core.metadata import (
    AlterUserScramCredentials,
    CredentialDeletion,
    CredentialOutcome,
    CredentialUpsertion,
)
from runnel.services.controller import Controller
from runnel.wire.errors import ErrorCode


class UserCredentials(NamedTuple):
    """What may be told of a user: mechanisms and their iterations."""

    user: str
    iterations_by_mechanism: dict[int, int]
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class CredentialService:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def alter(
        self, deletions: Sequence[CredentialDeletion], upsertions: Sequence[CredentialUpsertion]
    ) -> Sequence[CredentialOutcome]:
        command = AlterUserScramCredentials(deletions, upsertions)
        outcomes: Sequence[CredentialOutcome] = await self._controller.submit(command)
        return outcomes

    def describe(self, users: Sequence[str]) -> list[UserCredentials]:
        """Of these users, or of all where none is named."""
        known: dict[str, dict[int, int]] = {}
        for (user, mechanism), credential in self._controller.image.scram_credentials.items():
            known.setdefault(user, {})[mechanism] = credential.iterations
        if not users:
            return [UserCredentials(user, mechanisms) for user, mechanisms in known.items()]
        counts = Counter(users)
        return [_described(user, known.get(user), count) for user, count in counts.items()]


def _described(user: str, mechanisms: dict[int, int] | None, count: int) -> UserCredentials:
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return UserCredentials(user, {}, ErrorCode.DUPLICATE_RESOURCE, message)
    if mechanisms is None:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return UserCredentials(user, {}, ErrorCode.RESOURCE_NOT_FOUND, message)
    return UserCredentials(user, mechanisms)
