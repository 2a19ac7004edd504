"""What customers do, made up from a seed: clicks, orders, payments, and what goes wrong with some of them.

In: a seed and a rate. Out: the records of one simulated minute after the other, in the order of their arrival. Every
minute is a function of the seed and its number alone, so a stream can be taken up again at any minute.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from runnel.examples.shop.rules import (
    CAPTURED,
    CLICKS,
    FAILED,
    LATE_AFTER_MINUTES,
    MINUTE_MS,
    OPENING_MS,
    ORDERS,
    PAGES,
    PAYMENT_WITHIN_MINUTES,
    PAYMENTS,
    ShopRecord,
)

RECORDS_PER_SESSION = 3.5
"""About how many; measured, and only used to turn a wished number of events into a rate."""
REACH_MINUTES = 60
"""No journey sends anything later than this after it began."""
TIDE_MINUTES = 150
CART_SHARE, CHECKOUT_SHARE, ORDER_SHARE = 0.55, 0.75, 0.85
OUTAGE_EVERY_MINUTES, OUTAGE_FROM, OUTAGE_UNTIL = 120, 50, 66
"""The payment provider fails: minutes 50 to 66 of every two hours."""
FAILED_SHARE, FAILED_SHARE_IN_OUTAGE, RETRY_SHARE = 0.05, 0.65, 0.5
UNPAID_SHARE, SLOW_PAYMENT_SHARE, MISMATCH_SHARE = 0.04, 0.03, 0.01
MALFORMED_SHARE, LATE_SHARE, AHEAD_SHARE, SLOW_NETWORK_SHARE = 0.01, 0.01, 0.002, 0.1


@dataclass(frozen=True, slots=True)
class Shop:
    seed: int = 1
    sessions_per_minute: int = 30

    def minutes(self, first: int = 0) -> Iterator[list[ShopRecord]]:
        """The records of minute `first` and of all that follow, without end."""
        pending: list[tuple[int, int, int, ShopRecord]] = []
        for number in range(max(0, first - REACH_MINUTES), first):
            self._push(pending, number)
        _pop_before(pending, first)
        for number in itertools.count(first):
            self._push(pending, number)
            yield _pop_before(pending, number + 1)

    def _push(self, pending: list[tuple[int, int, int, ShopRecord]], number: int) -> None:
        # Ties are broken by where a record comes from, so that the order is the same wherever a stream is taken up.
        for index, record in enumerate(self.journeys(number)):
            heapq.heappush(pending, (record.arrival_ms, number, index, record))

    def journeys(self, number: int) -> Iterator[ShopRecord]:
        """All that sessions which begin in this minute will send, in no order."""
        chance = Random(f"{self.seed}/{number}")
        tide = 1 + 0.5 * math.sin(2 * math.pi * number / TIDE_MINUTES)
        for index in range(max(1, round(self.sessions_per_minute * tide))):
            begin_ms = OPENING_MS + number * MINUTE_MS + chance.randrange(MINUTE_MS)
            yield from _journey(chance, f"{number}-{index}", begin_ms)


def _pop_before(pending: list[tuple[int, int, int, ShopRecord]], number: int) -> list[ShopRecord]:
    until_ms = OPENING_MS + number * MINUTE_MS
    popped = []
    while pending and pending[0][0] < until_ms:
        popped.append(heapq.heappop(pending)[3])
    return popped


def _journey(chance: Random, name: str, at_ms: int) -> Iterator[ShopRecord]:
    """One session, from the first click to the payment, or as far as it gets."""
    for page, share in zip(PAGES, (0.9, CART_SHARE, CHECKOUT_SHARE, ORDER_SHARE), strict=True):
        click = {"session_id": f"s{name}", "page": page, "clicked_at": _iso(at_ms)}
        yield _record(chance, CLICKS, f"s{name}", click, "clicked_at", at_ms)
        if chance.random() >= share:
            return
        at_ms += chance.randrange(2_000, 45_000)
    amount_cents = round(chance.lognormvariate(8.3, 0.6))
    order = {
        "order_id": f"o{name}",
        "session_id": f"s{name}",
        "customer": f"c{chance.randrange(2000)}",
        "amount_cents": amount_cents,
        "ordered_at": _iso(at_ms),
    }
    yield _record(chance, ORDERS, f"o{name}", order, "ordered_at", at_ms)
    if chance.random() >= UNPAID_SHARE:
        yield from _payments(chance, f"o{name}", amount_cents, at_ms)


def _payments(chance: Random, order_id: str, amount_cents: int, ordered_ms: int) -> Iterator[ShopRecord]:
    slow = chance.random() < SLOW_PAYMENT_SHARE
    wait_ms = chance.randrange(1, 8) * MINUTE_MS + PAYMENT_WITHIN_MINUTES * MINUTE_MS if slow else 0
    at_ms = ordered_ms + wait_ms + chance.randrange(5_000, 150_000)
    for attempt in (1, 2):
        failed = chance.random() < (FAILED_SHARE_IN_OUTAGE if _is_outage(at_ms) else FAILED_SHARE)
        wrong = not failed and chance.random() < MISMATCH_SHARE
        payment = {
            "payment_id": f"{order_id}-{attempt}",
            "order_id": order_id,
            "amount_cents": amount_cents // 2 + 1 if wrong else amount_cents,
            "status": FAILED if failed else CAPTURED,
            "paid_at": _iso(at_ms),
        }
        yield _record(chance, PAYMENTS, order_id, payment, "paid_at", at_ms)
        if not failed or chance.random() >= RETRY_SHARE:
            return
        at_ms += chance.randrange(20_000, 90_000)


def _is_outage(at_ms: int) -> bool:
    minute = (at_ms - OPENING_MS) // MINUTE_MS % OUTAGE_EVERY_MINUTES
    return OUTAGE_FROM <= minute < OUTAGE_UNTIL


def _record(
    chance: Random, topic: str, key: str, event: Mapping[str, object], time_field: str, at_ms: int
) -> ShopRecord:
    """On its way to the topic some are held up, some too long, and some are broken by the program that sent them."""
    fate = chance.random()
    delay_ms = chance.randrange(50, 2_000)
    if fate < LATE_SHARE:
        delay_ms = LATE_AFTER_MINUTES * MINUTE_MS + chance.randrange(MINUTE_MS, 15 * MINUTE_MS)
    elif fate < LATE_SHARE + SLOW_NETWORK_SHARE:
        delay_ms = chance.randrange(2_000, (LATE_AFTER_MINUTES - 1) * MINUTE_MS)
    elif fate > 1 - AHEAD_SHARE:
        event = {**event, time_field: _iso(at_ms + chance.randrange(1, 48) * 3_600_000)}
    value = json.dumps(event, separators=(",", ":")).encode()
    if chance.random() < MALFORMED_SHARE:
        value = _damaged(chance, event, time_field, value)
    return ShopRecord(topic, key.encode(), value, at_ms + delay_ms)


def _damaged(chance: Random, event: Mapping[str, object], time_field: str, value: bytes) -> bytes:
    kind = chance.randrange(5)
    if kind == 0:
        return value[: len(value) // 2]
    if kind == 1:
        return b"<event>" + value + b"</event>"
    wrong = dict(event)
    if kind == 2:
        del wrong[next(iter(event))]
    elif kind == 3:
        wrong[time_field] = "a moment ago"
    elif "amount_cents" in event:
        wrong["amount_cents"] = chance.choice([-100, 0, "12,50"])
    else:
        wrong["page"] = "404"
    return json.dumps(wrong, separators=(",", ":")).encode()


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
