"""ElectLeaders (key 43).

Versions 0–2: elects the preferred leader (KIP-183) or, from version 1 on, any leader at all (KIP-460), of the given
partitions or wherever one is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from runnel.broker.handlers.cluster_named import check_cluster
from runnel.broker.handlers.partition_rows import rows_by_topic
from runnel.broker.router import Access, Api, Body, Context
from runnel.core.metadata import PartitionOutcome
from runnel.core.metadata.reassignments import ELECTION_TYPES
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal


async def handle(context: Context, request: Any) -> Body:
    asked = None
    if request.topic_partitions is not None:
        asked = [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    code = ErrorCode.NONE
    try:
        check_cluster(context)
        if request.election_type not in ELECTION_TYPES and request.topic_partitions != []:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        outcomes = await context.node.cluster.elect(request.election_type, asked)
    except Refusal as refusal:
        code = refusal.code
        outcomes = [PartitionOutcome(*name, refusal.code, refusal.message) for name in asked or ()]
    rows = rows_by_topic(_asked(context, request, outcomes), outcomes, _topic_row, "partition_id")
    return {"error_code": code, "replica_election_results": rows}


def _asked(context: Context, request: Any, outcomes: Sequence[PartitionOutcome]) -> list[tuple[str, int]]:
    """The topics of the request, or all, with the number of outcomes that each has."""
    if request.topic_partitions is not None:
        return [(topic.topic, len(topic.partitions)) for topic in request.topic_partitions]
    if request.election_type not in ELECTION_TYPES:
        return []
    counts = Counter(outcome.topic for outcome in outcomes)
    return [(topic, counts[topic]) for topic in context.node.image.topics]


def _topic_row(topic: str, partitions: list[Body]) -> Body:
    return {"topic": topic, "partition_result": partitions}


API = Api(ApiKey.ELECT_LEADERS, handle, Access("ALTER", "CLUSTER"))
