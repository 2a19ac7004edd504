"""The source and the sink on Apache Kafka: batches, streams and rows written, beside Spark's own connector, row by row.

Above all what Runnel's broker does not make itself: transactions that were committed, aborted or are still open, and
the control records between them, read at both isolation levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer

from clients.compacted import BASE_MS, make_topic, put, roll, wait_for_cleaner
from harness.kafka import running_small_kafka
from harness.raw import RawConnection
from harness.topics import create_topic
from spark.records import Sent, numbered, produce
from spark.test_beside_official import OURS, THEIRS, Side, agree, both, rows_of
from spark.test_stream_reader import committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("official")]

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "20",
}
TRANSACTION_S = 60
TRANSACTION_MAX_MS = 900_000
"""Kafka's own limit: one that is left open must outlast all tests."""
QUERY_S = 120
ROUNDS = 9
LEVELS = ("read_committed", "read_uncommitted")
FATES = ("plain", "committed", "aborted", "open")


class Kafka(NamedTuple):
    bootstrap: str
    data_dir: Path


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    folder = tmp_path_factory.mktemp("kafka")
    with running_small_kafka(folder, SETTINGS) as broker:
        yield Kafka(broker.bootstrap, folder / "data")


@pytest.fixture(scope="module")
def bootstrap(kafka: Kafka) -> str:
    """In place of the session's own broker, for every fixture that asks for one."""
    return kafka.bootstrap


# Transactions ---------------------------------------------------------------------------------------------------


def transactional(bootstrap: str, name: str) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_MAX_MS, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(TRANSACTION_S)
    return producer


def send(producer: Producer, topic: str, fate: str, turn: int, count: int) -> None:
    for number in range(count):
        producer.produce(topic, f"{fate} {turn} {number}".encode(), b"k%d" % number, turn % 2)
    assert producer.flush(TRANSACTION_S) == 0


@pytest.fixture(scope="module")
def transactions(bootstrap: str) -> Iterator[str]:
    """Two transactions at a time, of which one is committed and one aborted; in partition 0 a third stays open."""
    topic = "transactions"
    create_topic(bootstrap, topic, partitions=2)
    keeping, dropping, opening = (transactional(bootstrap, name) for name in ("keeping", "dropping", "opening"))
    for turn in range(ROUNDS):
        for producer in (keeping, dropping):
            producer.begin_transaction()
        send(dropping, topic, "aborted", turn, turn + 1)
        send(keeping, topic, "committed", turn, 2)
        produce(bootstrap, topic, [Sent(b"plain", partition=turn % 2)])
        send(dropping, topic, "aborted", turn, 1)
        dropping.abort_transaction(TRANSACTION_S)
        send(keeping, topic, "committed", turn, 1)
        keeping.commit_transaction(TRANSACTION_S)
    opening.begin_transaction()
    send(opening, topic, "open", 0, 4)
    produce(bootstrap, topic, [Sent(b"plain"), Sent(b"plain", partition=1)])
    yield topic
    opening.abort_transaction(TRANSACTION_S)


def fates(rows: list[tuple[Any, ...]]) -> dict[str, int]:
    """How many records of each kind."""
    found = [dict(row)["value"].decode().split()[0] for row in rows]
    return {fate: found.count(fate) for fate in FATES if fate in found}


EXPECTED = {
    # What lies behind the beginning of an open transaction is not yet to be seen.
    "read_committed": {"plain": ROUNDS + 1, "committed": 3 * ROUNDS},
    "read_uncommitted": {
        "plain": ROUNDS + 2,
        "committed": 3 * ROUNDS,
        "aborted": ROUNDS * (ROUNDS + 3) // 2,
        "open": 4,
    },
}


@pytest.mark.parametrize("level", LEVELS)
def test_transactions_in_a_batch(load: Callable[..., DataFrame], transactions: str, level: str) -> None:
    options = {"subscribe": transactions, "kafka.isolation.level": level}
    rows = both(load, **options)
    assert fates(rows) == EXPECTED[level]
    assert rows_of(load(OURS, **options, maxRecordsPerPartition="3")) == rows, "tasks begin and end anywhere"


