"""Sending records: batches by size and linger, a partition per key, compression, acks, idempotence.

In: records. Out: batches in the log, each record once and in order per partition (with idempotence, the
default for acks=all), and a `Delivery` for each batch. One batch per partition is in flight at a time,
so a retry cannot reorder; partitions proceed side by side. What waits is bounded by `buffer_bytes_max`:
then `send` waits.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from runnel.client.cluster import Cluster, Patience
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition, TopicView
from runnel.client.partitioner import partition_for_key
from runnel.wire.apis import ApiKey
from runnel.wire.batch import RecordInput, encode_batch
from runnel.wire.errors import ErrorCode
from runnel.wire.produce import (
    PartitionRecords,
    ProducePartitionReply,
    ProduceRequest,
    TopicRecords,
    decode_produce_response,
    encode_produce_request,
)
from runnel.wire.types import ZERO_UUID

ACKS_ALL = -1
RECORD_OVERHEAD_BYTES = 12
PRODUCE_VERSION_BY_NAME_MAX = 12
_SEQUENCE_MASK = 0x7FFFFFFF
_NO_IDEMPOTENCE = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    acks: int = ACKS_ALL
    compression: int = 0
    idempotent: bool = True
    linger_ms: int = 5
    batch_bytes: int = 256 << 10
    buffer_bytes_max: int = 32 << 20
    delivery_timeout_s: float = 30.0


class Delivery(NamedTuple):
    """One batch that arrived; the offset is -1 where the broker does not tell it (acks=0)."""

    target: TopicPartition
    base_offset: int
    record_count: int
    batch_bytes: int
    log_append_time_ms: int


@dataclass(slots=True, eq=False)
class _Lane:
    """What waits for one partition: sealed batches, and the one that still fills."""

    target: TopicPartition
    filling: list[RecordInput] = field(default_factory=list)
    filling_bytes: int = 0
    sealed: deque[tuple[list[RecordInput], int]] = field(default_factory=deque)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    sequence: int = 0
    running: bool = False

    def seal(self) -> None:
        if self.filling:
            self.sealed.append((self.filling, self.filling_bytes))
            self.filling, self.filling_bytes = [], 0
        self.hurry.set()


class Producer:
    """Use as `async with Producer(cluster) as producer`; leaving the block flushes."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> None:
        self.settings = settings or ProducerSettings()
        self._cluster = cluster
        self._on_delivery = on_delivery
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._topics: dict[str, TopicView] = {}
        self._sticky: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._buffered_bytes = 0
        self._space = asyncio.Event()
        self._failure: ClientError | None = None
        self._producer_id, self._producer_epoch = -1, -1

    async def __aenter__(self) -> Producer:
        if self.settings.idempotent and self.settings.acks == ACKS_ALL:
            await self._init_producer_id()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take one record; it is on its way when the batch is full or the linger is over."""
        if self._failure is not None:
            raise self._failure
        if topic not in self._topics:
            self._topics[topic] = await self._cluster.topic(topic)
        lane = self._lane(self._choose(topic, key, partition))
        size = len(value or b"") + len(key or b"") + RECORD_OVERHEAD_BYTES
        for name, content in headers:
            size += len(name) + len(content or b"") + 2
        if lane.filling and lane.filling_bytes + size > self.settings.batch_bytes:
            self._seal(lane)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        lane.filling.append((timestamp_ms, key, value, headers))
        lane.filling_bytes += size
        self._buffered_bytes += size
        if not lane.running:
            self._start(lane)
        while self._buffered_bytes > self.settings.buffer_bytes_max and self._failure is None:
            self._space.clear()
            await self._space.wait()

    async def flush(self) -> None:
        """Wait until everything taken so far has arrived; raises what went wrong."""
        for lane in self._lanes.values():
            lane.seal()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._failure is not None:
            raise self._failure

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        count = len(self._topics[topic].partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise ClientError(f"topic '{topic}' has no partition {partition}: it has {count}, counted from 0")
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        if topic not in self._sticky:
            self._sticky[topic] = random.randrange(count)
        return TopicPartition(topic, self._sticky[topic] % count)

    def _lane(self, target: TopicPartition) -> _Lane:
        lane = self._lanes.get(target)
        if lane is None:
            lane = self._lanes[target] = _Lane(target)
        return lane

    def _seal(self, lane: _Lane) -> None:
        lane.seal()
        # Records without a key stay with a partition for one batch, then move on (KIP-480).
        if self._sticky.get(lane.target.topic) == lane.target.partition:
            count = len(self._topics[lane.target.topic].partitions)
            self._sticky[lane.target.topic] = (lane.target.partition + 1) % count

    def _start(self, lane: _Lane) -> None:
        lane.running = True
        task = asyncio.create_task(self._drain(lane), name=f"produce to {lane.target}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, lane: _Lane) -> None:
        try:
            while lane.sealed or lane.filling:
                if not lane.sealed:
                    await self._linger(lane)
                    self._seal(lane)
                records, size = lane.sealed.popleft()
                await self._deliver(lane, records)
                self._buffered_bytes -= size
                self._space.set()
        except ClientError as error:
            self._failure = self._failure or error
            self._space.set()
        finally:
            lane.running = False

    async def _linger(self, lane: _Lane) -> None:
        lane.hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.linger_ms / 1000):
                await lane.hurry.wait()

    async def _deliver(self, lane: _Lane, records: list[RecordInput]) -> None:
        batch = encode_batch(
            records,
            compression=self.settings.compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=lane.sequence if self._producer_id >= 0 else -1,
        )
        try:
            reply = await self._produce(lane.target, batch)
        except ClientError as error:
            if error.code is not ErrorCode.MESSAGE_TOO_LARGE or len(records) == 1:
                raise
            # The topic takes smaller batches than ours: halves, which may be halved again.
            middle = len(records) // 2
            await self._deliver(lane, records[:middle])
            await self._deliver(lane, records[middle:])
            return
        lane.sequence = (lane.sequence + len(records)) & _SEQUENCE_MASK
        if self._on_delivery is not None:
            delivery = Delivery(lane.target, reply.base_offset, len(records), len(batch), reply.log_append_time_ms)
            self._on_delivery(delivery)

    async def _produce(self, target: TopicPartition, batch: bytearray) -> ProducePartitionReply:
        patience = Patience(self.settings.delivery_timeout_s)
        fresh = False
        while True:
            try:
                node_id = await self._cluster.leader(target, fresh=fresh)
                reply = await self._produce_once(node_id, target, batch)
                code = ErrorCode.NONE if reply.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else reply.error_code
                if code == ErrorCode.NONE:
                    return reply
                raise refused(code, f"partition {target}", reply.error_message)
            except ClientError as error:
                await patience.wait_or_raise(error)
                fresh = True

    async def _produce_once(self, node_id: int, target: TopicPartition, batch: bytearray) -> ProducePartitionReply:
        connection = await self._cluster.connect(node_id)
        topic_id = self._cluster.view.topics[target.topic].topic_id
        by_name = topic_id == ZERO_UUID
        version = connection.version(ApiKey.PRODUCE, PRODUCE_VERSION_BY_NAME_MAX if by_name else None)
        records = [PartitionRecords(target.partition, memoryview(batch))]
        topics = [TopicRecords(target.topic, topic_id, records)]
        timeout_ms = int(self._cluster.timeout_s * 1000)
        payload = encode_produce_request(version, ProduceRequest(None, self.settings.acks, timeout_ms, topics))
        if self.settings.acks == 0:
            await connection.send_only(ApiKey.PRODUCE, version, payload)
            return ProducePartitionReply(target.partition, 0, -1)
        body = await connection.exchange(ApiKey.PRODUCE, version, payload, wait_s=self._cluster.timeout_s)
        reply = decode_produce_response(version, body, 0)
        for topic in reply.topics:
            for row in topic[2]:
                return row
        raise ClientError(f"{connection.address} answered a produce request with nothing about {target}")

    async def _init_producer_id(self) -> None:
        body = {
            "transactional_id": None,
            "transaction_timeout_ms": 0x7FFFFFFF,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        patience = Patience(self._cluster.timeout_s)
        while True:
            try:
                reply = await self._cluster.call(ApiKey.INIT_PRODUCER_ID, body)
                if reply.error_code:
                    raise refused(reply.error_code, "producer id")
                self._producer_id, self._producer_epoch = reply.producer_id, reply.producer_epoch
                return
            except ClientError as error:
                if error.code in _NO_IDEMPOTENCE:
                    return
                await patience.wait_or_raise(error)
