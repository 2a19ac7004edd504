"""CreateTopics (key 19).

Versions 2–7: partitions, replication factor, assignments and configs, with defaults for -1 (KIP-464),
validate_only, the resulting configs in the reply (KIP-525), topic ids. A topic is there when the reply leaves.
"""

from __future__ import annotations

from typing import Any

from runnel.broker.handlers.topics_named import topic_names
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import NewTopic, TopicOutcome
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal

STRICT_QUOTA_SINCE_VERSION = 6  # KIP-599


async def handle(context: Context, request: Any) -> Body:
    wanted = [_wanted(topic) for topic in request.topics if topic.name not in context.denied]
    admit = context.admission(STRICT_QUOTA_SINCE_VERSION)
    try:
        outcomes = await context.node.topics.create(wanted, request.validate_only, admit)
    except Refusal as refusal:
        outcomes = [TopicOutcome(topic.name, code=refusal.code, message=refusal.message) for topic in wanted]
    rows = [_row(context, outcome) for outcome in outcomes]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows += [{"name": t.name, "error_code": denied} for t in request.topics if t.name in context.denied]
    return {"topics": rows}


def _wanted(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _row(context: Context, outcome: TopicOutcome) -> Body:
    if outcome.code:
        return {"name": outcome.name, "error_code": outcome.code, "error_message": outcome.message, "configs": []}
    rows = context.node.configs.of_topic(outcome.configs).describe()
    return {
        "name": outcome.name,
        "topic_id": outcome.topic_id,
        "error_message": None,
        "num_partitions": outcome.partition_count,
        "replication_factor": outcome.replication_factor,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "read_only": row.read_only,
                "config_source": row.source,
                "is_sensitive": row.sensitive,
            }
            for row in rows
        ],
    }


API = Api(ApiKey.CREATE_TOPICS, handle, Access("CREATE", "TOPIC", topic_names))
