"""Produce (key 0).

Versions 3–13 (advertised from 0, as Kafka does, since older librdkafka stops compressing otherwise: KIP-896).
acks 0, 1 and all; idempotent producers (KIP-98, KIP-360); topic ids from 13 (KIP-516); leader hints in errors from 10
(KIP-951). Left out: transactional batches; recompression (``compression.type`` other than ``producer``).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

from runnel.broker.connection import Buffers, Outcome
from runnel.broker.router import Access, Api, Context, prefix
from runnel.core.metadata.image import INTERNAL_TOPICS
from runnel.services.partition import Partition
from runnel.services.produce import ACKS, Appended, RecordsRefused
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.produce import (
    PartitionRecords,
    ProducePartitionReply,
    ProduceRequest,
    TopicRecords,
    decode_produce_request,
    encode_produce_response,
)

if TYPE_CHECKING:
    from uuid import UUID

    from runnel.services.node import Node

    TopicReplies = list[tuple[str, UUID, list[ProducePartitionReply]]]

ZSTD_SINCE_VERSION = 7
ADMIN_CLIENT_ID = "__admin_client"
"""As in Kafka, the one client id that may write to internal topics, where its ACLs let it."""
LEADER_HINT_CODES = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def handle(context: Context, request: ProduceRequest) -> Outcome:
    missing = unopened(context, request)
    if missing:
        return _open_then_handle(context, _copy(request), missing)
    return append_all(context, request)


def unopened(context: Context, request: ProduceRequest) -> list[tuple[str, int]]:
    """Partitions that exist but are not open yet: opening reads the disk, so it is awaited first."""
    node = context.node
    partitions = node.partitions.open_partitions
    found: list[tuple[str, int]] = []
    for name, topic_id, records in request.topics:
        topic = name or node.topic_name(topic_id)
        for index, _ in records:
            if (topic, index) not in partitions and node.partitions.exists(topic, index):
                found.append((topic, index))
    return found


async def _open_then_handle(
    context: Context, request: ProduceRequest, missing: list[tuple[str, int]]
) -> Buffers | None:
    for topic, index in missing:
        try:
            await context.node.partitions.open(topic, index)
        except Refusal:
            continue  # append_all meets the same refusal and puts it into the reply
    outcome = append_all(context, request)
    return await outcome if isinstance(outcome, asyncio.Future) else cast("Buffers | None", outcome)


def _copy(request: ProduceRequest) -> ProduceRequest:
    """The same request with records of its own: the frame's memory is reused once the handler has returned."""
    topics = [
        TopicRecords(
            topic.name,
            topic.topic_id,
            [
                PartitionRecords(p.index, None if p.records is None else memoryview(bytearray(p.records)))
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return request._replace(topics=topics)


def append_all(context: Context, request: ProduceRequest) -> Outcome:
    """Append every batch in order; reply at once, or park until the disk has what acks=all promised."""
    replies: TopicReplies = []
    waits: list[tuple[int, int, asyncio.Future[None]]] = []
    now_ms = time.time_ns() // 1_000_000
    refused = False
    for name, topic_id, partitions in request.topics:
        topic = name or context.node.topic_name(topic_id)
        row: list[ProducePartitionReply] = []
        for index, records in partitions:
            try:
                done = _append_one(context, request.acks, topic, topic_id, index, records, now_ms)
            except Refusal as refusal:
                refused = True
                row.append(_refused(context, topic, index, refusal))
                continue
            row.append(
                ProducePartitionReply(index, 0, done.base_offset, done.log_append_time_ms, done.log_start_offset)
            )
            if done.durable is not None:
                waits.append((len(replies), len(row) - 1, done.durable))
        if row:
            replies.append((name, topic_id, row))
    if context.charge is not None:
        context.charge.produced()
    if request.acks == 0:
        if refused:
            # There is no reply to carry the error: closing makes the producer look again, as Kafka does.
            context.connection.close("produce with acks=0 was refused")
        return None
    if waits:
        return _parked(context, replies, waits)
    return _encoded(context, replies)


def _append_one(
    context: Context, acks: int, topic: str, topic_id: UUID, index: int, records: memoryview | None, now_ms: int
) -> Appended:
    node = context.node
    if topic in context.denied:
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"not authorised to write to topic {topic}")
    if acks not in ACKS:
        raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; use 0, 1 or -1 (all)")
    partition: Partition | None = node.partitions.open_partitions.get((topic, index))
    if partition is None:
        raise node.partitions.why_absent(topic, topic_id, index)
    if topic in INTERNAL_TOPICS and context.header.client_id != ADMIN_CLIENT_ID:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")
    zstd_allowed = context.header.api_version >= ZSTD_SINCE_VERSION
    return node.produce.append(partition, records, acks, zstd_allowed, now_ms)


def _refused(context: Context, topic: str, index: int, refusal: Refusal) -> ProducePartitionReply:
    leader = context.node.leader_of(topic, index) if refusal.code in LEADER_HINT_CODES else None
    if isinstance(refusal, RecordsRefused):
        start = refusal.log_start_offset
        return ProducePartitionReply(index, refusal.code, -1, -1, start, refusal.record_errors, refusal.message)
    return ProducePartitionReply(
        index, refusal.code, -1, -1, -1, error_message=refusal.message or None, current_leader=leader
    )


def _parked(
    context: Context, replies: TopicReplies, waits: list[tuple[int, int, asyncio.Future[None]]]
) -> asyncio.Future[Buffers]:
    """The reply, set when the last of the syncs that it waits for is done. Cheaper than gather and a task."""
    answer: asyncio.Future[Buffers] = asyncio.get_running_loop().create_future()
    left = len(waits)

    def one_done(_: asyncio.Future[None]) -> None:
        nonlocal left
        left -= 1
        if left or answer.done():
            return
        for topic_at, partition_at, durable in waits:
            error = durable.exception()
            if error is not None:
                row = replies[topic_at][2]
                row[partition_at] = _not_durable(row[partition_at].index, error)
        if context.charge is not None:
            context.charge.take_up()
        answer.set_result(_encoded(context, replies))

    for _, _, durable in waits:
        durable.add_done_callback(one_done)
    return answer


def _not_durable(index: int, error: BaseException) -> ProducePartitionReply:
    return ProducePartitionReply(index, ErrorCode.KAFKA_STORAGE_ERROR, -1, error_message=str(error))


def _encoded(context: Context, replies: TopicReplies) -> list[bytes]:
    body = encode_produce_response(context.header.api_version, replies, context.settle())
    return [prefix(context.header, len(body)), body]


def _decode(_: int, version: int, frame: memoryview, offset: int) -> ProduceRequest:
    return decode_produce_request(version, frame, offset)


def _names(node: Node, request: ProduceRequest) -> list[str]:
    return [topic.name or node.topic_name(topic.topic_id) for topic in request.topics]


API = Api(ApiKey.PRODUCE, handle, Access("WRITE", "TOPIC", _names), decode=_decode, serves_from=3)
