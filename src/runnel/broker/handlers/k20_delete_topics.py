"""DeleteTopics (key 20).

Versions 1–6, by name and by id (KIP-516). The topic is gone from the metadata and its folders are out of the way when
the reply leaves; the bytes are freed in the background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import TopicOutcome
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.types import ZERO_UUID

if TYPE_CHECKING:
    from uuid import UUID

    from runnel.services.node import Node

BY_ID_SINCE_VERSION = 6
STRICT_QUOTA_SINCE_VERSION = 5  # KIP-599


async def handle(context: Context, request: Any) -> Body:
    wanted, unclear = _wanted(context.version, request)
    allowed = [key for key in wanted if _name(context.node, key) not in context.denied]
    admit = context.admission(STRICT_QUOTA_SINCE_VERSION)
    try:
        outcomes = list(await context.node.topics.delete(allowed, admit))
    except Refusal as refusal:
        outcomes = [_outcome(key, refusal.code, refusal.message) for key in allowed]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    outcomes += [_outcome(key, denied, None) for key in wanted if _name(context.node, key) in context.denied]
    outcomes += unclear
    return {
        "responses": [
            {
                "name": outcome.name,
                "topic_id": outcome.topic_id,
                "error_code": outcome.code,
                "error_message": outcome.message,
            }
            for outcome in outcomes
        ]
    }


def _wanted(version: int, request: Any) -> tuple[list[str | UUID], list[TopicOutcome]]:
    """What to delete, by name or by id, and the refusals of what has both or neither."""
    if version < BY_ID_SINCE_VERSION:
        return list(request.topic_names), []
    wanted: list[str | UUID] = []
    unclear = []
    for topic in request.topics:
        if (topic.name is None) == (topic.topic_id == ZERO_UUID):
            message = "a topic to delete is given by its name or by its id"
            unclear.append(TopicOutcome(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, message))
        else:
            wanted.append(topic.topic_id if topic.name is None else topic.name)
    return wanted, unclear


def _name(node: Node, key: str | UUID) -> str:
    return key if isinstance(key, str) else node.topic_name(key)


def _outcome(key: str | UUID, code: ErrorCode, message: str | None) -> TopicOutcome:
    if isinstance(key, str):
        return TopicOutcome(key, ZERO_UUID, code, message)
    return TopicOutcome(None, key, code, message)


def _names(node: Node, request: Any) -> list[str]:
    keys = [*request.topic_names, *(topic.name or topic.topic_id for topic in request.topics)]
    return [_name(node, key) for key in keys]


API = Api(ApiKey.DELETE_TOPICS, handle, Access("DELETE", "TOPIC", _names))
