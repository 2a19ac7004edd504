"""Batches to brokers: a request in flight per broker, and so a batch per partition: a retry cannot reorder.

In: batches. Out: acknowledgements. While a request is on its way, the caller encodes the next rows; when too much
waits, `add` does not return until some of it has arrived.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster, Patience
from runnel.spark.encode.lanes import Batch
from runnel.spark.errors import RowError
from runnel.spark.sink_options import ACKS, SinkOptions
from runnel.wire.apis import ApiKey
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

PRODUCE_VERSION_BY_NAME_MAX = 12
REQUEST_BYTES_MAX = 8 << 20
TRANSACTION_TIMEOUT_MS = 0x7FFFFFFF
_SEQUENCE_MASK = 0x7FFFFFFF
_ARRIVED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_NO_IDEMPOTENCE = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_ASKED_IN_VAIN = "leave kafka.enable.idempotence out to write without it, where a retry may write records twice"

log = logging.getLogger("runnel.spark")


@dataclass(slots=True)
class Identity:
    """Whom the broker takes this task, and those after it, for: a batch that is sent twice is stored once."""

    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str | None = None
    sequences: defaultdict[TopicPartition, int] = field(default_factory=lambda: defaultdict(int))
    """The number of the next record in each partition: they count on from one task of this identity to the next."""


def idempotent_identity(cluster: Cluster, options: SinkOptions) -> Identity:
    """A fresh producer id; none from brokers that have no such thing, unless the user asked for it."""
    body = {
        "transactional_id": None,
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    patience = Patience(cluster.settings.patience_s)
    while True:
        try:
            reply = cluster.call(ApiKey.INIT_PRODUCER_ID, body)
            if reply.error_code:
                raise refused(reply.error_code, "producer id")
            return Identity(reply.producer_id, reply.producer_epoch)
        except ClientError as error:
            if error.code in _NO_IDEMPOTENCE:
                if options.idempotence_asked:
                    raise ClientError(f"{error.message}: {_ASKED_IN_VAIN}", code=error.code) from error
                _warn_once(error.message)
                return Identity()
            patience.wait_or_raise(error)


@cache
def _warn_once(error: str) -> None:
    log.warning("%s: writing without idempotence, so a retry may write records twice", error)


class Sender:
    """`add` batches in order, then `flush`. After an error nothing more is sent."""

    def __init__(self, cluster: Cluster, options: SinkOptions, identity: Identity) -> None:
        self.arrived: dict[TopicPartition, tuple[int, int]] = {}
        """By partition: how many records, and the offset after the last of them (-1 where acks=0 does not tell)."""
        self._cluster = cluster
        self._options = options
        self._identity = identity
        self._lanes: defaultdict[TopicPartition, deque[Batch]] = defaultdict(deque)
        self._in_flight: dict[int, dict[TopicPartition, Batch]] = {}
        self._versions: dict[int, int] = {}
        self._waiting_bytes = 0
        self._request_bytes_max = min(REQUEST_BYTES_MAX, options.record_bytes_max)
        self._left_s = time.monotonic()
        self._note_progress()

    def _note_progress(self) -> None:
        self._patience = Patience(self._options.delivery_timeout_s)

    def add(self, batches: Iterable[Batch]) -> None:
        self._come_back()
        for batch in batches:
            self._lanes[batch.target].append(batch)
            self._waiting_bytes += batch.end
        self._exchange(wait=False)
        while self._waiting_bytes > self._options.buffer_bytes:
            self._exchange(wait=True)
        self._left_s = time.monotonic()

    def flush(self) -> None:
        """Return when everything has arrived."""
        self._come_back()
        while self._waiting_bytes:
            self._exchange(wait=True)
        self._left_s = time.monotonic()

    def _come_back(self) -> None:
        """Nothing is sent while the caller waits for rows: that time is no part of the delivery timeout."""
        self._patience.extend(time.monotonic() - self._left_s)

    def _exchange(self, *, wait: bool) -> None:
        """Take the replies that are there (with `wait`, all that are due), and send what then can be sent."""
        try:
            for node_id in list(self._in_flight):
                if wait or self._cluster.connect(node_id).has_reply():
                    self._receive(node_id)
            ready = [target for target, lane in self._lanes.items() if lane]
            for node_id, targets in self._cluster.by_leader(ready).items():
                if node_id not in self._in_flight:
                    self._send(node_id, targets)
        except ClientError as error:
            self._start_over(error)

    # Requests ---------------------------------------------------------------------------------------------------

    def _send(self, node_id: int, targets: list[TopicPartition]) -> None:
        taken: dict[TopicPartition, Batch] = {}
        size = 0
        for target in targets:
            batch = self._lanes[target][0]
            size += batch.end
            if taken and size > self._request_bytes_max:
                break
            taken[target] = batch
        connection = self._cluster.connect(node_id)
        topics = self._topics(taken)
        by_name = any(topic.topic_id == ZERO_UUID for topic in topics)
        version = connection.version(ApiKey.PRODUCE, PRODUCE_VERSION_BY_NAME_MAX if by_name else None)
        timeout_ms = int(self._cluster.settings.request_timeout_s * 1000)
        request = ProduceRequest(self._identity.transactional_id, self._options.acks, timeout_ms, topics)
        connection.send(ApiKey.PRODUCE, version, encode_produce_request(version, request))
        if self._options.acks == ACKS["0"]:
            connection.expect_no_reply()
            for target, batch in taken.items():
                self._finish(target, batch, -1)
            self._note_progress()
            return
        self._in_flight[node_id] = taken
        self._versions[node_id] = version

    def _topics(self, taken: dict[TopicPartition, Batch]) -> list[TopicRecords]:
        rows: dict[str, list[PartitionRecords]] = {}
        for target, batch in taken.items():
            sequence = self._identity.sequences[target] if self._identity.producer_id >= 0 else -1
            records = batch.sealed(
                self._options.compression, self._identity.producer_id, self._identity.producer_epoch, sequence
            )
            rows.setdefault(target.topic, []).append(PartitionRecords(target.partition, records))
        topics = self._cluster.view.topics
        return [TopicRecords(name, topics[name].topic_id, partitions) for name, partitions in rows.items()]

    def _receive(self, node_id: int) -> None:
        connection = self._cluster.connect(node_id)
        body = connection.receive(wait_s=self._cluster.settings.request_timeout_s)
        taken = self._in_flight.pop(node_id)
        reply = decode_produce_response(self._versions[node_id], body)
        names = {self._cluster.view.topics[target.topic].topic_id: target.topic for target in taken}
        failure: ClientError | None = None
        for name, topic_id, rows in reply.topics:
            for row in rows:
                target = TopicPartition(name or names[topic_id], row.index)
                failure = self._settle(target, taken[target], row) or failure
        if failure is not None:
            raise failure
        self._note_progress()

    # Outcomes ---------------------------------------------------------------------------------------------------

    def _settle(self, target: TopicPartition, batch: Batch, reply: ProducePartitionReply) -> ClientError | None:
        """Note what arrived; what may be tried again is answered, what may not is raised."""
        if reply.error_code in _ARRIVED:
            self._finish(target, batch, reply.base_offset)
            return None
        if reply.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            self._split(target, batch)
            return None
        error = refused(reply.error_code, f"partition {target}", reply.error_message)
        if not error.retriable:
            raise _named(error, batch, reply)
        return error

    def _finish(self, target: TopicPartition, batch: Batch, base_offset: int) -> None:
        self._lanes[target].popleft()
        sequences = self._identity.sequences
        sequences[target] = (sequences[target] + batch.count) & _SEQUENCE_MASK
        self._waiting_bytes -= batch.end
        count, end = self.arrived.get(target, (0, -1))
        self.arrived[target] = count + batch.count, base_offset + batch.count if base_offset >= 0 else end

    def _split(self, target: TopicPartition, batch: Batch) -> None:
        """The topic takes smaller batches than ours: halves, which may be halved again."""
        if batch.count == 1:
            raise RowError(
                f"{batch.row(0)}: its record of {batch.end} bytes is larger than topic {target.topic} allows; raise "
                f"it with `runnel topic alter {target.topic} -c max.message.bytes=N`, or filter such rows out"
            )
        lane = self._lanes[target]
        lane.popleft()
        halves = batch.halved()
        lane.extendleft(reversed(halves))
        self._waiting_bytes += sum(half.end for half in halves) - batch.end

    def _start_over(self, error: ClientError) -> None:
        """Whatever was in flight is sent again, with the same sequences: what had arrived is not stored twice."""
        self._patience.wait_or_raise(error)
        self._in_flight.clear()
        self._cluster.close()
        self._find_leaders()

    def _find_leaders(self) -> None:
        """How long brokers may be away is the delivery timeout's to say, not that of other questions."""
        topics = sorted({target.topic for target in self._lanes})
        while True:
            try:
                self._cluster.refresh(topics, patience_s=0)
                return
            except ClientError as error:
                self._patience.wait_or_raise(error)


def _named(error: ClientError, batch: Batch, reply: ProducePartitionReply) -> Exception:
    for index, message in reply.record_errors:
        return RowError(f"{batch.row(index)}: {message or error.message}")
    return ClientError(f"{error.message} (a batch of {batch.count} records, first {batch.row(0)})", code=error.code)
