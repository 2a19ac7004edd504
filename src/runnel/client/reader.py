"""Reading partitions from given offsets on: fetch, check, decode, and go on for ever or until told to stop.

In: a `Cluster` and a start offset per partition. Out: `Chunk`s of records in offset order per partition.
Leaders that move are followed. One fetch per broker is in flight, and the next is sent before a chunk is
handed out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from runnel.client.cluster import FETCHES, Cluster, Patience
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, bounds
from runnel.wire.apis import ApiKey
from runnel.wire.batch import BatchHeader, Record, check_crc, decode_records, iterate_headers
from runnel.wire.errors import ErrorCode, Malformed
from runnel.wire.fetch import (
    FetchPartition,
    FetchPartitionReply,
    FetchRequest,
    FetchTopic,
    decode_fetch_response,
    encode_fetch_request,
)
from runnel.wire.types import ZERO_UUID

FETCH_VERSION_BY_NAME_MAX = 12
SESSIONLESS_EPOCH = -1
ABORT_MARKER = 0


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    isolation: int = READ_UNCOMMITTED
    wait_ms: int = 500
    fetch_bytes_max: int = 16 << 20
    partition_bytes_max: int = 4 << 20


class Chunk(NamedTuple):
    """What one fetch brought of one partition; `next_offset` moves even where no record is to be shown."""

    target: TopicPartition
    records: list[Record]
    next_offset: int
    high_watermark: int


Reply = Mapping[TopicPartition, FetchPartitionReply]


class Reader:
    """Use as `async with Reader(...) as reader: async for chunk in reader.chunks()`."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        settings: ReaderSettings | None = None,
        on_jump: Callable[[TopicPartition, int, int], None] | None = None,
    ) -> None:
        self.positions = dict(positions)
        self.settings = settings or ReaderSettings()
        self._cluster = cluster
        self._on_jump = on_jump
        self._fetching: dict[int, asyncio.Task[Reply]] = {}
        self._asked: dict[int, frozenset[TopicPartition]] = {}
        self._patience = Patience(cluster.timeout_s)
        self._stale = False

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._fetching.values():
            task.cancel()
        with suppress(ClientError):
            await asyncio.gather(*self._fetching.values(), return_exceptions=True)

    def stop(self, target: TopicPartition) -> None:
        """Read no more of this partition; when none is left, `chunks` ends."""
        self.positions.pop(target, None)

    async def chunks(self) -> AsyncIterator[Chunk]:
        while self.positions:
            ready: list[Chunk] = []
            try:
                await self._start_fetches()
                await asyncio.wait(self._fetching.values(), return_when=asyncio.FIRST_COMPLETED)
                ready = await self._take_finished()
                await self._start_fetches()
            except ClientError as error:
                self._stale = True
                await self._patience.wait_or_raise(error)
            for chunk in ready:
                if chunk.target in self.positions:
                    yield chunk

    async def _start_fetches(self) -> None:
        busy = frozenset().union(*self._asked.values())
        idle = [target for target in self.positions if target not in busy]
        if not idle:
            return
        groups = await self._cluster.by_leader(idle, fresh=self._stale)
        self._stale = False
        for node_id, targets in groups.items():
            if node_id not in self._fetching:
                self._asked[node_id] = frozenset(targets)
                name = f"fetch from broker {node_id}"
                # Made here and not in the task: `stop` may take partitions away before the task runs.
                request = self._request(targets)
                self._fetching[node_id] = asyncio.create_task(self._fetch(node_id, request), name=name)

    async def _take_finished(self) -> list[Chunk]:
        """What has arrived. A failure that may pass holds up its own partitions only, unless nothing else came."""
        chunks: list[Chunk] = []
        failures: list[ClientError] = []
        for node_id in [node_id for node_id, task in self._fetching.items() if task.done()]:
            task = self._fetching.pop(node_id)
            del self._asked[node_id]
            try:
                for target, reply in task.result().items():
                    chunks += await self._take_or_note(target, reply, failures)
            except ClientError as error:
                failures.append(error)
        if failures:
            self._stale = True
            if not chunks or not failures[0].retriable:
                raise failures[0]
        else:
            self._patience = Patience(self._cluster.timeout_s)
        return chunks

    async def _take_or_note(
        self, target: TopicPartition, reply: FetchPartitionReply, failures: list[ClientError]
    ) -> Sequence[Chunk]:
        if target not in self.positions:
            return ()
        try:
            return await self._take(target, reply)
        except ClientError as error:
            failures.append(error)
            return ()

    async def _take(self, target: TopicPartition, reply: FetchPartitionReply) -> Sequence[Chunk]:
        position = self.positions[target]
        if reply.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._jump(target, position)
            return ()
        if reply.error_code:
            raise refused(reply.error_code, f"partition {target}")
        if not reply.records:
            return ()
        chunk = self._open(target, position, reply)
        # To the back of the line: the broker fills its answer in the order in which we ask.
        del self.positions[target]
        self.positions[target] = chunk.next_offset
        return (chunk,)

    async def _jump(self, target: TopicPartition, position: int) -> None:
        """Retention or a trim overtook us: go on where the log now starts, and say so."""
        limits = (await bounds(self._cluster, [target]))[target]
        if position > limits.end:
            raise ClientError(
                f"partition {target}: offset {position} lies beyond the end of the log ({limits.end}); "
                "was the topic created anew?"
            )
        if position < limits.start:
            self.positions[target] = limits.start
            if self._on_jump is not None:
                self._on_jump(target, position, limits.start)

    def _open(self, target: TopicPartition, position: int, reply: FetchPartitionReply) -> Chunk:
        buffer = memoryview(reply.records or b"")
        records: list[Record] = []
        next_offset = position
        try:
            for at, header in _visible(buffer, reply, self.settings.isolation):
                next_offset = max(next_offset, header.next_offset)
                if at >= 0 and header.last_offset >= position:
                    records += decode_records(buffer, at)
        except Malformed as error:
            raise ClientError(f"partition {target}, at offset {next_offset}: {error}") from error
        if next_offset == position:
            raise ClientError(f"partition {target}: the broker sent no whole batch at offset {position}")
        if records and records[0].offset < position:
            records = [record for record in records if record.offset >= position]
        return Chunk(target, records, next_offset, reply.high_watermark)

    async def _fetch(self, node_id: int, request: FetchRequest) -> Reply:
        connection = await self._cluster.connect(node_id, FETCHES)
        by_name = any(topic.topic_id == ZERO_UUID for topic in request.topics)
        version = connection.version(ApiKey.FETCH, FETCH_VERSION_BY_NAME_MAX if by_name else None)
        payload = encode_fetch_request(version, request)
        wait_s = self.settings.wait_ms / 1000
        body = await connection.exchange(ApiKey.FETCH, version, payload, wait_s=wait_s)
        try:
            reply = decode_fetch_response(version, body, 0)
        except Malformed as error:
            raise ClientError(f"{connection.address} answered a fetch with junk: {error}") from error
        if reply.error_code:
            raise refused(reply.error_code, f"fetch from {connection.address}")
        names = {topic.topic_id: topic.name for topic in request.topics}
        return {
            TopicPartition(name or names[topic_id], row.index): row
            for name, topic_id, rows in reply.topics
            for row in rows
        }

    def _request(self, targets: Sequence[TopicPartition]) -> FetchRequest:
        rows: dict[str, list[FetchPartition]] = {}
        for target in targets:
            row = FetchPartition(target.partition, self.positions[target], self.settings.partition_bytes_max)
            rows.setdefault(target.topic, []).append(row)
        topics = self._cluster.view.topics
        return FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=self.settings.wait_ms,
            min_bytes=1,
            max_bytes=self.settings.fetch_bytes_max,
            isolation_level=self.settings.isolation,
            session_id=0,
            session_epoch=SESSIONLESS_EPOCH,
            topics=[FetchTopic(name, topics[name].topic_id, partitions) for name, partitions in rows.items()],
            forgotten=[],
            rack_id="",
            cluster_id=None,
        )


def _visible(buffer: memoryview, reply: FetchPartitionReply, isolation: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch with its place; -1 as place where it is not to be shown: markers, aborted transactions."""
    aborted = deque(sorted(reply.aborted_transactions or (), key=lambda pair: pair[1]))
    aborting: set[int] = set()
    for at, header in iterate_headers(buffer):
        if not check_crc(buffer, at, header):
            raise Malformed("the checksum of a batch does not match: it was damaged on disk or on the way")
        while aborted and aborted[0][1] <= header.last_offset:
            aborting.add(aborted.popleft()[0])
        if header.is_control:
            if _is_abort_marker(buffer, at):
                aborting.discard(header.producer_id)
            yield -1, header
        elif isolation == READ_COMMITTED and header.is_transactional and header.producer_id in aborting:
            yield -1, header
        else:
            yield at, header


def _is_abort_marker(buffer: memoryview, at: int) -> bool:
    for record in decode_records(buffer, at):
        return record.key is not None and int.from_bytes(record.key[2:4], "big") == ABORT_MARKER
    return False
