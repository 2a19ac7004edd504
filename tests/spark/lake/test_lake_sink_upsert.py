"""A compacted topic as a table of its entities, through Spark: the newest value of each key, tombstones delete."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from spark.lake.place import Place
from spark.records import BASE_MS, Sent, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = 20261116
PARTITIONS = 3


def changes(chance: random.Random, first: int, count: int) -> list[Sent]:
    """Values and tombstones of a hundred keys, each key in its own partition."""
    keys = [chance.randrange(100) for _ in range(count)]
    return [
        Sent(None if chance.random() < 0.2 else b"v%d" % (first + at), b"k%d" % key, key % PARTITIONS, BASE_MS + at)
        for at, key in enumerate(keys)
    ]


def newest(records: list[Sent]) -> dict[bytes | None, bytes | None]:
    state = {record.key: record.value for record in records}
    return {key: value for key, value in state.items() if value is not None}


def entities(place: Place, topic: str) -> DataFrame:
    return place.topic(topic).select("key", "value", "partition", "offset", "timestamp")


@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_a_compacted_topic_becomes_its_newest_values(
    spark: SparkSession, bootstrap: str, tmp_path: Path, new_topic: Callable[..., str], table_format: str
) -> None:
    place, chance = Place(tmp_path, table_format, spark, bootstrap), random.Random(SEED)
    topic = new_topic(partitions=PARTITIONS, cleanup_policy="compact")
    records: list[Sent] = []
    for first in (0, 300):
        more = changes(chance, first, 300)
        produce(bootstrap, topic, more)
        records += more
        place.stream(entities(place, topic), writeMode="upsert")
        rows = place.rows("key", "value")
        assert len(rows) == len({row["key"] for row in rows})
        assert {row["key"]: row["value"] for row in rows} == newest(records)
    repeat_last_batch(place, topic)
    assert {row["key"]: row["value"] for row in place.rows("key", "value")} == newest(records)


def repeat_last_batch(place: Place, topic: str) -> None:
    last = place.forget_last_commit()
    query = place.stream(entities(place, topic), writeMode="upsert")
    assert [progress.batchId for progress in query.recentProgress if progress.numInputRows] == [last]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_rows_without_a_key_are_one_entity(spark: SparkSession, tmp_path: Path, table_format: str) -> None:
    place = Place(tmp_path, table_format, spark, "")
    for value, offset in ((b"old", 1), (b"new", 2)):
        place.save(
            spark.createDataFrame([(None, value, offset)], "key binary, value binary, offset long"), writeMode="upsert"
        )
    assert place.rows("key", "value") == [{"key": None, "value": b"new"}]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_query_without_the_tables_value_deletes_nothing(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    place = Place(tmp_path, table_format, spark, "")
    place.save(spark.createDataFrame([("a", b"v", 1)], "key string, value binary, offset long"), writeMode="upsert")
    named = spark.createDataFrame([("a", "Ada", 2), ("b", "Bob", 3)], "key string, name string, offset long")
    place.save(named, writeMode="upsert")
    assert sorted(place.rows("key", "name"), key=str) == [{"key": "a", "name": "Ada"}, {"key": "b", "name": "Bob"}]


@pytest.mark.parametrize("option", ["keyColumns", "orderColumn", "valueColumn"])
def test_a_column_that_is_not_there_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, option: str
) -> None:
    place = Place(tmp_path, "delta", spark, "")
    rows = spark.createDataFrame([(b"k", b"v", 1)], "key binary, value binary, offset long")
    with pytest.raises(PySparkException, match=f"option '{option}' names 'ofset': the rows have key, value, offset"):
        place.save(rows, writeMode="upsert", **{option: "ofset"})
    assert not any(tmp_path.rglob("*.parquet"))


def test_a_parquet_folder_refuses_upserts_by_name(
    spark: SparkSession, bootstrap: str, tmp_path: Path, new_topic: Callable[..., str]
) -> None:
    place, topic = Place(tmp_path, "parquet", spark, bootstrap), new_topic()
    produce(bootstrap, topic, [Sent(b"v", b"k")])
    query = place.start(entities(place, topic), writeMode="upsert")
    with pytest.raises(StreamingQueryException, match="has no upsert: set tableFormat to delta or iceberg"):
        query.awaitTermination(120)
