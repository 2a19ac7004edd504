"""Reading offset ranges from brokers: one request ahead of the decoding, leaders followed, losses found.

In: offset ranges. Out: `Piece`s in offset order per partition. The bytes of a piece lie in the connection's buffer and
are valid until the next one is asked for.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster, Patience
from runnel.spark.brokers.connection import Connection
from runnel.spark.brokers.offsets import list_offsets
from runnel.spark.decode.chunk import Chunk
from runnel.spark.kafka_options import FetchSettings
from runnel.spark.positions import EARLIEST, LATEST
from runnel.spark.reading.ranges import Missing, OffsetRange, Piece
from runnel.wire.apis import ApiKey
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
RECORD_BYTES_GUESS = 512
ASK_BYTES_MIN = 64 << 10
GONE_PATIENCE_S = 2.0
"""How long a topic or an end of log that the driver saw a moment ago may be missing before it counts as lost."""
PLACES_SHOWN = 5
GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
_LOSSES = (*GONE, ErrorCode.OFFSET_OUT_OF_RANGE)

Replies = Mapping[TopicPartition, FetchPartitionReply]


class Fetcher:
    """Use `pieces` once. Whatever does not bring a record for `timeout_s` ends in an error."""

    def __init__(self, cluster: Cluster, settings: FetchSettings, missing: Missing, timeout_s: float) -> None:
        self._cluster = cluster
        self._settings = settings
        self._missing = missing
        self._timeout_s = timeout_s
        self._ranges: dict[TopicPartition, OffsetRange] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        """Of the leaders that are asked (KIP-320): who led before them, and has not heard, does not answer for them."""
        self._gone_since_s: dict[TopicPartition, float] = {}
        self._record_bytes = float(RECORD_BYTES_GUESS)
        self._note_progress()

    def pieces(self, ranges: Sequence[OffsetRange]) -> Iterator[Piece]:
        """Everything of all ranges; no two of them may be of the same partition."""
        self._ranges = {row.target: row for row in ranges}
        self._positions = {row.target: row.start for row in ranges if row.size > 0}
        # What a task before has learnt will do: a leader of another epoch than the one that is named refuses.
        is_stale = not all(self._is_known(target) for target in self._positions)
        while self._positions:
            try:
                if is_stale:
                    self._refresh()
                    is_stale = False
                yield from self._read_from_one_leader()
            except ClientError as error:
                self._wait_or_raise(error)
                is_stale = True

    def _read_from_one_leader(self) -> Iterator[Piece]:
        """All that the leader of the first partition has, or until something has to be sorted out."""
        leaders: dict[TopicPartition, int] = {}
        troubles: dict[TopicPartition, ClientError] = {}
        for target in self._positions:
            try:
                partition = self._cluster.partition(target)
                leaders[target], self._epochs[target] = partition.leader_id, partition.leader_epoch
            except ClientError as error:
                troubles[target] = error
        self._sort_out(troubles)
        for node_id in list(leaders.values())[:1]:
            targets = {target for target, leader_id in leaders.items() if leader_id == node_id}
            yield from self._drain(self._cluster.connect(node_id), targets)

    def _drain(self, connection: Connection, targets: set[TopicPartition]) -> Iterator[Piece]:
        """The next request leaves before what came is decoded.

        What came is handed on whatever happens meanwhile: the positions have moved past it already.
        """
        version = self._send(connection, targets)
        while True:
            pieces: list[Piece] = []
            troubles: dict[TopicPartition, ClientError] = {}
            failure: ClientError | None = None
            for target, reply in self._receive(connection, version).items():
                if reply.error_code:
                    troubles[target] = refused(reply.error_code, f"partition {target}")
                elif reply.records:
                    try:
                        pieces.append(self._open(target, reply))
                    except ClientError as error:
                        failure = failure or error
                elif self._ends_early(target, reply):
                    troubles[target] = refused(ErrorCode.OFFSET_OUT_OF_RANGE, f"partition {target}")
            targets &= self._positions.keys()
            go_on = bool(targets) and not troubles and failure is None
            if go_on:
                try:
                    version = self._send(connection, targets)
                except ClientError as error:
                    failure = error
            for piece in pieces:
                yield piece
                self._note_progress()  # only now: the time that the caller takes is not the broker's
            if failure is not None:
                raise failure
            self._sort_out(troubles)
            if not go_on:
                return
            if not pieces:
                self._check_patience(connection, targets)

    def _open(self, target: TopicPartition, reply: FetchPartitionReply) -> Piece:
        position, until = self._positions[target], self._ranges[target].until
        try:
            chunk = Chunk(np.frombuffer(reply.records or b"", np.uint8), check_crc=self._settings.check_crc)
        except Malformed as error:
            raise ClientError(f"partition {target}, at offset {position}: {error}") from error
        following = chunk.next_offset
        if following <= position:
            raise ClientError(f"partition {target}: the broker sent no whole batch at offset {position}")
        self._record_bytes = 0.5 * self._record_bytes + 0.5 * chunk.end / (following - position)
        self._gone_since_s.pop(target, None)
        # To the back of the line: the broker fills its answer in the order in which we ask.
        del self._positions[target]
        if following < until:
            self._positions[target] = following
        return Piece(target, chunk, position, until, reply.aborted_transactions)

    # Requests ---------------------------------------------------------------------------------------------------

    def _send(self, connection: Connection, targets: set[TopicPartition]) -> int:
        rows: dict[tuple[str, uuid.UUID], list[FetchPartition]] = {}
        for target, position in self._positions.items():
            if target in targets:
                size = self._ask_bytes(target, position)
                row = FetchPartition(target.partition, position, size, self._epochs[target])
                rows.setdefault((target.topic, self._ranges[target].topic_id), []).append(row)
        by_name = any(topic_id == ZERO_UUID for _, topic_id in rows)
        version = connection.version(ApiKey.FETCH, FETCH_VERSION_BY_NAME_MAX if by_name else None)
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=self._settings.wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.fetch_bytes_max,
            isolation_level=self._settings.isolation,
            session_id=0,
            session_epoch=SESSIONLESS_EPOCH,
            topics=[FetchTopic(name, topic_id, partitions) for (name, topic_id), partitions in rows.items()],
        )
        connection.send(ApiKey.FETCH, version, encode_fetch_request(version, request))
        return version

    def _ask_bytes(self, target: TopicPartition, position: int) -> int:
        """About what the rest of the range takes: a short range must not fetch megabytes that lie behind it."""
        remaining = (self._ranges[target].until - position) * self._record_bytes * 1.25
        return int(min(self._settings.partition_bytes_max, max(ASK_BYTES_MIN, remaining)))

    def _receive(self, connection: Connection, version: int) -> Replies:
        body = connection.receive(wait_s=self._settings.wait_ms / 1000)
        try:
            reply = decode_fetch_response(version, body)
        except Malformed as error:
            connection.close()
            raise ClientError(f"{connection.address} answered a fetch with junk: {error}") from error
        if reply.error_code:
            raise refused(reply.error_code, f"fetch from {connection.address}")
        names = {row.topic_id: row.target.topic for row in self._ranges.values()}
        return {
            TopicPartition(name or names[topic_id], row.index): row
            for name, topic_id, rows in reply.topics
            for row in rows
        }

    # Troubles ---------------------------------------------------------------------------------------------------

    def _note_progress(self) -> None:
        self._patience = Patience(self._timeout_s)
        self._progress_at_s = time.monotonic()

    def _idle_s(self) -> float:
        return time.monotonic() - self._progress_at_s

    def _check_patience(self, connection: Connection, targets: set[TopicPartition]) -> None:
        if self._idle_s() > self._timeout_s:
            raise ClientError(f"no record from {connection.address} {self._given_up(targets)}")

    def _wait_or_raise(self, error: ClientError) -> None:
        if error.retriable and self._patience.wait():
            return
        if error.code is ErrorCode.NETWORK_EXCEPTION:
            message = f"{error.message}; no record {self._given_up(self._positions)}"
            raise ClientError(message, code=error.code) from error
        raise error

    def _given_up(self, targets: Iterable[TopicPartition]) -> str:
        places = ", ".join(f"{target} offset {self._positions[target]}" for target in sorted(targets)[:PLACES_SHOWN])
        return (
            f"within {self._timeout_s:g} s, at {places}; "
            "raise the option kafkaConsumer.pollTimeoutMs if the broker is merely slow"
        )

    def _ends_early(self, target: TopicPartition, reply: FetchPartitionReply) -> bool:
        """Whether the log ends before the range does, and has done so for a while: the driver saw it longer."""
        return 0 <= reply.high_watermark < self._ranges[target].until and self._idle_s() > GONE_PATIENCE_S

    def _sort_out(self, troubles: Mapping[TopicPartition, ClientError]) -> None:
        """Find out what became of partitions; what then is still wrong is tried again by `pieces`.

        However many they are, there is one pause for all: after a move of leaders it is hundreds.
        """
        if any(error.code in _LOSSES for error in troubles.values()):
            self._refresh()  # no loss is judged by what was seen before it
        passing: list[ClientError] = []
        for target, error in troubles.items():
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                if not self._jump(target):
                    passing.append(refused(ErrorCode.OFFSET_NOT_AVAILABLE, f"partition {target}"))
            elif error.code not in GONE or not self._differs_from_plan(target):
                passing.append(error)
        if passing:
            self._patience.wait_or_raise(min(passing, key=lambda error: error.retriable))
            self._refresh()

    def _is_known(self, target: TopicPartition) -> bool:
        """Whether the metadata at hand is of the topic that is to be read, and not of one of that name before it."""
        topic = self._cluster.view.topics.get(target.topic)
        return topic is not None and topic.topic_id == self._ranges[target].topic_id

    def _refresh(self) -> None:
        self._cluster.refresh(sorted({target.topic for target in self._positions}))

    def _differs_from_plan(self, target: TopicPartition) -> bool:
        """Whether a partition is another one now, or gone for good; what it held is lost then.

        One that the metadata still names is not gone: its broker does not know it yet, or no longer leads it.
        """
        planned = self._ranges[target]
        topic = self._cluster.view.topics[target.topic]
        if topic.error_code == 0 and topic.topic_id != planned.topic_id != ZERO_UUID:
            self._lose(target, planned.until, f"topic {target.topic} was deleted and created anew.")
            self._ranges[target] = planned._replace(topic_id=topic.topic_id)
            return True
        named = any(row.index == target.partition for row in topic.partitions)
        if topic.error_code not in (0, *GONE) or (topic.error_code == 0 and named):
            self._gone_since_s.pop(target, None)
            return False
        now_s = time.monotonic()
        if now_s - self._gone_since_s.setdefault(target, now_s) <= GONE_PATIENCE_S:
            return False
        self._lose(target, planned.until, f"partition {target} is gone.")
        del self._positions[target]
        return True

    def _jump(self, target: TopicPartition) -> bool:
        """Go on where the log now starts, if that lies in the range; what lies before it is lost. False where the
        offset is in the log after all: brokers that do not agree yet."""
        position, planned, isolation = self._positions[target], self._ranges[target], self._settings.isolation
        until = planned.until
        earliest = list_offsets(self._cluster, {target: EARLIEST}, isolation)[target]
        latest = list_offsets(self._cluster, {target: LATEST}, isolation)[target]
        if earliest <= position < latest:
            return False
        resumed = earliest if position < earliest < until else until
        if not (planned.from_earliest and position == planned.start and position < earliest):
            self._lose(target, resumed, f"partition {target} now holds offsets {earliest} to {latest}.")
        self._positions[target] = resumed
        if resumed == until:
            del self._positions[target]
        return True

    def _lose(self, target: TopicPartition, until: int, reason: str) -> None:
        lost = f"Offsets {self._positions[target]} to {until - 1} of {target} could not be read: {reason}"
        self._missing.report("COULD_NOT_READ_OFFSET_RANGE", lost)
