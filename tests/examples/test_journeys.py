"""The generator: the same again from any minute, in order, with something of everything that can go wrong."""

from __future__ import annotations

from itertools import islice

import pytest

from runnel.examples.shop.expected import expected_outcome
from runnel.examples.shop.folder import Ledger
from runnel.examples.shop.journeys import Shop
from runnel.examples.shop.rules import (
    AHEAD,
    AMOUNT_MISMATCH,
    INPUTS,
    LATE,
    MALFORMED,
    MINUTE_MS,
    OPENING_MS,
    PAYMENTS_FAILING,
    ShopRecord,
)
from runnel.examples.shop.sending import sent_records

HOURS_3 = 180


def minutes(shop: Shop, first: int, count: int) -> list[list[ShopRecord]]:
    return list(islice(shop.minutes(first), count))


@pytest.mark.parametrize("first", [1, 30, 61, 100])
def test_a_stream_can_be_taken_up_at_any_minute(first: int) -> None:
    shop = Shop(seed=7, sessions_per_minute=5)
    assert minutes(shop, first, 20) == minutes(shop, 0, first + 20)[first:]


def test_seeds_differ() -> None:
    assert minutes(Shop(1, 5), 0, 5) != minutes(Shop(2, 5), 0, 5)


def test_records_arrive_in_order_and_in_their_minute() -> None:
    for number, records in enumerate(minutes(Shop(3, 10), 0, 90)):
        times = [record.arrival_ms for record in records]
        assert times == sorted(times)
        begin_ms = OPENING_MS + number * MINUTE_MS
        assert all(begin_ms <= time < begin_ms + MINUTE_MS for time in times)


def test_every_journey_is_over_before_the_stream_forgets_it() -> None:
    """What a journey sends later than REACH_MINUTES after its begin would be lost to a stream that is taken up."""
    shop = Shop(5, 40)
    whole = [record for number in range(30) for record in shop.journeys(number)]
    assert sorted(whole) == sorted(
        record for records in minutes(shop, 0, 30 + 60) for record in records if _begin(record) < 30
    )


def _begin(record: ShopRecord) -> int:
    """A journey's name, which is in every key, begins with its minute."""
    return int(record.key.decode()[1:].partition("-")[0])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_three_hours_have_something_of_everything(seed: int) -> None:
    outcome = expected_outcome(sent_records(Ledger(seed, 30, HOURS_3)))
    assert set(outcome.topic_records) == set(INPUTS)
    assert {reason for _, reason in outcome.set_aside} == {MALFORMED, LATE, AHEAD}
    assert {kind for kind, _ in outcome.alerts} == {AMOUNT_MISMATCH, PAYMENTS_FAILING}
    assert len(outcome.revenue) >= 15
