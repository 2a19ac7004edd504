"""Logs that change, through Spark's own connector and ours: compacted ones with gaps, partitions that are added."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clients.compacted import BASE_MS, SETTINGS, make_topic, put, roll, wait_for_cleaner
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection
from spark.records import numbered, produce
from spark.test_beside_official import OURS, THEIRS, Side, add_partition, agree, both, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("official")
TURNS, KEYS = 40, 9
QUERY_S = 120


@pytest.fixture
def compacted(start_broker: Callable[..., BrokerProcess]) -> tuple[str, int]:
    """The address of a broker whose topic `compacted` has lost most of its offsets, and the end of it."""
    broker = start_broker(SETTINGS)
    with RawConnection(broker.address) as raw:
        make_topic(raw, "compacted")
        for turn in range(TURNS):
            # The keys get fewer: what stays is spread over the log, with gaps of all sizes and one at its start.
            keys = range(KEYS * (TURNS - turn) // TURNS + 1)
            pairs = [(b"k%d" % key, None if key % 4 == 1 else b"v%d" % turn) for key in keys]
            put(raw, "compacted", pairs, BASE_MS + turn, compression=turn % 5)
        end = roll(raw, "compacted", BASE_MS)
        wait_for_cleaner(broker.data_dir, "compacted", end)
    return broker.address, end + 1


def test_a_compacted_topic(
    compacted: tuple[str, int], load: Callable[..., DataFrame], run_stream: Callable[..., Any]
) -> None:
    address, end = compacted
    options = {"kafka.bootstrap.servers": address, "subscribe": "compacted", "includeHeaders": "true"}
    rows = both(load, **options)
    assert KEYS <= len(rows) < end / 3, "the cleaner has left gaps"
    assert dict(rows[0])["offset"] > 0
    assert both(load, **options, minPartitions="7") == rows
    middle = '{"compacted":{"0":%d}}'
    inside = {"startingOffsets": middle % (end // 3), "endingOffsets": middle % (2 * end // 3)}
    kept = [row for row in rows if end // 3 <= dict(row)["offset"] < 2 * end // 3]
    assert both(load, **options, **inside) == kept
    sides = [Side(run_stream, connector) for connector in (OURS, THEIRS)]
    for side in sides:
        side.run(startingOffsets="earliest", maxOffsetsPerTrigger=str(end // 4), **options)
    assert agree(sides) == rows


def test_a_partition_added_to_a_running_query(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """One partition is empty until then, and stays it for a while."""
    topic = new_topic(partitions=2)
    produce(bootstrap, topic, numbered(20))
    seen: dict[str, list[Any]] = {OURS: [], THEIRS: []}
    queries = [start(spark, bootstrap, topic, tmp_path, connector, seen[connector]) for connector in seen]
    try:
        wait_for_rows(queries, seen, 20)
        add_partition(bootstrap, topic, 3)
        produce(bootstrap, topic, [*numbered(15, 2), *numbered(5, 0, 20)])
        wait_for_rows(queries, seen, 40)
        produce(bootstrap, topic, numbered(7, 1))
        wait_for_rows(queries, seen, 47)
    finally:
        for query in queries:
            query.stop()
    assert sorted(seen[OURS], key=str) == sorted(seen[THEIRS], key=str)


def start(spark: SparkSession, bootstrap: str, topic: str, folder: Path, connector: str, seen: list[Any]) -> Any:
    reader = spark.readStream.format(connector).option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = frame.writeStream.foreachBatch(lambda batch, _: seen.extend(rows_of(batch)))
    return writer.option("checkpointLocation", str(folder / connector)).start()


def wait_for_rows(queries: list[Any], seen: dict[str, list[Any]], count: int) -> None:
    def there() -> bool:
        failures = [query.exception() for query in queries if query.exception() is not None]
        assert not failures, failures
        return all(len(rows) >= count for rows in seen.values())

    wait_until(there, f"{count} rows of both", QUERY_S)
    assert {connector: len(rows) for connector, rows in seen.items()} == dict.fromkeys(seen, count)
