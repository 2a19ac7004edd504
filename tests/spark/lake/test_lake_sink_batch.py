"""Batch writes into lake tables through Spark: appended, once by request, overwritten; refusals name the cure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from runnel.spark.lake.options import TABLE_FORMATS
from spark.lake.place import Place
from spark.records import Sent, numbered, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@pytest.fixture(params=TABLE_FORMATS)
def place(request: pytest.FixtureRequest, spark: SparkSession, bootstrap: str, tmp_path: Path) -> Place:
    return Place(tmp_path, str(request.param), spark, bootstrap)


@pytest.fixture
def any_place(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Place:
    return Place(tmp_path, "delta", spark, bootstrap)


def test_a_topic_becomes_a_table_once_however_often_the_job_runs(place: Place, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    produce(place.bootstrap, topic, [*numbered(40), *numbered(40, 1), Sent(None, b"gone"), Sent(b"", None)])
    frame = place.topic(topic, stream=False).select(*COLUMNS)
    for _ in range(2):
        place.save(frame, appId="nightly", batchId="7")
    found = place.rows("partition", "offset", "key", "value")
    assert [(row["partition"], row["offset"]) for row in found] == [(0, n) for n in range(42)] + [
        (1, n) for n in range(40)
    ]
    assert [(row["key"], row["value"]) for row in found[40:42]] == [(b"gone", None), (None, b"")]
    verdict = place.verify(topic, "--json", "--offsets", json.dumps({topic: {"0": 42, "1": 40, "2": 0}}))
    assert verdict.returncode == 0
    assert [(row["topic_records"], row["table_rows"]) for row in json.loads(verdict.stdout)["partitions"]] == [
        (42, 42),
        (40, 40),
        (0, 0),
    ]


def test_types_and_partition_values_of_every_kind_come_back(place: Place) -> None:
    """Twice: the second run finds the table and must take its own types for the same."""
    frame = place.spark.range(6).selectExpr(
        "id offset",
        "int(id) number",
        "smallint(id) small",
        "tinyint(id) tiny",
        "float(id / 3) ratio",
        "decimal(id / 7) share",
        "id % 2 = 0 even",
        "date'2026-11-16' + int(id) day",
        "timestamp'2026-11-16 12:00:00' moment",
        "array(struct(id, string(id) name)) things",
        "map('a', id) by_name",
        "if(id = 5, null, element_at(array('plain', 'with space', 'a/b', '50%', 'ü=é'), int(id) + 1)) place",
    )
    for _ in range(2):
        place.save(frame, partitionBy="place")
    found = place.rows("offset", "place", "things", "tiny", "small", "by_name")
    assert [row["offset"] for row in found] == [n // 2 for n in range(12)]
    places = ["plain", "with space", "a/b", "50%", "ü=é", None]
    assert [row["place"] for row in found] == [places[n // 2] for n in range(12)]
    assert found[2]["things"] == [{"id": 1, "name": "1"}]
    assert [(row["tiny"], row["small"], dict(row["by_name"])) for row in found[2:4]] == [(1, 1, {"a": 1})] * 2


def test_an_event_time_that_is_none_is_refused(place: Place) -> None:
    rows = place.spark.createDataFrame([(1, "2026-11-16")], "offset long, at string")
    with pytest.raises(PySparkException, match=r"'eventTimeColumn' names 'at', which is string: cast it to timestamp"):
        place.save(rows, eventTimeColumn="at")


def test_overwriting_replaces_both_tables(place: Place) -> None:
    def rows(first: int) -> list[tuple[int, str, str | None]]:
        return [(number, f"v{number}", "bad" if number % 4 == 0 else None) for number in range(first, first + 8)]

    schema = "offset long, value string, _error string"
    place.save(place.spark.createDataFrame(rows(0), schema))
    later = place.spark.createDataFrame(rows(100), schema)
    if place.table_format == "parquet":
        with pytest.raises(PySparkException, match="cannot be overwritten in one step: delete it"):
            place.save(later, "overwrite")
        assert [row["offset"] for row in place.rows("offset")] == [1, 2, 3, 5, 6, 7]
        return
    place.save(later, "overwrite")
    assert [row["offset"] for row in place.rows("offset")] == [101, 102, 103, 105, 106, 107]
    assert [row["offset"] for row in place.rows("offset", dead=True)] == [100, 104]


MISTAKES = {
    "unknown option": ({"partitionedBy": "x"}, "no option 'partitionedby'; it has path, tableFormat"),
    "unknown format": ({"tableFormat": "hudi"}, "must be one of delta, iceberg, parquet"),
    "not a number": ({"targetFileBytes": "1 GB"}, "option 'targetFileBytes' is '1 GB': it must be a whole number"),
    "half a stamp": ({"appId": "nightly"}, "needs both options, appId and batchId"),
    "a partition that is no column": ({"partitionBy": "city"}, "names 'city': the rows have id"),
    "errors that are no column": ({"errorColumn": "eror"}, "option 'errorColumn' names 'eror': the rows have id"),
    "a key that is no column": ({"writeMode": "upsert", "keyColumns": "nr"}, "names 'nr': the rows have id"),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_mistakes_are_told_with_the_cure(any_place: Place, mistake: str) -> None:
    options, message = MISTAKES[mistake]
    writer = any_place.spark.range(3).write.format("runnel-lake").options(**options).mode("append")
    with pytest.raises(PySparkException, match=message):
        writer.save(any_place.path)


def test_a_place_is_needed_and_columns_keep_their_types(any_place: Place) -> None:
    with pytest.raises(PySparkException, match="say where the table is"):
        any_place.spark.range(3).write.format("runnel-lake").mode("append").save()
    any_place.save(any_place.spark.range(3))
    with pytest.raises(PySparkException, match=r"column 'id' of .* is int64, and the query writes string: cast it"):
        any_place.save(any_place.spark.range(3).selectExpr("string(id) id"))


@pytest.mark.slow
def test_streams_that_cannot_be_written_are_refused(any_place: Place, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(any_place.bootstrap, topic, numbered(3))
    counted = any_place.topic(topic).groupBy("key").count()
    writer = counted.writeStream.format("runnel-lake").option("checkpointLocation", str(any_place.checkpoint))
    query = writer.outputMode("complete").trigger(availableNow=True).start(any_place.path)
    with pytest.raises(StreamingQueryException, match="output mode complete cannot go into a lake table: use append"):
        query.awaitTermination(120)
