"""What the pipeline made: its tables, the topic of alerts and the lake, as an `Outcome`.

In: a Spark session that knows the pipeline's tables, a broker, the lake's folder. Out: an `Outcome`. The topics and the
lake are read without Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runnel.client.cluster import Cluster
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import bounds
from runnel.client.reader import Reader
from runnel.examples.shop.outcome import Funnel, Outcome, Payment, Revenue
from runnel.examples.shop.rules import ALERTS, INPUTS, PARTITIONS
from runnel.spark.lake.options import Destination
from runnel.spark.lake.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, DEAD_LETTERS, ORDER_PAYMENTS = "events", "events__dead_letter", "order_payments"


async def found_outcome(spark: SparkSession, bootstrap: str, lake: Path) -> Outcome:
    outcome = Outcome(revenue=read_revenue(spark), funnel=read_funnel(spark))
    async with Cluster(bootstrap) as cluster:
        outcome.topic_records = await _count_records(cluster)
        outcome.alerts = Counter([(alert["alert"], alert["subject"]) async for alert in _alerts(cluster)])
    outcome.sound_records = Counter(topic for (topic,) in _rows(lake / EVENTS, "topic"))
    dead = _rows(lake / DEAD_LETTERS, "topic", "_error")
    outcome.set_aside = Counter((topic, error.partition(":")[0]) for topic, error in dead)
    outcome.payments = Counter(_payments(lake / ORDER_PAYMENTS))
    return outcome


def read_revenue(spark: SparkSession) -> dict[int, Revenue]:
    columns = "unix_millis(window_start) at", *Revenue._fields
    return {row[0]: Revenue(*row[1:]) for row in _sorted_rows(spark, "revenue", columns)}


def read_funnel(spark: SparkSession) -> dict[int, Funnel]:
    columns = "unix_millis(window_start) at", *Funnel._fields
    return {row[0]: Funnel(*row[1:]) for row in _sorted_rows(spark, "funnel", columns)}


def _sorted_rows(spark: SparkSession, table: str, columns: Iterable[str]) -> list[tuple[Any, ...]]:
    rows = [tuple(row) for row in spark.table(table).selectExpr(*columns).collect()]
    if len({row[0] for row in rows}) < len(rows):
        raise ValueError(f"table {table} has a window twice: {sorted(rows)}")
    return sorted(rows)


async def read_alerts(bootstrap: str) -> list[dict[str, Any]]:
    """All alerts so far, oldest first."""
    async with Cluster(bootstrap) as cluster:
        return [alert async for alert in _alerts(cluster)]


async def _alerts(cluster: Cluster) -> Any:
    target = TopicPartition(ALERTS, 0)
    limits = (await bounds(cluster, [target]))[target]
    if limits.start == limits.end:
        return
    async with Reader(cluster, {target: limits.start}) as reader:
        async for chunk in reader.chunks():
            for record in chunk.records:
                yield json.loads(record.value or b"")
            if chunk.next_offset >= limits.end:
                reader.stop(target)


async def _count_records(cluster: Cluster) -> Counter[str]:
    targets = [TopicPartition(topic, partition) for topic in INPUTS for partition in range(PARTITIONS)]
    counts: Counter[str] = Counter()
    for target, limits in (await bounds(cluster, targets)).items():
        counts[target.topic] += limits.end - limits.start
    return counts


def _payments(table: Path) -> Iterator[Payment]:
    names = ("order_id", "payment_id", "amount_cents", "paid_cents", "status", "ordered_at", "paid_at")
    for row in _rows(table, *names):
        yield Payment(*row[:5], *map(_milliseconds, row[5:]))


def _rows(table: Path, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Of a lake table; none where it was not made yet."""
    if not table.exists():
        return
    for batch in open_table(Destination(str(table))).scan(columns):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
