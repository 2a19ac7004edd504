"""A topic streams into lake tables through Spark: nulls, headers, bad rows, new columns, and batches that come again.

One table per format takes two runs of a query, the second with a column more; every test looks at one side of it.
"""

from __future__ import annotations

import datetime
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

from harness.topics import create_topic
from runnel.spark import from_json
from runnel.spark.lake.options import TABLE_FORMATS
from spark.lake.place import Place
from spark.records import BASE_MS, Sent, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000
FIRST_RUN, SECOND_RUN = range(40), range(40, 60)
PER_TRIGGER = "25"
_numbers = itertools.count(1)


def record(number: int) -> Sent:
    """Every fifth is not JSON, every seventh is a tombstone, every third has no key; every other is a day older."""
    value: bytes | None = json.dumps({"id": number, "total": number / 4, "country": f"c{number % 3}"}).encode()
    if number % 7 == 0:
        value = None
    elif number % 5 == 0:
        value = b"{broken %d" % number
    return Sent(
        value,
        None if number % 3 == 0 else b"k%d" % number,
        number % 2,
        BASE_MS + number - DAY_MS * (number % 2),
        (("trace", b"%d" % number), ("empty", None)) if number % 4 == 0 else (),
    )


def is_bad(number: int) -> bool:
    return number % 5 == 0 and number % 7 != 0


@dataclass(frozen=True)
class Shop(Place):
    """The topic `name`, cleaned, in one format."""

    name: str

    def cleaned(self, schema: str) -> DataFrame:
        source = self.topic(self.name, includeHeaders="true", maxOffsetsPerTrigger=PER_TRIGGER)
        decoded = source.withColumn("decoded", from_json("value", schema))
        columns = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
        return decoded.select(*columns, "decoded.data.*", functions.col("decoded.error").alias("_error"))

    def run(self, schema: str) -> Any:
        return self.stream(self.cleaned(schema))


@pytest.fixture(scope="module", params=TABLE_FORMATS)
def shop(
    request: pytest.FixtureRequest, spark: SparkSession, bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Shop:
    name = f"shop-{request.param}-{BASE_MS}-{next(_numbers)}"
    made = Shop(tmp_path_factory.mktemp(str(request.param)), str(request.param), spark, bootstrap, name)
    create_topic(bootstrap, made.name, 2)
    produce(bootstrap, made.name, map(record, FIRST_RUN))
    made.run("id long, total double")
    produce(bootstrap, made.name, map(record, SECOND_RUN))
    made.run("id long, total double, country string")
    return made


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(2 * row["offset"] + row["partition"] for row in rows)


def test_every_record_is_in_one_of_the_two_tables_as_it_was_sent(shop: Shop) -> None:
    columns = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
    rows = shop.rows(*columns) + shop.rows(*columns, dead=True)
    assert numbers(rows) == [*FIRST_RUN, *SECOND_RUN]
    for row in rows:
        sent = record(2 * row["offset"] + row["partition"])
        assert (row["key"], row["value"], row["topic"]) == (sent.key, sent.value, shop.name)
        assert row["timestamp"].timestamp() * 1000 == pytest.approx(sent.timestamp_ms)
        assert [(header["key"], header["value"]) for header in row["headers"] or ()] == list(sent.headers)


def test_bad_rows_lie_in_the_dead_letter_table_with_what_is_wrong(shop: Shop) -> None:
    dead = shop.rows("partition", "offset", "_error", "id", dead=True)
    assert numbers(dead) == [number for number in (*FIRST_RUN, *SECOND_RUN) if is_bad(number)]
    assert {row["id"] for row in dead} == {None}
    assert all("not JSON of the schema" in row["_error"] for row in dead)


def test_values_are_columns_and_a_new_column_is_null_in_older_rows(shop: Shop) -> None:
    for row in shop.rows("partition", "offset", "value", "id", "total", "country"):
        number = 2 * row["offset"] + row["partition"]
        wanted = (None, None, None) if row["value"] is None else (number, number / 4, f"c{number % 3}")
        is_old = number in FIRST_RUN
        assert (row["id"], row["total"], row["country"]) == (*wanted[:2], None if is_old else wanted[2])


def test_rows_lie_by_the_date_of_their_timestamp(shop: Shop) -> None:
    rows = shop.rows("timestamp", "event_date")
    assert {row["event_date"] for row in rows} == {row["timestamp"].date() for row in rows}
    assert all(row["event_date"] == row["timestamp"].astimezone(datetime.UTC).date() for row in rows)
    folders = {path.parent.name for path in Path(shop.path).rglob("event_date=*/part-*.parquet")}
    assert folders == {f"event_date={row['event_date']}" for row in rows}


@pytest.mark.parametrize("shop", ["parquet"], indirect=True)
def test_spark_reads_what_was_written(shop: Shop) -> None:
    """Plain Parquet with Spark's own reader; the others have none without their jars."""
    frame = shop.spark.read.parquet(shop.path)
    good = [number for number in (*FIRST_RUN, *SECOND_RUN) if not is_bad(number)]
    assert sorted(2 * row.offset + row.partition for row in frame.select("partition", "offset").collect()) == good


def test_a_batch_that_spark_repeats_changes_nothing(shop: Shop) -> None:
    """A driver that died between the table's commit and Spark's own left exactly this behind."""
    before = shop.rows("partition", "offset", "value"), shop.rows("partition", "offset", "value", dead=True)
    last = shop.forget_last_commit()
    query = shop.run("id long, total double, country string")
    ran = [progress for progress in query.recentProgress if progress.batchId == last]
    assert sum(progress.numInputRows for progress in ran) > 0, "Spark has not run the batch again"
    assert (shop.checkpoint / "commits" / str(last)).exists()
    assert (shop.rows("partition", "offset", "value"), shop.rows("partition", "offset", "value", dead=True)) == before


def test_the_table_and_its_dead_letters_equal_the_topic(shop: Shop) -> None:
    dead = ("--dead-letters", shop.options.dead_letters.path)
    whole = json.dumps({shop.name: {"0": 30, "1": 30}})
    good = shop.verify(shop.name, *dead, "--offsets", whole)
    assert (good.returncode, "equal: offsets and contents compared" in good.stdout) == (0, True), good
    alone = shop.verify(shop.name, "--offsets", whole)
    assert (alone.returncode, "missing offsets" in alone.stdout) == (1, True), alone
