"""ConsumerGroupHeartbeat (key 68).

Versions 0–1 (KIP-848): members join, say what they read and have, are told what they shall have, and leave. In version
0 the broker names members; from version 1 they name themselves, and may subscribe by a regular expression of RE2's
syntax. A heartbeat that says nothing new is answered at once and logs nothing. UNSUPPORTED_VERSION where the feature
group.version is 0.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Awaitable, Coroutine
from typing import Any

from runnel.broker.handlers.groups_named import check_allowed, consumer_groups_enabled, group_id
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.groups import Heartbeat, HeartbeatReply
from runnel.wire.apis import ApiKey
from runnel.wire.errors import Refusal

CLIENT_NAMES_MEMBERS_SINCE_VERSION = 1


def handle(context: Context, request: Any) -> Body | Coroutine[Any, Any, Body]:
    try:
        consumer_groups_enabled(context)
        check_allowed(context, request.group_id)
        names_members = context.version >= CLIENT_NAMES_MEMBERS_SINCE_VERSION
        reply = context.node.groups.consumer_heartbeat(_beat(context, request), client_names_members=names_members)
    except Refusal as refusal:
        return _refused(refusal)
    return _body(reply) if isinstance(reply, HeartbeatReply) else _later(reply)


async def _later(answer: Awaitable[HeartbeatReply]) -> Body:
    try:
        return _body(await answer)
    except Refusal as refusal:
        return _refused(refusal)


def _beat(context: Context, request: Any) -> Heartbeat:
    return Heartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        _owned(request.topic_partitions),
        context.header.client_id or "",
        f"/{context.connection.peer_host}",  # as Java writes an address without a name
        "" if request.member_id else _new_member_id(),
    )


def _owned(rows: Any) -> dict[uuid.UUID, list[int]] | None:
    if rows is None:
        return None
    owned: dict[uuid.UUID, list[int]] = {}
    for row in rows:
        owned.setdefault(row.topic_id, []).extend(row.partitions)
    return owned


def _new_member_id() -> str:
    """As Kafka writes a UUID."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _body(reply: HeartbeatReply) -> Body:
    return {
        "error_code": reply.code,
        "error_message": reply.message,
        "member_id": reply.member_id,
        "member_epoch": reply.epoch,
        "heartbeat_interval_ms": reply.heartbeat_interval_ms,
        "assignment": None
        if reply.assignment is None
        else {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in reply.assignment.items()
            ]
        },
    }


def _refused(refusal: Refusal) -> Body:
    return _body(HeartbeatReply(refusal.code, refusal.message or None))


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, handle, Access("READ", "GROUP", group_id))
