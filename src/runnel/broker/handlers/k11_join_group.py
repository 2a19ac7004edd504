"""JoinGroup (key 11).

Versions 0–9. The reply waits until the members of the group have joined or their rebalance timeout is over. Dynamic
members get an id first and join with it from version 4 (KIP-394); static members (KIP-345) come back without a
rebalance, and a static leader is told to skip the assignment from version 9 (KIP-814).
"""

from __future__ import annotations

import uuid
from typing import Any

from runnel.broker.handlers.groups_named import check_allowed, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import Join, JoinReply
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal

REBALANCE_TIMEOUT_SINCE_VERSION = 1
MEMBER_ID_REQUIRED_SINCE_VERSION = 4
NULL_PROTOCOL_SINCE_VERSION = 7
SKIP_ASSIGNMENT_SINCE_VERSION = 9


async def handle(context: Context, request: Any) -> Body:
    try:
        check_allowed(context, request.group_id)
        reply = await context.node.groups.join(_join(context, request))
    except Refusal as refusal:
        reply = JoinReply(refusal.code, request.member_id)
    return {
        "error_code": reply.code,
        "generation_id": reply.generation,
        "protocol_type": reply.protocol_type,
        "protocol_name": _protocol(reply.protocol, context.version),
        "leader": reply.leader,
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
            for member_id, instance_id, metadata in reply.members
        ],
    }


def _protocol(name: str | None, version: int) -> str | None:
    return name if name is not None or version >= NULL_PROTOCOL_SINCE_VERSION else ""


def _join(context: Context, request: Any) -> Join:
    client_id = context.header.client_id or ""
    has_rebalance_timeout = context.version >= REBALANCE_TIMEOUT_SINCE_VERSION
    prefix = request.group_instance_id if request.group_instance_id is not None else client_id
    return Join(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        [(protocol.name, protocol.metadata) for protocol in request.protocols],
        request.session_timeout_ms,
        request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        client_id,
        f"/{context.connection.peer_host}",  # as Java writes an address without a name
        f"{prefix}-{uuid.uuid4()}",
        context.version >= MEMBER_ID_REQUIRED_SINCE_VERSION and request.group_instance_id is None,
        context.version >= SKIP_ASSIGNMENT_SINCE_VERSION,
    )


API = Api(ApiKey.JOIN_GROUP, handle, Access("READ", "GROUP", group_id))
