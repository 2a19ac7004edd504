"""The source and the sink inside Spark: found by name, in SQL, in streams that stop and go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from harness.topics import read_all
from spark.records import Sent, numbered, produce
from spark.test_stream_reader import committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_S = 120


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


def test_a_topic_is_a_table(bootstrap: str, topic: str, load: Callable[..., DataFrame], spark: SparkSession) -> None:
    produce(bootstrap, topic, [*numbered(50), *numbered(50, 1), Sent(None, b"tombstone")])
    frame = load(subscribe=topic)
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema.fields] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    frame.createOrReplaceTempView("events")
    query = (
        "select partition, count(*) n, max(offset) last, sum(int(string(value))) total from events group by partition"
    )
    rows = {row.partition: (row.n, row.last, row.total) for row in spark.sql(query).collect()}
    assert rows == {0: (51, 50, 1225), 1: (50, 49, 1225)}
    assert frame.filter("value is null").collect()[0].key == b"tombstone"
    assert frame.limit(3).count() == 3


def test_headers_and_projection(
    bootstrap: str, topic: str, load: Callable[..., DataFrame], spark: SparkSession
) -> None:
    produce(bootstrap, topic, [Sent(b"v", headers=(("a", b"1"), ("b", None)))])
    (row,) = load(subscribe=topic, includeHeaders="true").select("headers").collect()
    assert [(header.key, header.value) for header in row.headers] == [("a", b"1"), ("b", None)]
    reader = spark.read.format("runnel").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    assert reader.schema("value binary").load().collect()[0].asDict() == {"value": b"v"}


def test_mistakes_are_told_in_the_words_of_the_cure(load: Callable[..., DataFrame]) -> None:
    with pytest.raises(
        AnalysisException, match=r"auto\.offset\.reset is not supported: use the option startingOffsets"
    ):
        load(subscribe="t", **{"kafka.auto.offset.reset": "earliest"})
    with pytest.raises(PySparkException, match="startingOffsets cannot be latest in a batch query"):
        load(subscribe="t", startingOffsets="latest").collect()


def test_rows_become_records(bootstrap: str, topic: str, load: Callable[..., DataFrame], spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr(
        "string(id) key",
        "concat('v', id) value",
        "array(named_struct('key', 'h', 'value', binary('x'))) headers",
        "int(id % 2) partition",
    )
    writer = frame.write.format("runnel").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    writer.mode("append").save()
    rows = load(subscribe=topic, includeHeaders="true").collect()
    assert sorted(int(row.key) for row in rows) == list(range(100))
    assert {(row.value.decode()[1:], row.key.decode()) for row in rows} == {(str(n), str(n)) for n in range(100)}
    assert {row.partition == int(row.key) % 2 for row in rows} == {True}
    assert {(header.key, header.value) for row in rows for header in row.headers} == {("h", b"x")}


def test_a_stream_stops_and_goes_on_where_it_was(bootstrap: str, topic: str, run_stream: Callable[..., Any]) -> None:
    seen: list[int] = []

    def collect(batch: DataFrame) -> None:
        seen.extend(int(row.value) for row in batch.collect())

    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    for first in (0, 100):
        produce(bootstrap, topic, [*numbered(50, 0, first), *numbered(50, 1, first + 50)])
        query = run_stream("checkpoint", collect, **options)
        assert len(query.recentProgress) >= 3, "four triggers of 30"
    assert sorted(seen) == list(range(200))
    progress = query.recentProgress[-1].sources[0]
    assert progress.latestOffset == progress.endOffset
    assert committed(bootstrap, f"spark-runnel-{topic}", topic, 0) == 100
    assert committed(bootstrap, f"spark-runnel-{topic}", topic, 1) == 100


def test_a_first_batch_that_failed_is_run_again(bootstrap: str, topic: str, run_stream: Callable[..., Any]) -> None:
    """It began at the end of the topic, as streams do by default, and what came since is read after it."""
    seen: list[int] = []

    def fail(batch: DataFrame) -> None:
        raise RuntimeError("the first batch")

    def collect(batch: DataFrame) -> None:
        seen.extend(int(row.value) for row in batch.collect())

    produce(bootstrap, topic, numbered(3))
    with pytest.raises(StreamingQueryException, match="the first batch"):
        run_stream("checkpoint", fail, subscribe=topic)
    produce(bootstrap, topic, [*numbered(5, 0, 3), *numbered(5, 1, 8)])
    run_stream("checkpoint", collect, subscribe=topic)
    assert sorted(seen) == list(range(3, 13))


def test_from_topic_to_topic(
    bootstrap: str, topic: str, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    target = new_topic()
    produce(bootstrap, topic, [*numbered(300), *numbered(300, 1, 300)])
    stream = spark.readStream.format("runnel").option("kafka.bootstrap.servers", bootstrap)
    source = stream.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = source.selectExpr("key", "concat('seen ', string(value)) value").writeStream.format("runnel")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_S)
    found = read_all(bootstrap, target, keep=lambda message: int(message.value().split()[1]))
    assert sorted(found) == list(range(600))


def test_a_row_that_cannot_be_written_fails_the_query_by_name(bootstrap: str, spark: SparkSession) -> None:
    frame = spark.range(10).selectExpr("string(id) value", "string(id) key", "if(id = 7, null, 'x') topic").coalesce(1)
    writer = frame.write.format("runnel").option("kafka.bootstrap.servers", bootstrap).mode("append")
    with pytest.raises(PySparkException, match="row 7 of the task, with key b'7', has a null topic"):
        writer.save()


def test_lost_records_fail_a_stream_with_the_connectors_condition(
    bootstrap: str, topic: str, run_stream: Callable[..., Any]
) -> None:
    from spark.test_batch_reader import delete_records

    produce(bootstrap, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    run_stream("checkpoint", lambda batch: None, **options)
    produce(bootstrap, topic, numbered(10))
    delete_records(bootstrap, topic, 0, 15)
    with pytest.raises(StreamingQueryException, match=r"KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE"):
        run_stream("checkpoint", lambda batch: batch.collect(), **options)
    seen: list[int] = []
    run_stream(
        "checkpoint",
        lambda batch: seen.extend(row.offset for row in batch.collect()),
        failOnDataLoss="false",
        **options,
    )
    assert sorted(seen) == [15, 16, 17, 18, 19]
