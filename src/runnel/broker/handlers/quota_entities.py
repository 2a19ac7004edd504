"""Whom a quota is for, as rows of a reply."""

from __future__ import annotations

from runnel.broker.router import Body
from runnel.core.metadata import QuotaEntity


def entity_rows(entity: QuotaEntity) -> list[Body]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]
