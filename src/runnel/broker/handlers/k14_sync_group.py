"""SyncGroup (key 14).

Versions 0–5. The leader brings the assignments, everybody takes their own; followers wait for the leader. The
generation is logged, as Kafka's GroupMetadata record, before anybody is answered. Version 5 checks the protocol
(KIP-559).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.groups_named import check_allowed, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import Sync, SyncReply
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

PROTOCOL_SINCE_VERSION = 5


async def handle(context: Context, request: Any) -> Body:
    sync = Sync(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {row.member_id: row.assignment for row in request.assignments},
    )
    try:
        if context.version >= PROTOCOL_SINCE_VERSION and (sync.protocol_type is None or sync.protocol is None):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol type and name must be given")
        check_allowed(context, sync.group_id)
        reply = await context.node.groups.sync(sync)
    except Refusal as refusal:
        reply = SyncReply(refusal.code)
    return {
        "error_code": reply.code,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "assignment": reply.assignment,
    }


API = Api(ApiKey.SYNC_GROUP, handle, Access("READ", "GROUP", group_id))