def test_control_records_are_no_rows(load: Callable[..., DataFrame], transactions: str) -> None:
    """Each end of a transaction takes an offset, which nobody sees, also not where a range has nothing else."""
    rows = [dict(row) for row in both(load, subscribe=transactions)]
    offsets = sorted(row["offset"] for row in rows if row["partition"] == 1)
    missing = sorted(set(range(offsets[-1] + 1)) - set(offsets))
    assert len(missing) == 2 * (ROUNDS // 2)
    for first in missing[:2]:
        assert only(load, transactions, first, first + 1) == []
        assert [dict(row)["offset"] for row in only(load, transactions, first - 1, first + 1)] in ([first - 1], [])


def only(load: Callable[..., DataFrame], topic: str, start: int, end: int) -> list[tuple[Any, ...]]:
    limits = {
        f"{side}Offsets": f'{{"{topic}":{{"1":{offset}}}}}' for side, offset in (("starting", start), ("ending", end))
    }
    return both(load, assign=f'{{"{topic}":[1]}}', **limits)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_ranges_that_begin_and_end_within_transactions(
    load: Callable[..., DataFrame], transactions: str, level: str
) -> None:
    end = 1 + max(dict(row)["offset"] for row in rows_of(load(THEIRS, assign=f'{{"{transactions}":[1]}}')))
    for start in range(0, end - 4, 3):
        limits = {"startingOffsets": start, "endingOffsets": start + 4}
        offsets = {name: f'{{"{transactions}":{{"1":{offset}}}}}' for name, offset in limits.items()}
        both(load, assign=f'{{"{transactions}":[1]}}', **offsets, **{"kafka.isolation.level": level})


@pytest.fixture
def sides(run_stream: Callable[..., Any]) -> list[Side]:
    return [Side(run_stream, connector) for connector in (OURS, THEIRS)]


@pytest.mark.parametrize("level", LEVELS)
def test_transactions_in_a_stream(transactions: str, sides: list[Side], level: str) -> None:
    """Triggers end in the middle of transactions, and the offsets of both checkpoints are the same."""
    for side in sides:
        side.run(
            subscribe=transactions,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="45",
            **{"kafka.isolation.level": level},
        )
    assert fates(agree(sides)) == EXPECTED[level]
    assert len(sides[0].ends) > 1


# Batches, streams, rows written ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_batches_of_every_codec(load: Callable[..., DataFrame], bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        records = [*numbered(20, 0, 20 * number), Sent(None, b"tombstone", 1, headers=(("codec", codec.encode()),))]
        produce(bootstrap, topic, records, **{"compression.type": codec})
    assert len(both(load, subscribe=topic, includeHeaders="true")) == 105


def test_a_stream_goes_on_where_it_was_and_its_group_shows_that(
    bootstrap: str, new_topic: Callable[..., str], sides: list[Side]
) -> None:
    topic = new_topic(partitions=2)
    for first in (0, 10):
        produce(bootstrap, topic, [*numbered(10, 0, first), *numbered(3, 1, first)])
        for side in sides:
            side.run(subscribe=topic, startingOffsets="earliest")
    assert len(agree(sides)) == 26
    group = f"spark-runnel-{topic}"
    assert [committed(bootstrap, group, topic, partition) for partition in range(2)] == [20, 6]


ROWS = (
    "if(id % 7 = 0, null, string(id)) key",
    "if(id % 11 = 0, null, concat('v', id)) value",
    "if(id % 3 = 0, null, array(named_struct('key', 'h', 'value', binary(string(id))))) headers",
    "if(id % 7 = 0, 3, null) partition",
)
WRITTEN = ("partition", "offset", "key", "value", "headers")


@pytest.mark.slow
def test_rows_written_by_both_sinks_are_in_the_same_places(
    spark: SparkSession, load: Callable[..., DataFrame], bootstrap: str, new_topic: Callable[..., str]
) -> None:
    found = []
    for connector in (OURS, THEIRS):
        topic = new_topic(partitions=5)
        writer = spark.range(500).selectExpr(*ROWS).coalesce(1).write.format(connector)
        writer.option("kafka.bootstrap.servers", bootstrap).option("kafka.compression.type", "lz4").option(
            "topic", topic
        ).mode("append").save()
        found.append(rows_of(load(THEIRS, subscribe=topic, includeHeaders="true").select(*WRITTEN)))
    assert len(found[0]) == 500
    assert found[0] == found[1]


def test_a_stream_from_topic_to_topic(
    spark: SparkSession,
    load: Callable[..., DataFrame],
    bootstrap: str,
    transactions: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """What was committed, and nothing else, arrives."""
    target = new_topic()
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed"}
    reader = spark.readStream.format(OURS).options(**options, subscribe=transactions, startingOffsets="earliest")
    writer = reader.load().select("key", "value").writeStream.format(OURS).options(**options, topic=target)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_S)
    assert fates(rows_of(load(THEIRS, subscribe=target))) == EXPECTED["read_committed"]


# Gaps -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_topic_that_kafka_compacted(load: Callable[..., DataFrame], kafka: Kafka, sides: list[Side]) -> None:
    turns, topic = 30, "compacted"
    with RawConnection(kafka.bootstrap) as raw:
        make_topic(raw, topic)
        for turn in range(turns):
            keys = range(1 + 8 * (turns - turn) // turns)
            pairs = [(b"k%d" % key, None if key % 4 == 1 else b"v%d" % turn) for key in keys]
            put(raw, topic, pairs, BASE_MS + turn, compression=turn % 5)
        end = roll(raw, topic, BASE_MS)
        wait_for_cleaner(kafka.data_dir, topic, end)
    rows = both(load, subscribe=topic, includeHeaders="true")
    assert 8 <= len(rows) < end / 3, "the cleaner has left gaps"
    for side in sides:
        side.run(subscribe=topic, startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger=str(end // 4))
    assert agree(sides) == rows
