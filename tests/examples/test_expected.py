"""The plain computation, on records whose results anybody can work out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runnel.examples.shop.expected import expected_outcome
from runnel.examples.shop.outcome import Funnel, Revenue
from runnel.examples.shop.rules import AHEAD, CLICKS, LATE, MALFORMED, OPENING_MS, ORDERS, PAYMENTS, ShopRecord

MINUTE = 60_000


def order(name: str, minute: float, *, after: float = 0, **changes: Any) -> ShopRecord:
    event = {"order_id": name, "session_id": f"s-{name}", "customer": "c", "amount_cents": 1000}
    return _record(ORDERS, name, {**event, "ordered_at": _iso(minute), **changes}, minute + after)


def payment(name: str, minute: float, *, after: float = 0, **changes: Any) -> ShopRecord:
    event = {"payment_id": f"p-{name}", "order_id": name, "amount_cents": 1000, "status": "captured"}
    return _record(PAYMENTS, name, {**event, "paid_at": _iso(minute), **changes}, minute + after)


def click(session: str, page: str, minute: float) -> ShopRecord:
    return _record(CLICKS, session, {"session_id": session, "page": page, "clicked_at": _iso(minute)}, minute)


def _record(topic: str, key: str, event: dict[str, Any], arrival: float) -> ShopRecord:
    return ShopRecord(topic, key.encode(), json.dumps(event).encode(), OPENING_MS + round(arrival * MINUTE))


def _iso(minute: float) -> str:
    seconds = round(minute * 60)
    return f"2026-03-02T{8 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000Z"


def test_payments_belong_to_orders_for_fifteen_minutes() -> None:
    found = expected_outcome(
        [order("a", 0), payment("a", 15), order("b", 0), payment("b", 15.1), payment("unknown", 3), order("unpaid", 1)]
    )
    assert [row.order_id for row in found.payments] == ["a"]


def test_a_window_is_closed_when_the_watermark_passes_its_end() -> None:
    records = [order("a", 1), payment("a", 2), order("b", 12), payment("b", 13, status="failed", payment_id="b1")]
    assert expected_outcome(records).revenue == {}
    assert expected_outcome([*records, order("c", 19), payment("c", 20)]).revenue == {OPENING_MS: Revenue(1, 0, 1000)}


def test_the_funnel_counts_each_once_per_window() -> None:
    clicks = [click("s1", "home", 1), click("s1", "cart", 2), click("s2", "home", 3), click("s1", "cart", 4)]
    found = expected_outcome([*clicks, order("a", 5), payment("a", 6)])
    assert found.funnel == {OPENING_MS: Funnel(visitors=2, carts=1, orders=1, paid=1)}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (order("a", 10, after=5), None),
        (order("a", 10, after=5.1), LATE),
        (order("a", 10, after=-1), None),
        (order("a", 10, after=-1.1), AHEAD),
        (order("a", 10, amount_cents=0), MALFORMED),
        (order("a", 10, amount_cents="12,50"), MALFORMED),
        (order("a", 10, session_id=None), MALFORMED),
        (order("a", 10, ordered_at="a moment ago"), MALFORMED),
        (payment("a", 10, status="perhaps"), MALFORMED),
        (click("s", "404", 10), MALFORMED),
        (ShopRecord(CLICKS, b"", b'{"session_id":', OPENING_MS), MALFORMED),
    ],
)
def test_what_is_set_aside(record: ShopRecord, reason: str | None) -> None:
    found = expected_outcome([record])
    assert dict(found.set_aside) == ({} if reason is None else {(record.topic, reason): 1})
    assert found.sound_records.total() == (reason is None)


def test_alerts() -> None:
    wrong = [order("a", 1), payment("a", 2, amount_cents=1)]
    failing = [record for name in "bcde" for record in (order(name, 11), payment(name, 12, status="failed"))]
    later = [order("z", 40), payment("z", 41)]
    found = expected_outcome([*wrong, *failing, *later])
    assert set(found.alerts) == {("amount-mismatch", "p-a"), ("payments-failing", "2026-03-02T08:10")}
