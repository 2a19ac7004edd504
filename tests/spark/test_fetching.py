"""Fetching when connections break, brokers answer with errors and the caller takes its time: nothing is lost.

A real broker behind a proxy; errors that a single broker does not give by itself are put into its replies.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from harness.proxy import CuttingProxy
from harness.topics import create_topic
from runnel.client.errors import ClientError
from runnel.client.metadata import ClusterView, TopicPartition
from runnel.spark.brokers import cluster as cluster_module
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.decode.chunk import Chunk
from runnel.spark.encode.lanes import Lane
from runnel.spark.encode.rows import read_rows
from runnel.spark.errors import DataLoss
from runnel.spark.kafka_options import BrokerSettings, FetchSettings
from runnel.spark.reading import fetching
from runnel.spark.reading.fetching import Fetcher
from runnel.spark.reading.ranges import Missing, OffsetRange, Piece
from runnel.spark.reading.task import MERGED_BYTES_MAX, ROWS_MIN, merged
from runnel.wire.apis import ApiKey
from runnel.wire.batch import decode_records
from runnel.wire.errors import ErrorCode, Malformed
from runnel.wire.fetch import FetchPartitionReply, FetchResponse
from runnel.wire.messages import Struct
from spark.records import Sent, batch_reader, numbered, produce, read, read_batch, values
from spark.test_batch_reader import delete_topic

RECORDS = 500
SMALL = 20_000
"""A fetch of this many bytes brings some twenty of the records."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Change = Callable[[FetchPartitionReply], FetchPartitionReply]


class ResettingProxy(CuttingProxy):
    """Its connections to clients can be reset at any moment, as by a firewall."""

    def __init__(self, address: str) -> None:
        self.clients: list[socket.socket] = []
        super().__init__(address, lambda *_: False)

    def _serve(self, client: socket.socket) -> None:
        self.clients.append(client)
        super()._serve(client)

    def reset(self) -> None:
        while self.clients:
            client = self.clients.pop()
            with contextlib.suppress(OSError):  # which has left already
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.close()


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[ResettingProxy]:
    with ResettingProxy(bootstrap) as made:
        yield made


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    """One partition that takes many small fetches."""
    name = new_topic()
    produce(bootstrap, name, [Sent(b"x" * 1000) for _ in range(RECORDS)], **{"batch.num.messages": 10})
    return name


@pytest.fixture
def open_pieces() -> Iterator[Callable[..., Iterator[Piece]]]:
    """Pieces of whole partitions as a task gets them, with a patience of the test's own."""
    clusters: list[Cluster] = []

    def start(
        address: str, ranges: list[OffsetRange], timeout_s: float = 30.0, *, fail: bool = True
    ) -> Iterator[Piece]:
        cluster = Cluster(BrokerSettings(address))
        clusters.append(cluster)
        settings = FetchSettings(partition_bytes_max=SMALL)
        return Fetcher(cluster, settings, Missing(fail), timeout_s).pieces(ranges)

    yield start
    for cluster in clusters:
        cluster.close()


def whole(topic: str, partitions: int = 1, until: int = RECORDS) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(topic, index), 0, until) for index in range(partitions)]


def offsets(piece: Piece) -> list[int]:
    target, chunk, first, until, aborted = piece
    found: list[int] = []
    for rows in chunk.rows(target.topic, target.partition, first, until, aborted):
        found += range(first + len(found), first + len(found) + rows.count)
    return found


def change_replies(monkeypatch: pytest.MonkeyPatch, numbers: range, change: Change) -> None:
    """Have those of the Fetch replies, counted from 0, changed in all their partitions."""
    decode = fetching.decode_fetch_response
    count = 0

    def changed(version: int, body: memoryview) -> FetchResponse:
        nonlocal count
        reply = decode(version, body)
        if count in numbers:
            topics = [(name, topic_id, [change(row) for row in rows]) for name, topic_id, rows in reply.topics]
            reply = reply._replace(topics=topics)
        count += 1
        return reply

    monkeypatch.setattr(fetching, "decode_fetch_response", changed)


def refusing(code: ErrorCode) -> Change:
    return lambda row: row._replace(error_code=code, records=None)


# What a task before has learnt ----------------------------------------------------------------------------------


def test_tasks_of_one_worker_ask_once_where_the_leaders_are(proxy: ResettingProxy, topic: str) -> None:
    reader = batch_reader(proxy.address, subscribe=topic)
    tasks = reader.partitions()
    assert len(read(reader, tasks)) == RECORDS
    asked = proxy.requests_by_key[ApiKey.METADATA]
    assert len(read(reader, tasks)) == RECORDS
    assert proxy.requests_by_key[ApiKey.METADATA] == asked


