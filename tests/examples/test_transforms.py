"""The transforms as functions of batches, beside the plain computation."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from examples.test_expected import click, order, payment
from runnel.client.partitioner import partition_for_key
from runnel.examples.shop.expected import expected_outcome
from runnel.examples.shop.folder import Ledger
from runnel.examples.shop.outcome import Outcome, Payment, Revenue
from runnel.examples.shop.rules import CLICKS, OPENING_MS, PARTITIONS, ShopRecord
from runnel.examples.shop.sending import sent_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "topic string, partition int, offset bigint, key binary, value binary, timestamp timestamp"
EDGES = [
    order("edge-a", 0),
    payment("edge-a", 15),
    order("edge-b", 0),
    payment("edge-b", 15.1),
    order("edge-c", 10, after=5),
    order("edge-d", 10, after=5.1),
    order("edge-e", 10, after=-1),
    order("edge-f", 10, after=-1.1),
    order("edge-g", 10, customer=None),
    payment("edge-h", 10, status=None),
    click("edge-i", "404", 3),
    ShopRecord(CLICKS, b"edge-j", b"", OPENING_MS),
    ShopRecord(CLICKS, b"edge-k", b"[]", OPENING_MS),
]


@pytest.fixture(scope="module")
def sent() -> list[ShopRecord]:
    return [*sent_records(Ledger(11, 20, 100)), *EDGES]


@pytest.fixture(scope="module")
def expected(sent: list[ShopRecord]) -> Outcome:
    return expected_outcome(sent)


@pytest.fixture(scope="module")
def records(spark: SparkSession, sent: list[ShopRecord]) -> DataFrame:
    rows = [
        (
            record.topic,
            partition_for_key(record.key, PARTITIONS),
            offset,
            bytearray(record.key),
            bytearray(record.value),
            datetime.fromtimestamp(record.arrival_ms / 1000, UTC),
        )
        for offset, record in enumerate(sent)
    ]
    return spark.createDataFrame(rows, ROW).cache()


@pytest.fixture(scope="module")
def joined(records: DataFrame) -> DataFrame:
    from runnel.examples.shop.transforms import ORDER, PAYMENT, clean, join_payments

    return join_payments(clean(records, ORDER), clean(records, PAYMENT)).cache()


def test_each_record_is_archived_with_its_error(records: DataFrame, expected: Outcome) -> None:
    from runnel.examples.shop.transforms import archive

    rows = archive(records).select("topic", "_error").collect()
    sound = Counter(topic for topic, error in rows if error is None)
    aside = Counter((topic, error.partition(":")[0]) for topic, error in rows if error is not None)
    assert (sound, aside) == (expected.sound_records, expected.set_aside)


def test_orders_are_joined_with_their_payments(joined: DataFrame, expected: Outcome) -> None:
    times = "unix_millis(ordered_at)", "unix_millis(paid_at)"
    rows = joined.selectExpr("order_id", "payment_id", "amount_cents", "paid_cents", "status", *times).collect()
    assert Counter(Payment(*row) for row in rows) == expected.payments


def test_revenue_of_closed_windows(joined: DataFrame, expected: Outcome) -> None:
    from runnel.examples.shop.transforms import count_revenue

    columns = "unix_millis(window_start)", "unix_millis(window_end)", *Revenue._fields
    rows = count_revenue(joined).selectExpr(*columns).collect()
    assert all(end - start == 600_000 for start, end, *_ in rows)
    assert len(expected.revenue) >= 8
    # A batch has no watermark: it shows the windows that a stream still keeps open, too.
    assert {start: Revenue(*rest) for start, _, *rest in rows if start in expected.revenue} == expected.revenue


def test_alerts_are_records(joined: DataFrame, expected: Outcome) -> None:
    from pyspark.sql import functions as f

    from runnel.examples.shop.transforms import alert_failures, alert_mismatches, count_revenue

    closed = [datetime.fromtimestamp(at / 1000, UTC) for at in expected.revenue]
    windows = count_revenue(joined).filter(f.col("window_start").isin(closed))
    alerts: list[Any] = [*alert_mismatches(joined).collect(), *alert_failures(windows).collect()]
    values = [json.loads(value) for _, value in alerts]
    assert [value["subject"] for value in values] == [key for key, _ in alerts]
    assert Counter((value["alert"], value["subject"]) for value in values) == expected.alerts
    assert len({kind for kind, _ in expected.alerts}) == 2
