"""Heartbeat (key 12).

Versions 0–4. Keeps a member's session alive and tells it of a rebalance. Answered at once: nothing is logged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from runnel.broker.handlers.groups_named import check_allowed, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


def handle(context: Context, request: Any) -> Body | Coroutine[Any, Any, Body]:
    try:
        check_allowed(context, request.group_id)
        code = context.node.groups.heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        )
    except Refusal as refusal:
        return {"error_code": refusal.code}
    return {"error_code": code} if isinstance(code, ErrorCode) else _later(code)


async def _later(answer: Awaitable[ErrorCode]) -> Body:
    try:
        return {"error_code": await answer}
    except Refusal as refusal:
        return {"error_code": refusal.code}


API = Api(ApiKey.HEARTBEAT, handle, Access("READ", "GROUP", group_id))
