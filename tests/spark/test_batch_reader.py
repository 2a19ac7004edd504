"""Batch reads of a real broker, by the classes that Spark calls, without Spark itself.

With RUNNEL_TEST_BOOTSTRAP these run against any other broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as AdminTopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from harness.topics import create_topic
from runnel.client.errors import ClientError
from runnel.spark.brokers.cluster import Patience
from runnel.spark.errors import DataLoss, OptionError
from runnel.spark.reading import task as task_module
from runnel.spark.reading.task import ReadTask
from spark.records import BASE_MS, Sent, batch_reader, numbered, produce, read, read_batch, source, values

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NEVER = str(2**53)


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([AdminTopicPartition(topic, partition, before)]).values():
        done.result()


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_topics([topic]).values():
        done.result()


@pytest.mark.parametrize("codec", CODECS)
def test_every_column_of_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    headers = (("a", b"1"), ("b", None))
    records = [
        Sent(b"value", b"key", 0, BASE_MS + 123, headers),
        Sent(None, b"tombstone", 0, BASE_MS + 124),
        Sent(b"v" * 5000, None, 1, BASE_MS + 125),
        Sent(b"", b"", 1, BASE_MS + 126),
    ]
    produce(bootstrap, topic, records, **{"compression.type": codec})
    rows = read_batch(bootstrap, subscribe=topic, includeHeaders="true")
    assert [(row["key"], row["value"], row["partition"], row["offset"]) for row in rows] == [
        (b"key", b"value", 0, 0),
        (b"tombstone", None, 0, 1),
        (None, b"v" * 5000, 1, 0),
        (b"", b"", 1, 1),
    ]
    assert {row["topic"] for row in rows} == {topic}
    assert {row["timestampType"] for row in rows} == {0}
    assert [round(row["timestamp"].timestamp() * 1000) - BASE_MS for row in rows] == [123, 124, 125, 126]
    assert [row["headers"] for row in rows] == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        None,
        None,
    ]


def test_an_empty_topic_has_no_rows_and_no_tasks(bootstrap: str, topic: str) -> None:
    reader = batch_reader(bootstrap, subscribe=topic)
    assert reader.partitions() == []
    assert read_batch(bootstrap, subscribe=topic) == []


def test_log_append_time(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    produce(bootstrap, topic, [Sent(b"v", timestamp_ms=5)])
    (row,) = read_batch(bootstrap, subscribe=topic)
    assert row["timestampType"] == 1
    assert row["timestamp"].timestamp() > 1_000_000_000


def test_subscribe_several_pattern_and_assign(bootstrap: str, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(partitions=2), new_topic()
    produce(bootstrap, first, [*numbered(2), *numbered(2, 1, 10)])
    produce(bootstrap, second, numbered(1, first=20))
    everything = [b"0", b"1", b"10", b"11", b"20"]
    assert sorted(values(read_batch(bootstrap, subscribe=f"{first}, {second}"))) == everything
    assert sorted(values(read_batch(bootstrap, subscribePattern=f"^({first}|{second})$"))) == everything
    assert values(read_batch(bootstrap, assign=f'{{"{first}":[1]}}')) == [b"10", b"11"]


def test_a_pattern_never_reads_internal_topics(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(1))
    assert {row["topic"] for row in read_batch(bootstrap, subscribePattern=f"{topic}|__consumer_offsets")} == {topic}


def test_a_topic_that_does_not_exist_is_named(bootstrap: str) -> None:
    with pytest.raises(ClientError, match="topic 'no-such-topic' does not exist"):
        read_batch(bootstrap, subscribe="no-such-topic", **{"fetchOffset.numRetries": "1"})


def test_offsets_say_where_to_begin_and_to_end(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [*numbered(10), *numbered(10, 1, 100)])
    limits = {
        "startingOffsets": f'{{"{topic}":{{"0":7,"1":-2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":-1,"1":2}}}}',
    }
    assert values(read_batch(bootstrap, subscribe=topic, **limits)) == [b"7", b"8", b"9", b"100", b"101"]


def test_offsets_must_name_every_partition(bootstrap: str, topic: str) -> None:
    with pytest.raises(OptionError, match=rf"names {topic}/0; there are {topic}/0, {topic}/1"):
        read_batch(bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}')


def test_timestamps_say_where_to_begin_and_to_end(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [*numbered(10), *numbered(10, 1)])  # at BASE_MS + number
    both = read_batch(bootstrap, subscribe=topic, startingTimestamp=str(BASE_MS + 8), endingTimestamp=str(BASE_MS + 9))
    assert values(both) == [b"8", b"8"]
    by_partition = {
        "startingOffsetsByTimestamp": f'{{"{topic}":{{"0":{BASE_MS + 9},"1":{BASE_MS + 7}}}}}',
        "endingOffsetsByTimestamp": f'{{"{topic}":{{"0":{NEVER},"1":{BASE_MS + 9}}}}}',
    }
    assert values(read_batch(bootstrap, subscribe=topic, **by_partition)) == [b"9", b"7", b"8"]


def test_a_timestamp_after_all_records_is_an_error_or_the_end(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(3))
    with pytest.raises(OptionError, match=rf"no record of {topic}/0 .*startingOffsetsByTimestampStrategy"):
        read_batch(bootstrap, subscribe=topic, startingTimestamp=NEVER)
    options = {"startingTimestamp": NEVER, "startingOffsetsByTimestampStrategy": "latest"}
    assert read_batch(bootstrap, subscribe=topic, **options) == []


def test_a_start_after_the_end_is_refused(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(3))
    with pytest.raises(OptionError, match=rf"the start of {topic}/0 \(50\) lies after its end \(3\)"):
        read_batch(bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":50,"1":0}}}}')


@pytest.mark.parametrize(("name", "number", "tasks"), [("minPartitions", "5", 6), ("maxRecordsPerPartition", "30", 8)])
def test_partitions_are_split_by_offset_and_nothing_is_read_twice(
    bootstrap: str, topic: str, name: str, number: str, tasks: int
) -> None:
    produce(bootstrap, topic, [*numbered(100), *numbered(100, 1)], **{"batch.num.messages": 7})
    reader = batch_reader(bootstrap, subscribe=topic, **{name: number})
    planned = reader.partitions()
    assert len(planned) == tasks
    rows = read(reader, planned)
    assert [row["offset"] for row in rows] == [*range(100), *range(100)]


def test_small_fetches_bring_everything(bootstrap: str, topic: str) -> None:
    """Batches larger than what is asked for, and many rounds."""
    records = [Sent(b"%d" % number + b"x" * 3000, partition=number % 2) for number in range(600)]
    produce(bootstrap, topic, records, **{"batch.num.messages": 10})
    fetch = {"kafka.max.partition.fetch.bytes": "1000", "kafka.fetch.max.bytes": "2000"}
    rows = read_batch(bootstrap, subscribe=topic, **fetch)
    assert sorted(int(row["value"].rstrip(b"x")) for row in rows) == list(range(600))


def test_reading_that_is_broken_off_leaves_nothing_for_the_next(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "ROWS_MIN", 1)
    produce(bootstrap, topic, [Sent(b"x" * 1000) for _ in range(500)], **{"batch.num.messages": 10})
    reader = batch_reader(bootstrap, subscribe=topic, **{"kafka.max.partition.fetch.bytes": "20000"})
    (task,) = reader.partitions()
    first = reader.read(task)
    assert next(first).num_rows < 500
    first.close()  # as Spark does after a LIMIT
    assert len(read(reader, [task])) == 500


def test_only_the_named_columns_are_read(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(2))
    schema = StructType([StructField("offset", LongType()), StructField("Value", BinaryType())])
    reader = source(bootstrap, {"subscribe": topic}).reader(schema)
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert rows == [{"offset": 0, "Value": b"0"}, {"offset": 1, "Value": b"1"}]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ([StructField("payload", BinaryType())], "a topic has no column 'payload': its columns are key, value"),
        ([StructField("offset", BinaryType())], "column 'offset' is bigint, not binary"),
        ([StructField("Value", BinaryType(), nullable=False)], "column 'Value' has nulls, whatever a schema says"),
        ([], "the schema names no column"),
    ],
)
def test_columns_that_a_topic_does_not_have_are_refused(fields: list[StructField], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        source("localhost:9092", {"subscribe": "t"}).reader(StructType(fields))


# Records that are gone ------------------------------------------------------------------------------------------


def test_records_deleted_before_planning_are_not_missed(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(10))
    delete_records(bootstrap, topic, 0, 6)
    assert values(read_batch(bootstrap, subscribe=topic)) == [b"6", b"7", b"8", b"9"]


def test_an_end_before_all_that_is_left_leaves_nothing_of_that_partition(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [*numbered(10), *numbered(10, partition=1)])
    delete_records(bootstrap, topic, 0, 8)
    rows = read_batch(bootstrap, subscribe=topic, endingOffsets=f'{{"{topic}":{{"0":5,"1":2}}}}')
    assert [(row["partition"], row["offset"]) for row in rows] == [(1, 0), (1, 1)]


def planned_then_changed(bootstrap: str, topic: str, change: Callable[[], Any], **options: str) -> list[Any]:
    reader = batch_reader(bootstrap, subscribe=topic, **options)
    planned = reader.partitions()
    change()
    return values(read(reader, planned))


def test_records_that_expire_after_planning(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(10), **{"batch.num.messages": 1})

    def expire() -> None:
        delete_records(bootstrap, topic, 0, 6)

    start = {"startingOffsets": f'{{"{topic}":{{"0":0,"1":0}}}}'}
    with pytest.raises(DataLoss, match=rf"COULD_NOT_READ_OFFSET_RANGE\].*Offsets 0 to 5 of {topic}/0"):
        planned_then_changed(bootstrap, topic, expire, **start)
    produce(bootstrap, topic, numbered(10, 1))
    rest = planned_then_changed(
        bootstrap, topic, lambda: delete_records(bootstrap, topic, 1, 8), failOnDataLoss="false"
    )
    assert rest == [b"6", b"7", b"8", b"9", b"8", b"9"]


@pytest.mark.parametrize("starting", ["earliest", '{"TOPIC":{"0":-2,"1":0}}'])
def test_the_oldest_record_is_that_of_the_time_of_reading(bootstrap: str, topic: str, starting: str) -> None:
    """Tasks of a long query begin long after it was planned, and retention does not wait for them."""
    options = {"startingOffsets": starting.replace("TOPIC", topic)}
    produce(bootstrap, topic, numbered(10), **{"batch.num.messages": 1})
    assert planned_then_changed(bootstrap, topic, lambda: delete_records(bootstrap, topic, 0, 4), **options) == [
        b"%d" % number for number in range(4, 10)
    ]
    with pytest.raises(DataLoss, match=rf"Offsets 7 to 7 of {topic}/0"):  # the second of two tasks: a gap between them
        planned_then_changed(
            bootstrap, topic, lambda: delete_records(bootstrap, topic, 0, 8), minPartitions="2", **options
        )
    assert planned_then_changed(bootstrap, topic, lambda: delete_records(bootstrap, topic, 0, 10), **options) == []


def test_all_records_expire_after_planning(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(10))
    expire = lambda: delete_records(bootstrap, topic, 0, 10)  # noqa: E731
    assert planned_then_changed(bootstrap, topic, expire, failOnDataLoss="false") == []


def test_a_topic_that_is_deleted_after_planning(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(10))
    with pytest.raises(DataLoss, match=rf"partition {topic}/0 is gone"):
        planned_then_changed(bootstrap, topic, lambda: delete_topic(bootstrap, topic))


def test_a_topic_that_is_created_anew_after_planning(bootstrap: str, topic: str) -> None:
    """Not only found by its offsets: the new topic may hold as many records, and they are others."""

    def renew() -> None:
        delete_topic(bootstrap, topic)
        create_topic(bootstrap, topic, 2)
        produce(bootstrap, topic, numbered(4, first=100))

    produce(bootstrap, topic, numbered(4))
    with pytest.raises(DataLoss, match=rf"topic {topic} was deleted and created anew"):
        planned_then_changed(bootstrap, topic, renew)
    assert planned_then_changed(bootstrap, topic, renew, failOnDataLoss="false") == [b"100", b"101", b"102", b"103"]


def test_a_range_beyond_the_end_is_lost_after_a_while(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, numbered(4))
    reader = batch_reader(bootstrap, subscribe=topic, failOnDataLoss="false")
    (task,) = reader.partitions()
    assert isinstance(task, ReadTask)
    (planned,) = task.ranges
    longer = ReadTask((planned._replace(until=10),))
    assert values(read(reader, [longer])) == [b"0", b"1", b"2", b"3"]


# Brokers that go away -------------------------------------------------------------------------------------------


def test_a_broker_that_restarts_under_a_reader(
    start_broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_module, "ROWS_MIN", 1)
    broker = start_broker()
    create_topic(broker.address, "t")
    produce(broker.address, "t", [Sent(b"x" * 1000) for _ in range(500)], **{"batch.num.messages": 10})
    reader = batch_reader(broker.address, subscribe="t", **{"kafka.max.partition.fetch.bytes": "20000"})
    (task,) = reader.partitions()
    batches = reader.read(task)
    rows = next(batches).num_rows
    assert rows < 500
    broker.kill()
    broker.start()
    rows += sum(batch.num_rows for batch in batches)
    assert rows == 500


def test_no_broker_at_all_is_said_with_its_address() -> None:
    options = {"subscribe": "t", "fetchOffset.numRetries": "2", "kafka.default.api.timeout.ms": "100"}
    with pytest.raises(ClientError, match=r"cannot connect to 127.0.0.1:1: Connection refused; is a broker running"):
        read_batch("127.0.0.1:1", **options)


def test_a_broker_that_is_away_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(Patience, "__init__", _noting(Patience.__init__, waits))
    options = {"subscribe": "t", "fetchOffset.numRetries": "9", "kafka.default.api.timeout.ms": "100"}
    with pytest.raises(ClientError, match=r"cannot connect to 127.0.0.1:1"):
        read_batch("127.0.0.1:1", **options)
    assert waits == [0.1, 0.1], "the plan's, and that of the one question in it"


def _noting(begin: Callable[..., None], waits: list[float]) -> Callable[..., None]:
    def noted(patience: Patience, limit_s: float) -> None:
        waits.append(limit_s)
        begin(patience, limit_s)

    return noted
