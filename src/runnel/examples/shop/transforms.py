"""The shop's streams as pure functions, DataFrame to DataFrame; each ends in a `select`, which is its schema.

Nothing is read or written here: `project/transformations` does that. The functions take batches as well as streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f

from runnel.examples.shop.rules import (
    AHEAD,
    AHEAD_MINUTES,
    AMOUNT_MISMATCH,
    ATTEMPTS_MIN,
    CAPTURED,
    CLICKS,
    FAILED,
    FAILED_PERCENT_MAX,
    LATE,
    LATE_AFTER_MINUTES,
    MALFORMED,
    ORDERS,
    PAGES,
    PAYMENT_WITHIN_MINUTES,
    PAYMENTS,
    PAYMENTS_FAILING,
    WINDOW_MINUTES,
)
from runnel.spark import from_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW = f"{WINDOW_MINUTES} minutes"


class Kind(NamedTuple):
    """A kind of event: where it comes from, its columns, and what must hold for them."""

    topic: str
    schema: str
    time_column: str
    must_hold: tuple[str, ...]


ORDER = Kind(
    ORDERS,
    "order_id string, session_id string, customer string, amount_cents long, ordered_at timestamp",
    "ordered_at",
    ("order_id is not null", "session_id is not null", "amount_cents > 0"),
)
PAYMENT = Kind(
    PAYMENTS,
    "payment_id string, order_id string, amount_cents long, status string, paid_at timestamp",
    "paid_at",
    ("payment_id is not null", "order_id is not null", "amount_cents > 0", f"status in ('{CAPTURED}', '{FAILED}')"),
)
CLICK = Kind(
    CLICKS,
    "session_id string, page string, clicked_at timestamp",
    "clicked_at",
    ("session_id is not null", f"page in {PAGES}"),
)
KINDS = (ORDER, PAYMENT, CLICK)


# Cleaning ----------------------------------------------------------------------------------------------------------


def clean(records: DataFrame, kind: Kind) -> DataFrame:
    """The events of one kind that are sound and in time."""
    of_kind = records.filter(f.col("topic") == kind.topic)
    decoded = of_kind.select("timestamp", from_json("value", kind.schema).alias("decoded"))
    return decoded.filter(problem(kind).isNull()).select("decoded.data.*")


def archive(records: DataFrame) -> DataFrame:
    """Every record of every topic as it came, with `_error` where it was set aside."""
    columns = ("topic", "partition", "offset", "key", "value", "timestamp")
    decoded = [from_json("value", kind.schema).alias(kind.topic) for kind in KINDS]
    errors = [f.when(f.col("topic") == kind.topic, problem(kind, f"`{kind.topic}`")) for kind in KINDS]
    return records.select(*columns, *decoded).select(*columns, f.coalesce(*errors).alias("_error"))


def problem(kind: Kind, decoded: str = "decoded") -> Column:
    """What is wrong with a decoded event, or null. Needs the column `timestamp`: when the record reached its topic."""
    happened, arrived = f.col(f"{decoded}.data.{kind.time_column}"), f.col("timestamp")
    late_after, ahead = f.expr(f"interval {LATE_AFTER_MINUTES} minutes"), f.expr(f"interval {AHEAD_MINUTES} minutes")
    broken = [
        f.when(f.col(f"{decoded}.error").isNotNull(), f.concat(f.lit(f"{MALFORMED}: "), f"{decoded}.error")),
        *(f.when(~_holds(rule, decoded), f.lit(f"{MALFORMED}: not {rule}")) for rule in kind.must_hold),
        f.when(happened.isNull(), f.lit(f"{MALFORMED}: no {kind.time_column}")),
    ]
    return f.coalesce(
        *broken,
        f.when(happened < arrived - late_after, _told(LATE, "it happened at", happened)),
        f.when(happened > arrived + ahead, _told(AHEAD, "its clock says", happened)),
    )


def _holds(rule: str, decoded: str) -> Column:
    """A rule about a column that is null does not hold. Each rule begins with the column that it is about."""
    column, _, rest = rule.partition(" ")
    return f.coalesce(f.expr(f"{decoded}.data.{column} {rest}"), f.lit(False))


def _told(reason: str, words: str, moment: Column) -> Column:
    return f.concat(f.lit(f"{reason}: {words} "), moment.cast("string"))


# Joining and counting ----------------------------------------------------------------------------------------------


def join_payments(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Each attempt to pay an order, if it was made in time. Streams need watermarks on `ordered_at` and `paid_at`."""
    in_time = f"p.paid_at between o.ordered_at and o.ordered_at + interval {PAYMENT_WITHIN_MINUTES} minutes"
    joined = orders.alias("o").join(payments.alias("p"), f.expr(f"o.order_id = p.order_id and {in_time}"))
    return joined.select(
        "o.order_id",
        "p.payment_id",
        "o.session_id",
        "o.customer",
        "o.amount_cents",
        f.col("p.amount_cents").alias("paid_cents"),
        "p.status",
        "o.ordered_at",
        "p.paid_at",
    )


def count_revenue(order_payments: DataFrame) -> DataFrame:
    """Per window of payment time. A stream needs a watermark on `paid_at`: each window comes out once, closed."""
    captured = f.col("status") == CAPTURED
    counted = order_payments.groupBy(f.window("paid_at", WINDOW)).agg(
        f.count_if(captured).alias("captured"),
        f.count_if(~captured).alias("failed"),
        f.sum(f.when(captured, f.col("paid_cents")).otherwise(0)).alias("revenue_cents"),
    )
    return counted.select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        "captured",
        "failed",
        "revenue_cents",
    )


# Alerts ------------------------------------------------------------------------------------------------------------


def alert_mismatches(order_payments: DataFrame) -> DataFrame:
    """A customer paid another amount than the order says."""
    wrong = order_payments.filter((f.col("status") == CAPTURED) & (f.col("paid_cents") != f.col("amount_cents")))
    return _alerts(
        wrong, AMOUNT_MISMATCH, "payment_id", "order_id", "customer", "amount_cents", "paid_cents", "paid_at"
    )


def alert_failures(revenue: DataFrame) -> DataFrame:
    """Too many payments of a window failed."""
    attempts = f.col("captured") + f.col("failed")
    many = (attempts >= ATTEMPTS_MIN) & (f.col("failed") * 100 > attempts * FAILED_PERCENT_MAX)
    window = f.date_format("window_start", "yyyy-MM-dd'T'HH:mm").alias("window")
    named = revenue.filter(many).select(window, "captured", "failed", "revenue_cents")
    return _alerts(named, PAYMENTS_FAILING, "window", "captured", "failed", "revenue_cents")


def _alerts(rows: DataFrame, kind: str, subject: str, *details: str) -> DataFrame:
    """As records: the subject is the key, and all of it is the value, as JSON."""
    fields = f.struct(f.lit(kind).alias("alert"), f.col(subject).alias("subject"), *details)
    return rows.select(f.col(subject).alias("key"), f.to_json(fields).alias("value"))
