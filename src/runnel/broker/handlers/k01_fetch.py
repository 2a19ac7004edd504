"""Fetch (key 1).

Versions 4–18. Long poll by min_bytes and max_wait_ms, limits per partition and in all with at least one batch
(KIP-74), incremental sessions (KIP-227), leader epochs and truncation detection (KIP-320, KIP-595), topic ids from 13
(KIP-516). Whole batches only, from the batch that contains the offset. read_committed equals read_uncommitted while
there are no transactions. Left out: preferred read replica (KIP-392, one replica), requests of followers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from runnel.broker.charging import Charge
from runnel.broker.connection import Buffers, Outcome
from runnel.broker.router import Access, Api, Context, prefix
from runnel.services.fetch import Limits, Planned
from runnel.services.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    TopicPartition,
    session_key,
)
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.fetch import (
    FetchPartition,
    FetchPartitionReply,
    FetchRequest,
    decode_fetch_request,
    encode_fetch_response,
)

if TYPE_CHECKING:
    from runnel.services.node import Node

TOPIC_IDS_SINCE_VERSION = 13
READ_COMMITTED = 1
CROWDED_RESPONSE_BYTES_MAX = 64 * 1024
"""What one fetch may take while the replies that slow readers have not taken fill their budget."""

Requests = list[tuple[TopicPartition, FetchPartition]]
Replies = Sequence[tuple[TopicPartition, FetchPartitionReply]]


def handle(context: Context, request: FetchRequest) -> Outcome:
    try:
        if request.replica_id >= 0:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "replication is not built yet (docs/limits.md)")
        requests, session = resolve(context, request)
    except Refusal as refusal:
        return _encode(context, refusal.code, NO_SESSION, ())
    limits = _limits(context, request)
    if any(_unopened(context.node, key) for key, _ in requests):
        return _open_then_wait(context, requests, session, limits)
    planned, enough = context.node.fetch.plan(requests, limits, context.denied)
    if (enough or limits.wait_ms_max <= 0) and context.node.fetch.is_resident(planned):
        if context.charge is not None and not _may_send(context.charge, planned):
            return throttled(context, session)
        return answer(context, session, context.node.fetch.read(planned))
    return _wait(context, requests, session, limits)


def _limits(context: Context, request: FetchRequest) -> Limits:
    bytes_max = request.max_bytes
    if context.connection.listener.replies_crowded:
        bytes_max = min(bytes_max, CROWDED_RESPONSE_BYTES_MAX)
    bytes_min = request.min_bytes
    if context.charge is not None:
        bytes_max = context.charge.fetch_bytes_max(bytes_max)
        bytes_min = min(bytes_min, bytes_max)
    return Limits(bytes_min, bytes_max, request.max_wait_ms, request.isolation_level == READ_COMMITTED)


def _unopened(node: Node, key: TopicPartition) -> bool:
    where = (key.topic, key.partition)
    return where not in node.partitions.open_partitions and node.partitions.exists(*where)


async def _open_then_wait(
    context: Context, requests: Requests, session: FetchSession | None, limits: Limits
) -> Buffers:
    for key, _ in requests:
        if _unopened(context.node, key):
            try:
                await context.node.partitions.open(key.topic, key.partition)
            except Refusal:
                continue  # the plan meets the same refusal and puts it into the reply
    return await _wait(context, requests, session, limits)


async def _wait(context: Context, requests: Requests, session: FetchSession | None, limits: Limits) -> Buffers:
    fetch = context.node.fetch
    planned: list[Planned] = await fetch.wait_and_plan(requests, limits, context.denied)
    if context.connection.listener.replies_crowded:  # it may have become so while we waited
        smaller = limits._replace(bytes_max=min(limits.bytes_max, CROWDED_RESPONSE_BYTES_MAX))
        planned, _ = fetch.plan(requests, smaller, context.denied)
    if context.charge is not None and not _may_send(context.charge, planned):
        return throttled(context, session)
    replies = fetch.read(planned) if fetch.is_resident(planned) else await fetch.read_cold(planned)
    return answer(context, session, replies)


# --- sessions -------------------------------------------------------------------------------------------------


def resolve(context: Context, request: FetchRequest) -> tuple[Requests, FetchSession | None]:
    """The partitions that this request asks for, and the session it belongs to."""
    node, by_id = context.node, context.version >= TOPIC_IDS_SINCE_VERSION
    named = _named(node, request)
    now_ms = time.time_ns() // 1_000_000
    sessions = node.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return named, None
        session = sessions.open(random.getrandbits(31), by_id, now_ms)
        if session is not None:
            session.update(named)
        return named, session
    session = sessions.resume(request, by_id, now_ms)
    session.update(named)
    session.forget(_forgotten(node, request))
    if not session.wanted:  # nothing is left to remember
        sessions.close(session.session_id)
        return named, None
    every = session.wanted.items()
    if not by_id:
        return [(key, wanted.fetch) for key, wanted in every], session
    return [(key._replace(topic=node.topic_name(key.topic_id)), wanted.fetch) for key, wanted in every], session


def _named(node: Node, request: FetchRequest) -> Requests:
    return [
        (TopicPartition(topic.name or node.topic_name(topic.topic_id), topic.topic_id, fetch.index), fetch)
        for topic in request.topics
        for fetch in topic.partitions
    ]


def _forgotten(node: Node, request: FetchRequest) -> list[TopicPartition]:
    return [
        TopicPartition(name or node.topic_name(topic_id), topic_id, index)
        for name, topic_id, indexes in request.forgotten
        for index in indexes
    ]


# --- replies --------------------------------------------------------------------------------------------------


def _may_send(charge: Charge, planned: Sequence[Planned]) -> bool:
    """Asked before anything is read; what goes out around the records is charged when it is encoded."""
    return charge.may_send(sum(one.plan.length for one in planned if one.plan is not None))


def throttled(context: Context, session: FetchSession | None) -> Buffers:
    """Over quota: an empty reply (KIP-219). A session stays as it was; one that would begin with this does not."""
    if session is not None and session.epoch == INITIAL_EPOCH + 1:
        context.node.fetch_sessions.close(session.session_id)
        session = None
    return _encode(context, 0, NO_SESSION if session is None else session.session_id, ())


def answer(context: Context, session: FetchSession | None, replies: Replies) -> Buffers:
    if session is None:
        return _encode(context, 0, NO_SESSION, replies)
    first = session.epoch == INITIAL_EPOCH + 1
    told: list[tuple[TopicPartition, FetchPartitionReply]] = []
    for key, reply in replies:
        wanted = session.wanted.get(session_key(key))
        has_records = bool(reply.records)
        if wanted is None or wanted.has_news(reply, has_records) or first:
            told.append((key, reply))
        if has_records and wanted is not None and not first:
            session.wanted.move_to_end(
                session_key(key)
            )  # fairness: who has just been served is asked last the next time
    return _encode(context, 0, session.session_id, told)


def _encode(context: Context, error_code: int, session_id: int, replies: Replies) -> Buffers:
    topics: list[tuple[str, UUID, list[FetchPartitionReply]]] = []
    for key, reply in replies:
        if not topics or topics[-1][0] != key.topic or topics[-1][1] != key.topic_id:
            topics.append((key.topic, key.topic_id, []))
        topics[-1][2].append(reply)
    body = encode_fetch_response(context.version, context.settle(), error_code, session_id, topics)
    size = sum(map(len, body))
    if context.charge is not None and replies:
        context.charge.sent_besides(size - sum(len(reply.records or b"") for _, reply in replies))
    return [prefix(context.header, size), *body]


def _decode(_: int, version: int, frame: memoryview, offset: int) -> FetchRequest:
    return decode_fetch_request(version, frame, offset)


def _names(node: Node, request: FetchRequest) -> list[str]:
    return [topic.name or node.topic_name(topic.topic_id) for topic in request.topics]


API = Api(ApiKey.FETCH, handle, Access("READ", "TOPIC", _names), decode=_decode)
