"""CreatePartitions (key 37).

Versions 0–3: grow topics to a count, with assignments and validate_only (KIP-195).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import NewPartitions, PartitionsOutcome
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

STRICT_QUOTA_SINCE_VERSION = 3  # KIP-599


async def handle(context: Context, request: Any) -> Body:
    wanted = [_wanted(topic) for topic in request.topics if topic.name not in context.denied]
    admit = context.admission(STRICT_QUOTA_SINCE_VERSION)
    try:
        outcomes = list(await context.node.topics.grow(wanted, request.validate_only, admit))
    except Refusal as refusal:
        outcomes = [PartitionsOutcome(topic.name, refusal.code, refusal.message) for topic in wanted]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    outcomes += [PartitionsOutcome(t.name, denied) for t in request.topics if t.name in context.denied]
    return {
        "results": [{"name": o.name, "error_code": o.code, "error_message": o.message} for o in outcomes],
    }


def _wanted(topic: Any) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [tuple(assignment.broker_ids) for assignment in topic.assignments]
    return NewPartitions(topic.name, topic.count, assignments)


API = Api(ApiKey.CREATE_PARTITIONS, handle, Access("ALTER", "TOPIC", topic_names))
