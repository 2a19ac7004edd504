"""One Spark task of writing: Arrow batches in, records in topics.

In: the rows of one task. Out: `Written`, which tells the driver what went where; an error names the row that caused it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition, TopicView
from runnel.spark.brokers.cluster import Cluster, Patience
from runnel.spark.brokers.kept import kept_cluster
from runnel.spark.encode.kernels import choose_partitions
from runnel.spark.encode.lanes import Batch, Lane
from runnel.spark.encode.rows import Numbers, Rows, read_rows
from runnel.spark.errors import RowError
from runnel.spark.sink_options import SinkOptions
from runnel.spark.writing.sender import Identity, Sender, idempotent_identity
from runnel.wire.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

CREATION_PATIENCE_S = 5.0
"""Apache Kafka says that a topic is unknown, and only then creates it."""


_identities: WeakKeyDictionary[Cluster, Identity] = WeakKeyDictionary()
"""Of tasks that succeeded, for the next one on the same connections: else each small trigger would ask for a producer
id, and leave its broker one more to remember for a day."""


def write_task(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> dict[TopicPartition, tuple[int, int]]:
    """Write all rows, and wait until they have arrived. Answers how many, and to what offset, by partition."""
    with kept_cluster(options.brokers) as cluster:
        if not options.idempotent:
            return _write(cluster, options, Identity(), batches)
        # Taken out: nobody knows which sequences of a task that failed the broker has seen.
        identity = _identities.pop(cluster, None) or idempotent_identity(cluster, options)
        arrived = _write(cluster, options, identity, batches)
        _identities[cluster] = identity
        return arrived


def _write(
    cluster: Cluster, options: SinkOptions, identity: Identity, batches: Iterator[pa.RecordBatch]
) -> dict[TopicPartition, tuple[int, int]]:
    task = WriteTask(cluster, options, Sender(cluster, options, identity))
    task.look_ahead()
    for batch in batches:
        task.add(batch)
    return task.finish()


class WriteTask:
    def __init__(self, cluster: Cluster, options: SinkOptions, sender: Sender) -> None:
        self._cluster = cluster
        self._options = options
        self._sender = sender
        self._lanes: dict[TopicPartition, Lane] = {}
        self._sticky: dict[str, int] = {}
        self._partition_counts: dict[str, int] = {}
        self._row_number = 0

    def look_ahead(self) -> None:
        """Ask about the topic of the task before while the first rows are still on their way."""
        topic = self._options.topic
        if topic is not None and topic in self._cluster.view.topics:
            self._note_partitions(self._cluster.refresh([topic]).topics[topic])

    def add(self, batch: pa.RecordBatch) -> None:
        rows = read_rows(batch, self._options.topic, self._row_number)
        self._row_number += rows.count
        now_ms = time.time_ns() // 1_000_000
        full: list[Batch] = []
        for topic, wanted in rows.topics:
            for partition, mine in self._by_partition(rows, topic, wanted):
                full += self._lane(TopicPartition(topic, partition)).add(rows, mine, now_ms)
        if sum(lane.size_bytes for lane in self._lanes.values()) > self._options.buffer_bytes:
            full += [batch for lane in self._lanes.values() for batch in lane.take()]
        if full:
            self._check_sizes(full)
            self._sender.add(full)
            # Keyless rows stick to a partition for as long as a batch fills (KIP-480), then go to another.
            self._sticky.clear()

    def finish(self) -> dict[TopicPartition, tuple[int, int]]:
        rest = [batch for lane in self._lanes.values() for batch in lane.take()]
        self._check_sizes(rest)
        self._sender.add(rest)
        self._sender.flush()
        return self._sender.arrived

    def _lane(self, target: TopicPartition) -> Lane:
        lane = self._lanes.get(target)
        if lane is None:
            lane = self._lanes[target] = Lane(target, self._options.batch_bytes)
        return lane

    def _by_partition(self, rows: Rows, topic: str, wanted: Numbers) -> Iterator[tuple[int, Numbers]]:
        """The rows of each partition, in their order."""
        count = self._partition_count(topic)
        chosen = np.empty(rows.count, np.int64)
        wrong = choose_partitions(
            rows.keys, rows.fields, count, self._sticky_partition(topic, count), rows.partitions, wanted, chosen
        )
        if wrong >= 0:
            raise RowError(
                f"{rows.describe(wrong)}, names partition {rows.partitions[wrong]} of topic {topic}, which has "
                f"partitions 0 to {count - 1}"
            )
        mine = chosen[wanted]
        order = np.argsort(mine, kind="stable")
        edges = np.flatnonzero(np.diff(mine[order])) + 1
        for part in np.split(order, edges):
            if len(part):
                yield int(mine[part[0]]), wanted[part]

    def _sticky_partition(self, topic: str, count: int) -> int:
        if topic not in self._sticky:
            self._sticky[topic] = random.randrange(count)
        return self._sticky[topic]

    def _partition_count(self, topic: str) -> int:
        """How many partitions the topic has; a broker that creates topics on demand is asked to."""
        if topic in self._partition_counts:
            return self._partition_counts[topic]
        self._sender.flush()  # its replies come first on the connection that is now asked something else
        patience, creation = Patience(self._options.delivery_timeout_s), Patience(CREATION_PATIENCE_S)
        while True:
            view = self._cluster.refresh([topic], create=True).topics[topic]
            if self._note_partitions(view):
                return len(view.partitions)
            code = view.error_code or ErrorCode.LEADER_NOT_AVAILABLE
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                why = f"topic '{topic}' does not exist, and the broker does not create topics on demand"
                creation.wait_or_raise(ClientError(why, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                patience.wait_or_raise(refused(code, f"topic '{topic}'"))

    def _note_partitions(self, view: TopicView) -> bool:
        if view.error_code or not view.partitions:
            return False
        self._partition_counts[view.name] = len(view.partitions)
        return True

    def _check_sizes(self, batches: list[Batch]) -> None:
        limit = self._options.record_bytes_max
        for batch in batches:
            if batch.count == 1 and batch.end > limit:
                raise RowError(
                    f"{batch.row(0)}: its record of {batch.end} bytes is larger than the option "
                    f"kafka.max.request.size ({limit}) allows"
                )
