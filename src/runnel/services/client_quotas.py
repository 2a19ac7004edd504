"""The quotas of users, client ids and addresses: changed in the metadata log, and found by filters (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from runnel.core.metadata import AlterClientQuotas, QuotaAlteration, QuotaEntity, QuotaOutcome
from runnel.core.metadata.quotas import CLIENT_ID, IP, USER
from runnel.services.controller import Controller
from runnel.wire.errors import ErrorCode, Refusal


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2  # any, the default too


class QuotaFilter(NamedTuple):
    """What one part of an entity must be."""

    entity_type: str
    match_type: int
    name: str | None


class ClientQuotaService:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def alter(self, alterations: Sequence[QuotaAlteration], validate_only: bool) -> Sequence[QuotaOutcome]:
        command = AlterClientQuotas(alterations, validate_only)
        outcomes: Sequence[QuotaOutcome] = await self._controller.submit(command)
        return outcomes

    def describe(self, filters: Sequence[QuotaFilter], strict: bool) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """The entities that have every part that is asked for; `strict`: and no other part."""
        _check(filters)
        wanted = {part.entity_type: part for part in filters}
        return [
            (entity, quotas)
            for entity, quotas in self._controller.image.client_quotas.items()
            if _matches(entity, wanted, strict)
        ]


def _matches(entity: QuotaEntity, wanted: Mapping[str, QuotaFilter], strict: bool) -> bool:
    names = dict(entity)
    if not names.keys() >= wanted.keys() or (strict and len(names) != len(wanted)):
        return False
    return all(part.match_type == Match.SPECIFIED or names[kind] == part.name for kind, part in wanted.items())


def _check(filters: Sequence[QuotaFilter]) -> None:
    """Refusal of what cannot be looked for."""
    seen: set[str] = set()
    for part in filters:
        if part.entity_type == "":
            raise _bad("Invalid empty entity type.")
        if part.entity_type in seen:
            raise _bad(f"Entity type {part.entity_type} cannot appear more than once in the filter.")
        if part.entity_type not in (USER, CLIENT_ID, IP):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {part.entity_type}")
        seen.add(part.entity_type)
        _check_match(part)
    if IP in seen and len(seen) > 1:
        raise _bad(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )


def _check_match(part: QuotaFilter) -> None:
    if part.match_type not in tuple(Match):
        raise _bad(f"Unknown match type {part.match_type}")
    match = Match(part.match_type)
    if match is Match.EXACT and part.name is None:
        raise _bad("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match is not Match.EXACT and part.name is not None:
        raise _bad(f"Request specified MATCH_TYPE_{match.name}, but also specified a match string.")


def _bad(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
