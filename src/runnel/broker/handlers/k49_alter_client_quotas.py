"""AlterClientQuotas (key 49).

Versions 0–1 (KIP-546): sets and removes quotas of users, client ids and addresses; validate_only.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.handlers.quota_entities import entity_rows
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import QuotaAlteration, QuotaChange, QuotaOutcome
from runnel.core.metadata.quotas import quota_entity
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


async def handle(context: Context, request: Any) -> Body:
    alterations = [_alteration(entry) for entry in request.entries]
    try:
        check_cluster(context)
        outcomes = await context.node.client_quotas.alter(alterations, request.validate_only)
    except Refusal as refusal:
        entities = [quota_entity(alteration.entity) for alteration in alterations]
        outcomes = [QuotaOutcome(entity, refusal.code, refusal.message) for entity in entities]
    return {
        "entries": [
            {"error_code": outcome.code, "error_message": outcome.message, "entity": entity_rows(outcome.entity)}
            for outcome in outcomes
        ]
    }


def _alteration(entry: Any) -> QuotaAlteration:
    entity = [(part.entity_type, part.entity_name) for part in entry.entity]
    return QuotaAlteration(entity, [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops])


API = Api(ApiKey.ALTER_CLIENT_QUOTAS, handle, Access("ALTER_CONFIGS", "CLUSTER"))
