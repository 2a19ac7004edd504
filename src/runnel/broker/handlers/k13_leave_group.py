"""LeaveGroup (key 13).

Versions 0–5: one member, or several (KIP-345); an administrator removes static members by their instance id alone. The
reasons of KIP-800 are not kept.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.groups_named import check_allowed, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import LeaveReply, Leaving
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal

BATCHED_SINCE_VERSION = 3


async def handle(context: Context, request: Any) -> Body:
    batched = context.version >= BATCHED_SINCE_VERSION
    leaving = (
        [Leaving(member.member_id, member.group_instance_id) for member in request.members]
        if batched
        else [Leaving(request.member_id)]
    )
    try:
        check_allowed(context, request.group_id)
        reply = await context.node.groups.leave(request.group_id, leaving)
    except Refusal as refusal:
        reply = LeaveReply(refusal.code)
    if reply.code:
        return {"error_code": reply.code, "members": []}
    if not batched:
        return {"error_code": reply.members[0][1]}
    members = [
        {"member_id": member.member_id, "group_instance_id": member.instance_id, "error_code": code}
        for member, code in reply.members
    ]
    return {"error_code": reply.code, "members": members}


API = Api(ApiKey.LEAVE_GROUP, handle, Access("READ", "GROUP", group_id))
