"""ListGroups (key 16).

Versions 0–5: all groups, or those in some states (KIP-518) or of some types (KIP-848): classic, consumer.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal


async def handle(context: Context, request: Any) -> Body:
    try:
        listing = await context.node.groups.listing(request.states_filter, request.types_filter)
    except Refusal as refusal:
        return {"error_code": refusal.code, "groups": []}
    rows = [
        {
            "group_id": row.group_id,
            "protocol_type": row.protocol_type,
            "group_state": row.state,
            "group_type": row.group_type,
        }
        for row in listing
        if row.group_id not in context.denied
    ]
    return {"groups": rows}


API = Api(ApiKey.LIST_GROUPS, handle, Access("DESCRIBE", "CLUSTER"))
