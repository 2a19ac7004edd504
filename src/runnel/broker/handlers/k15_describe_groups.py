"""DescribeGroups (key 15).

Versions 0–6. A group that does not exist, or is no classic one, is "Dead", with GROUP_ID_NOT_FOUND from version 6
(KIP-1043). The protocol and what members subscribed to are told while the group is stable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.acl_operations import group_operations
from runnel.broker.handlers.groups_named import check_allowed
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import GroupDescription
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.services.node import Node

NOT_FOUND_SINCE_VERSION = 6


async def handle(context: Context, request: Any) -> Body:
    rows = [await _one(context, group) for group in request.groups]
    for row in rows:
        found = not row.get("error_code")
        row["authorized_operations"] = group_operations(found and request.include_authorized_operations)
    return {"groups": rows}


async def _one(context: Context, group: str) -> Body:
    try:
        check_allowed(context, group)
        return _row(await context.node.groups.describe(group))
    except Refusal as refusal:
        refused = {"group_id": group, "error_code": refusal.code, "error_message": refusal.message}
    if group and refused["error_code"] is not ErrorCode.GROUP_ID_NOT_FOUND:
        return refused
    if context.version < NOT_FOUND_SINCE_VERSION:
        return {"group_id": group, "group_state": "Dead"}
    message = refused["error_message"] or f"Group {group} not found."
    absent = {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": message}
    return {**refused, "group_state": "Dead", **absent}


def _row(description: GroupDescription) -> Body:
    return {
        "group_id": description.group_id,
        "group_state": description.state,
        "protocol_type": description.protocol_type,
        "protocol_data": description.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in description.members
        ],
    }


def _names(node: Node, request: Any) -> list[str]:
    return list(request.groups)


API = Api(ApiKey.DESCRIBE_GROUPS, handle, Access("DESCRIBE", "GROUP", _names))
