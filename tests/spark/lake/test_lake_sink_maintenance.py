"""Tables are compacted, expired and read while a stream writes them: it never fails, and no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from harness.conditions import wait_until
from runnel.cli.main import cli
from runnel.spark.lake.options import TABLE_FORMATS
from spark.lake.place import Place
from spark.records import BASE_MS, Sent, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
ROUND_RECORDS = 30
LONG_AGO_MS = BASE_MS - 30 * 86_400_000
EXPIRED_DAYS = "10"


def records(first: int) -> list[Sent]:
    """Every third is a month old."""
    numbers = range(first, first + ROUND_RECORDS)
    return [
        Sent(b"v%d" % n, b"k%d" % n, 0, (LONG_AGO_MS if n % 3 == 0 else BASE_MS) + n, (("n", b"%d" % n),))
        for n in numbers
    ]


def maintain(place: Place) -> None:
    """What a nightly job does, with the CLI's own words; a folder of Parquet has no compaction."""
    verbs = [["expire", "--days", EXPIRED_DAYS, "--unused-hours", "1"], ["info"]]
    if place.table_format != "parquet":
        verbs.insert(0, ["compact"])
    for verb, *arguments in verbs:
        done = CliRunner().invoke(cli, ["lake", verb, place.path, "--format", place.table_format, *arguments])
        assert done.exit_code == 0, (verb, done.output, done.exception)


def still_runs(query: Any) -> bool:
    if query.exception() is not None:
        raise AssertionError(f"the query failed: {query.exception()}")
    return bool(query.isActive)


@pytest.mark.parametrize(
    ("table_format", "mode"),
    [
        *((table_format, "append") for table_format in TABLE_FORMATS),
        *(pytest.param(table_format, "upsert", marks=pytest.mark.slow) for table_format in ("delta", "iceberg")),
    ],
)
def test_maintenance_beside_a_writer(
    spark: SparkSession, bootstrap: str, tmp_path: Path, new_topic: Callable[..., str], table_format: str, mode: str
) -> None:
    place, topic = Place(tmp_path, table_format, spark, bootstrap), new_topic(retention_ms=-1)
    frame = place.topic(topic, maxOffsetsPerTrigger="10").select("key", "value", "partition", "offset", "timestamp")
    options = {"writeMode": mode, "partitionBy": "event_date"}
    query = place.start(frame, available_now=False, **options)
    try:
        for number in range(ROUNDS):
            produce(bootstrap, topic, records(number * ROUND_RECORDS))
            reached = number * ROUND_RECORDS
            wait_until(lambda: still_runs(query) and end_of(query) > reached, f"offset {reached}", 120)  # noqa: B023
            maintain(place)
        whole = ROUNDS * ROUND_RECORDS
        wait_until(lambda: still_runs(query) and end_of(query) == whole, "the end of the topic", 120)
    finally:
        query.stop()
    maintain(place)
    recent = [number for number in range(whole) if number % 3]
    assert [row["offset"] for row in place.rows("offset")] == recent
    if table_format != "parquet":
        assert len(place.rows("offset")) > 0
        info = CliRunner().invoke(cli, ["lake", "info", place.path, "--format", table_format])
        assert info.output.startswith("1 file"), "compaction has left them small"


def end_of(query: Any) -> int:
    """How far the query has come, by what it told about its last batch."""
    progress = query.lastProgress
    if progress is None or not progress.sources[0].endOffset:
        return -1
    import json

    ends = next(iter(json.loads(progress.sources[0].endOffset).values()))
    return int(ends["0"])
