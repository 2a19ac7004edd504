"""DeleteGroups (key 42).

Versions 0–2. Groups without members go, with their offsets; the tombstones are on disk when the reply leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.handlers.groups_named import check_allowed
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.services.node import Node


async def handle(context: Context, request: Any) -> Body:
    names = dict.fromkeys(request.groups_names)
    return {"results": [{"group_id": name, "error_code": await _one(context, name)} for name in names]}


async def _one(context: Context, group: str) -> ErrorCode:
    try:
        check_allowed(context, group)
        return await context.node.groups.delete(group)
    except Refusal as refusal:
        return refusal.code


def _names(node: Node, request: Any) -> list[str]:
    return list(request.groups_names)


API = Api(ApiKey.DELETE_GROUPS, handle, Access("DELETE", "GROUP", _names))
