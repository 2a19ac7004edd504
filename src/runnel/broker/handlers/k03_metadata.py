"""Metadata (key 3).

Versions 0–13. All topics, some by name, some by id (KIP-516); creates an unknown topic where the client and
``auto.create.topics.enable`` allow it, and answers when it is there. Advertises the address that the client used.
Replies are cached per image of the cluster: encoding 1 200 partitions takes milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.broker.acl_operations import cluster_operations, topic_operations
from runnel.broker.connection import Buffers, Outcome
from runnel.broker.router import Access, Api, Body, Context, prefix
from runnel.core.metadata import NewTopic, TopicImage
from runnel.wire import messages
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.types import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from runnel.services.node import Node

THROTTLE_TIME_SINCE_VERSION = 3
ALWAYS_AUTO_CREATE_BEFORE_VERSION = 4
NO_REASON = (ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # who must wait asks again for what is unknown
BY_ID_SINCE_VERSION = 12  # 10 and 11 have the field, but Kafka refuses its use


def handle(context: Context, request: Any) -> Outcome:
    if context.version < BY_ID_SINCE_VERSION and _asks_by_id(request):
        return _refused_whole(context, request)
    missing = _to_create(context, request)
    if missing:
        return _create_then_answer(context, request, missing)
    return _answer(context, request, {})


def _to_create(context: Context, request: Any) -> list[str]:
    if not request.topics or not context.node.configs.broker["auto.create.topics.enable"]:
        return []
    if context.version >= ALWAYS_AUTO_CREATE_BEFORE_VERSION and not request.allow_auto_topic_creation:
        return []
    known = context.node.image.topics
    if any(t.topic_id != ZERO_UUID for t in request.topics):
        return []
    return [t.name for t in request.topics if t.name and t.name not in known and t.name not in context.denied]


async def _create_then_answer(context: Context, request: Any, names: list[str]) -> Buffers:
    wanted = [NewTopic(name) for name in dict.fromkeys(names)]
    try:
        results = await context.node.topics.create(wanted, False, context.admission(0))
        refused = {result.name or "": int(result.code) for result in results if result.code not in NO_REASON}
    except Refusal as refusal:
        refused = dict.fromkeys(names, int(refusal.code))
    return _answer(context, request, refused)


def _answer(context: Context, request: Any, refused: dict[str, int]) -> Buffers:
    image = context.node.image
    key = _cache_key(context, request, refused)
    body = context.node.metadata_replies.get(image, key)
    if body is None:
        body = messages.encode_response(ApiKey.METADATA, context.version, _body(context, request, refused))
        context.node.metadata_replies.put(key, body)
    throttle_ms = context.settle()
    if throttle_ms and context.version >= THROTTLE_TIME_SINCE_VERSION:
        body = throttle_ms.to_bytes(4, "big") + body[4:]  # the first field of a reply that may be a cached one
    return [prefix(context.header, len(body)), body]


def _cache_key(context: Context, request: Any, refused: dict[str, int]) -> object:
    topics = None if request.topics is None else tuple((t.name, t.topic_id) for t in request.topics)
    asked = (request.include_topic_authorized_operations, request.include_cluster_authorized_operations)
    return (context.version, context.connection.advertised, topics, asked, context.denied, tuple(refused.items()))


def _body(context: Context, request: Any, refused: dict[str, int]) -> Body:
    node, image = context.node, context.node.image
    every = request.topics is None or (context.version == 0 and not request.topics)
    if every:
        topics = [t for t in image.topics.values() if t.name not in context.denied]
        rows = [topic_row(topic, request.include_topic_authorized_operations) for topic in topics]
    else:
        rows = [_asked_row(context, request, asked, refused) for asked in _distinct(request.topics)]
    return {
        "brokers": node.broker_rows(context.connection.advertised),
        "cluster_id": node.cluster_id,
        "controller_id": node.node_id,
        "topics": rows,
        "cluster_authorized_operations": cluster_operations(request.include_cluster_authorized_operations),
    }


def _asked_row(context: Context, request: Any, asked: Any, refused: dict[str, int]) -> Body:
    image = context.node.image
    with_operations = request.include_topic_authorized_operations
    by_id = asked.name is None or asked.topic_id != ZERO_UUID
    name = image.topic_names.get(asked.topic_id) if by_id else asked.name
    if name is not None and name in context.denied:
        return _missing_row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, ZERO_UUID, False)
    topic = image.topics.get(name) if name is not None else None
    if topic is not None:
        return topic_row(topic, with_operations)
    if by_id:
        return _missing_row(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id, False)
    code = refused.get(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not context.node.topics.is_legal_name(asked.name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _missing_row(code, asked.name, ZERO_UUID, with_operations)


def _asks_by_id(request: Any) -> bool:
    return any(topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ())


def _refused_whole(context: Context, request: Any) -> Buffers:
    """Versions 10 and 11 have the fields of ids, but no use for them: Kafka refuses the whole request."""
    code = ErrorCode.INVALID_REQUEST
    rows = [_missing_row(code, topic.name or "", topic.topic_id, False) for topic in request.topics]
    body = messages.encode_response(ApiKey.METADATA, context.version, {"cluster_id": None, "topics": rows})
    return [prefix(context.header, len(body)), body]


def _distinct(asked: Iterable[Any]) -> list[Any]:
    """Each topic once. Where any is asked for by id, names count for nothing, as in Kafka."""
    by_id = {topic.topic_id: topic for topic in asked if topic.topic_id != ZERO_UUID}
    return list((by_id or {topic.name: topic for topic in asked}).values())


def topic_row(topic: TopicImage, with_operations: bool) -> Body:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": [
            {
                "partition_index": partition.index,
                "leader_id": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.isr,
            }
            for partition in topic.partitions
        ],
        "topic_authorized_operations": topic_operations(with_operations),
    }


def _missing_row(code: int, name: str | None, topic_id: UUID, with_operations: bool) -> Body:
    operations = topic_operations(with_operations)
    return {"error_code": code, "name": name, "topic_id": topic_id, "topic_authorized_operations": operations}


def _names(node: Node, request: Any) -> Iterable[str]:
    if request.topics is None:
        return node.image.topics
    return [t.name or node.topic_name(t.topic_id) for t in request.topics]


API = Api(ApiKey.METADATA, handle, Access("DESCRIBE", "TOPIC", _names))
