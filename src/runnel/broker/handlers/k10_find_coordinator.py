"""FindCoordinator (key 10).

Versions 0–6, single and batched (KIP-699). One broker coordinates every group. Left out: transaction and share
coordinators, which are refused with a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

if TYPE_CHECKING:
    from runnel.services.node import Node

GROUP = 0
BATCHED_SINCE_VERSION = 4


def handle(context: Context, request: Any) -> Body:
    if context.version < BATCHED_SINCE_VERSION:
        return _answer(context, request.key_type, request.key)
    rows = [{"key": key, **_answer(context, request.key_type, key)} for key in request.coordinator_keys]
    return {"coordinators": rows}


def _answer(context: Context, key_type: int, key: str) -> Body:
    if key_type != GROUP:
        message = "only group coordinators are built so far (docs/limits.md)"
        return _refused(ErrorCode.INVALID_REQUEST, message)
    if key in context.denied:
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"not authorised to describe group {key}")
    host, port = context.connection.advertised
    return {
        "node_id": context.node.node_id,
        "host": host,
        "port": port,
        "error_code": ErrorCode.NONE,
        "error_message": "NONE" if context.version < BATCHED_SINCE_VERSION else "",  # as Kafka says it
    }


def _refused(code: ErrorCode, message: str) -> Body:
    return {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": message}


def _keys(node: Node, request: Any) -> list[str]:
    return [*request.coordinator_keys, request.key]


API = Api(ApiKey.FIND_COORDINATOR, handle, Access("DESCRIBE", "GROUP", _keys))
