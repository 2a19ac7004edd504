"""DescribeClientQuotas (key 48).

Versions 0–1 (KIP-546): the quotas of the users, client ids and addresses that a filter lets through.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.handlers.quota_entities import entity_rows
from runnel.broker.router import Access, Api, Body, Context
from runnel.services.client_quotas import QuotaFilter
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


def handle(context: Context, request: Any) -> Body:
    filters = [QuotaFilter(part.entity_type, part.match_type, part.match) for part in request.components]
    try:
        check_cluster(context)
        found = context.node.client_quotas.describe(filters, request.strict)
    except Refusal as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message, "entries": None}
    entries = [
        {"entity": entity_rows(entity), "values": [{"key": key, "value": quota} for key, quota in quotas.items()]}
        for entity, quotas in found
    ]
    return {"error_message": "", "entries": entries}


API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, handle, Access("DESCRIBE_CONFIGS", "CLUSTER"))
