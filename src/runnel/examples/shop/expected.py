"""What the pipeline must find, computed in plain Python from the records that were sent.

In: records. Out: an `Outcome`. Written without a look at the transforms, and without Spark: the two agree only if both
are right, or both wrong in the same way.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from runnel.examples.shop.outcome import Funnel, Outcome, Payment, Revenue
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
    MINUTE_MS,
    ORDERS,
    PAGES,
    PAYMENT_WITHIN_MINUTES,
    PAYMENTS,
    PAYMENTS_FAILING,
    WATERMARK_MINUTES,
    WINDOW_MINUTES,
    ShopRecord,
)

Event = dict[str, Any]
TEXTS = {
    ORDERS: ("order_id", "session_id"),
    PAYMENTS: ("payment_id", "order_id", "status"),
    CLICKS: ("session_id", "page"),
}
TIMES = {ORDERS: "ordered_at", PAYMENTS: "paid_at", CLICKS: "clicked_at"}


def expected_outcome(records: Iterable[ShopRecord]) -> Outcome:
    outcome = Outcome()
    events: dict[str, list[Event]] = {ORDERS: [], PAYMENTS: [], CLICKS: []}
    for record in records:
        outcome.topic_records[record.topic] += 1
        event = _read(record.topic, record.value)
        reason = MALFORMED if event is None else _untimely(event["ms"], record.arrival_ms)
        if event is None or reason is not None:
            outcome.set_aside[record.topic, str(reason)] += 1
        else:
            outcome.sound_records[record.topic] += 1
            events[record.topic].append(event)
    outcome.payments.update(_join(events[ORDERS], events[PAYMENTS]))
    outcome.revenue = _revenue(outcome.payments)
    outcome.funnel = _funnel(events[CLICKS], events[ORDERS], outcome.payments)
    _alert(outcome)
    return outcome


def _read(topic: str, value: bytes) -> Event | None:
    """The event with its time as `ms`, or None where anything about it is wrong."""
    try:
        event: Event = json.loads(value)
        event["ms"] = round(datetime.fromisoformat(event[TIMES[topic]]).astimezone(UTC).timestamp() * 1000)
    except (ValueError, KeyError, TypeError):
        return None
    sound = all(isinstance(event.get(name), str) for name in TEXTS[topic])
    if topic == CLICKS:
        return event if sound and event["page"] in PAGES else None
    amount = event.get("amount_cents")
    sound = sound and isinstance(amount, int) and amount > 0
    return event if sound and event.get("status", FAILED) in (CAPTURED, FAILED) else None


def _untimely(happened_ms: int, arrived_ms: int) -> str | None:
    if arrived_ms - happened_ms > LATE_AFTER_MINUTES * MINUTE_MS:
        return LATE
    return AHEAD if happened_ms - arrived_ms > AHEAD_MINUTES * MINUTE_MS else None


def _join(orders: list[Event], payments: list[Event]) -> list[Payment]:
    by_id = {order["order_id"]: order for order in orders}
    joined = []
    for payment in payments:
        order = by_id.get(payment["order_id"])
        if order is not None and 0 <= payment["ms"] - order["ms"] <= PAYMENT_WITHIN_MINUTES * MINUTE_MS:
            amounts = order["amount_cents"], payment["amount_cents"]
            times = order["ms"], payment["ms"]
            joined.append(Payment(order["order_id"], payment["payment_id"], *amounts, payment["status"], *times))
    return joined


def _window(at_ms: int) -> int:
    return at_ms - at_ms % (WINDOW_MINUTES * MINUTE_MS)


def _revenue(payments: Iterable[Payment]) -> dict[int, Revenue]:
    """Of the windows that the watermark has passed: it is a fixed time behind the latest payment."""
    windows: defaultdict[int, list[Payment]] = defaultdict(list)
    for payment in payments:
        windows[_window(payment.paid_ms)].append(payment)
    watermark_ms = max((payment.paid_ms for payment in payments), default=0) - WATERMARK_MINUTES * MINUTE_MS
    closed = {at: rows for at, rows in windows.items() if at + WINDOW_MINUTES * MINUTE_MS <= watermark_ms}
    return {at: _counted(rows) for at, rows in closed.items()}


def _counted(payments: list[Payment]) -> Revenue:
    captured = [payment.paid_cents for payment in payments if payment.status == CAPTURED]
    return Revenue(len(captured), len(payments) - len(captured), sum(captured))


def _funnel(clicks: list[Event], orders: list[Event], payments: Iterable[Payment]) -> dict[int, Funnel]:
    steps: defaultdict[int, tuple[set[str], ...]] = defaultdict(lambda: (set(), set(), set(), set()))
    for click in clicks:
        steps[_window(click["ms"])][0].add(click["session_id"])
        if click["page"] == "cart":
            steps[_window(click["ms"])][1].add(click["session_id"])
    for order in orders:
        steps[_window(order["ms"])][2].add(order["order_id"])
    for payment in payments:
        if payment.status == CAPTURED:
            steps[_window(payment.paid_ms)][3].add(payment.order_id)
    return {at: Funnel(*map(len, sets)) for at, sets in steps.items()}


def _alert(outcome: Outcome) -> None:
    for payment in outcome.payments:
        if payment.status == CAPTURED and payment.paid_cents != payment.amount_cents:
            outcome.alerts[AMOUNT_MISMATCH, payment.payment_id] += 1
    for at_ms, window in outcome.revenue.items():
        attempts = window.captured + window.failed
        if attempts >= ATTEMPTS_MIN and window.failed / attempts > FAILED_PERCENT_MAX / 100:
            start = datetime.fromtimestamp(at_ms / 1000, UTC)
            outcome.alerts[PAYMENTS_FAILING, start.strftime("%Y-%m-%dT%H:%M")] += 1