def test_leaders_that_a_task_before_has_seen_may_have_moved(
    proxy: ResettingProxy, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = batch_reader(proxy.address, subscribe=topic)
    tasks = reader.partitions()
    read(reader, tasks)
    asked = proxy.requests_by_key[ApiKey.METADATA]
    change_replies(monkeypatch, range(1), refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert len(read(reader, tasks)) == RECORDS
    assert proxy.requests_by_key[ApiKey.METADATA] == asked + 1


def test_leaders_of_another_epoch_than_was_seen_are_asked_for_again(
    proxy: ResettingProxy, topic: str, open_pieces: Callable[..., Iterator[Piece]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is one that has not heard of its own election, or that was replaced: it refuses by the epoch."""
    as_answered, answers = cluster_module.read_cluster, iter(range(1))

    def read_cluster(reply: Struct) -> ClusterView:
        for _ in answers:
            for row in (row for found in reply.topics for row in found.partitions):
                row.leader_epoch += 5
        return as_answered(reply)

    monkeypatch.setattr(cluster_module, "read_cluster", read_cluster)
    found = [offset for piece in open_pieces(proxy.address, whole(topic)) for offset in offsets(piece)]
    assert found == list(range(RECORDS))
    assert proxy.requests_by_key[ApiKey.METADATA] == 2


def test_no_loss_is_judged_by_leaders_that_a_task_before_has_seen(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    with CuttingProxy(bootstrap, lambda api_key, _: bool(asked.append(api_key))) as proxy:  # type: ignore[func-returns-value]
        reader = batch_reader(proxy.address, subscribe=topic)
        tasks = reader.partitions()
        read(reader, tasks)
        asked.clear()
        change_replies(monkeypatch, range(1), refusing(ErrorCode.OFFSET_OUT_OF_RANGE))
        assert len(read(reader, tasks)) == RECORDS
    assert asked.index(ApiKey.METADATA) < asked.index(ApiKey.LIST_OFFSETS)


def test_a_topic_of_that_name_that_a_task_before_has_seen_may_be_gone(bootstrap: str, topic: str) -> None:
    assert len(read_batch(bootstrap, subscribe=topic)) == RECORDS
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(3))
    assert values(read_batch(bootstrap, subscribe=topic)) == [b"0", b"1", b"2"]


# Connections that break -----------------------------------------------------------------------------------------


def test_what_came_is_kept_when_the_next_request_cannot_be_sent(
    proxy: ResettingProxy, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = 0

    def reset_then_open(*args: Any, **options: Any) -> Chunk:
        nonlocal opened
        opened += 1
        if opened == 2:  # the reply is here, the next request is not yet sent
            proxy.reset()
        return Chunk(*args, **options)

    monkeypatch.setattr(fetching, "Chunk", reset_then_open)
    reader = batch_reader(proxy.address, subscribe=topic, **{"kafka.max.partition.fetch.bytes": str(SMALL)})
    rows = read(reader, reader.partitions())
    assert opened > 2
    assert [row["offset"] for row in rows] == list(range(RECORDS))
    assert {row["value"] for row in rows} == {b"x" * 1000}


def test_what_came_before_junk_is_handed_on(
    bootstrap: str,
    new_topic: Callable[..., str],
    open_pieces: Callable[..., Iterator[Piece]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(partitions=2)
    produce(bootstrap, topic, [*numbered(10), *numbered(10, 1)])
    opened = 0

    def fail_then(*args: Any, **options: Any) -> Chunk:
        nonlocal opened
        opened += 1
        if opened == 2:
            raise Malformed("junk")
        return Chunk(*args, **options)

    monkeypatch.setattr(fetching, "Chunk", fail_then)
    pieces = open_pieces(bootstrap, whole(topic, 2, 10))
    assert offsets(next(pieces)) == list(range(10))
    with pytest.raises(ClientError, match=rf"partition {topic}/., at offset 0: junk"):
        next(pieces)


# Callers that take their time -----------------------------------------------------------------------------------


def test_the_callers_time_does_not_use_up_the_patience(
    proxy: ResettingProxy, topic: str, open_pieces: Callable[..., Iterator[Piece]]
) -> None:
    timeout_s = 1.0
    pieces = open_pieces(proxy.address, whole(topic), timeout_s)
    found = offsets(next(pieces))
    time.sleep(timeout_s * 1.2)
    proxy.reset()
    for piece in pieces:
        found += offsets(piece)
    assert found == list(range(RECORDS))


def test_a_partition_is_not_gone_because_the_caller_took_its_time(
    bootstrap: str,
    topic: str,
    open_pieces: Callable[..., Iterator[Piece]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "GONE_PATIENCE_S", 0.2)
    change_replies(monkeypatch, range(1, 2), refusing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    pieces = open_pieces(bootstrap, whole(topic))
    found = offsets(next(pieces))
    time.sleep(0.4)
    for piece in pieces:
        found += offsets(piece)
    assert found == list(range(RECORDS))


def test_a_partition_that_the_metadata_names_is_not_gone(
    bootstrap: str,
    topic: str,
    open_pieces: Callable[..., Iterator[Piece]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "GONE_PATIENCE_S", 0.0)
    change_replies(monkeypatch, range(4), refusing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    found = [offset for piece in open_pieces(bootstrap, whole(topic)) for offset in offsets(piece)]
    assert found == list(range(RECORDS))


# Many partitions ------------------------------------------------------------------------------------------------


def test_many_partitions_without_their_leader_wait_together(
    proxy: ResettingProxy,
    new_topic: Callable[..., str],
    open_pieces: Callable[..., Iterator[Piece]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partitions, rounds = 60, 3
    topic = new_topic(partitions=partitions)
    produce(proxy.address, topic, [Sent(b"x", partition=index) for index in range(partitions)])
    before = proxy.requests_by_key[ApiKey.METADATA]
    change_replies(monkeypatch, range(rounds), refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    pieces = list(open_pieces(proxy.address, whole(topic, partitions, 1), 10.0))
    assert {piece.target.partition for piece in pieces} == set(range(partitions))
    assert proxy.requests_by_key[ApiKey.METADATA] - before == 1 + rounds


@pytest.mark.parametrize("fail", [True, False])
def test_a_deleted_topic_of_many_partitions_is_lost_at_once(
    bootstrap: str,
    new_topic: Callable[..., str],
    open_pieces: Callable[..., Iterator[Piece]],
    monkeypatch: pytest.MonkeyPatch,
    fail: bool,
) -> None:
    monkeypatch.setattr(fetching, "GONE_PATIENCE_S", 0.5)
    partitions = 60
    topic = new_topic(partitions=partitions)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_topics([topic]).values():
        done.result()
    pieces = open_pieces(bootstrap, whole(topic, partitions), 10.0, fail=fail)
    if fail:
        with pytest.raises(DataLoss, match=rf"partition {topic}/. is gone"):
            next(pieces)
    else:
        assert list(pieces) == []


# Sizes ----------------------------------------------------------------------------------------------------------


def test_batches_are_put_together_up_to_a_number_of_bytes() -> None:
    def batch(size: int, mark: bytes) -> pa.RecordBatch:
        return pa.record_batch([pa.array([mark * size])], names=["value"])

    sizes = [6 << 20, 6 << 20, 6 << 20, 1, 20 << 20, 1, 1]
    batches = [batch(size, b"%d" % number) for number, size in enumerate(sizes)]
    made = list(merged(batches))
    assert [one.num_rows for one in made] == [2, 2, 1, 2]
    assert all(one.nbytes <= MERGED_BYTES_MAX or one.num_rows == 1 for one in made)
    assert pa.Table.from_batches(made) == pa.Table.from_batches(batches)


def test_batches_are_put_together_up_to_a_number_of_rows() -> None:
    batches = [pa.record_batch([pa.array([number])], names=["value"]) for number in range(ROWS_MIN + 1)]
    assert [one.num_rows for one in merged(batches)] == [ROWS_MIN, 1]


@pytest.mark.parametrize("limit", [1, 2, 60, 61, 62])
def test_a_batch_size_below_a_batchs_header_means_one_record_each(limit: int) -> None:
    rows = read_rows(pa.record_batch([pa.array([b"a" * 5, b"b", b"", b"c" * 300])], names=["value"]), "t", 0)
    lane = Lane(TopicPartition("t", 0), limit)
    made = [*lane.add(rows, np.arange(rows.count), 5), *lane.take()]
    found = [[record.value for record in decode_records(batch.sealed(0, -1, -1, -1))] for batch in made]
    assert found == [[b"a" * 5], [b"b"], [b""], [b"c" * 300]]
