"""What the shop's parts agree on: names of topics, and the figures of its rules. No logic: the pipeline and the plain
computation that checks it share nothing but this page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

ORDERS, PAYMENTS, CLICKS = "shop.orders", "shop.payments", "shop.clicks"
INPUTS = (ORDERS, PAYMENTS, CLICKS)
ALERTS = "shop.alerts"
PARTITIONS = 3

OPENING = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""When minute 0 of the simulated shop begins. Fixed: the same seed gives the same figures on any day."""
OPENING_MS = int(OPENING.timestamp() * 1000)
MINUTE_MS = 60_000

WINDOW_MINUTES = 10
LATE_AFTER_MINUTES = 5
"""An event that takes longer than this from the customer to the topic is set aside: its window may be closed."""
AHEAD_MINUTES = 1
"""A clock that is ahead by more would close windows that are still filling."""
WATERMARK_MINUTES = 10
"""More than the lateness that is allowed, and a few minutes for what arrives in another order than it was sent: what
the lateness rule lets through is never dropped, so that the result does not depend on how Spark cuts its batches."""
PAYMENT_WITHIN_MINUTES = 15
"""A payment belongs to its order if it is made within this time; later ones are not joined."""
FAILED_PERCENT_MAX = 25
ATTEMPTS_MIN = 4
"""Of payments in a window, before a share of failed ones means anything."""

MALFORMED, LATE, AHEAD = "malformed", "late", "ahead"
"""Why a row was set aside: the first word of its error."""
AMOUNT_MISMATCH, PAYMENTS_FAILING = "amount-mismatch", "payments-failing"
CAPTURED, FAILED = "captured", "failed"
PAGES = ("home", "product", "cart", "checkout")


class ShopRecord(NamedTuple):
    """A record as it is sent. Its timestamp is when it reaches the topic; when it happened stands in the value."""

    topic: str
    key: bytes
    value: bytes
    arrival_ms: int
