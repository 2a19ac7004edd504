"""Kafka's windowed rate and token bucket, with the time as an argument."""

from __future__ import annotations

from runnel.core.quotas.rates import THROTTLE_MS_MAX, TokenBucket, Window, WindowedRate
from runnel.core.quotas.sensors import MutationSensor, RateSensor

WINDOW = Window(11, 1000)
BORN_MS = 1_000_000


def test_a_burst_within_the_window_is_free_and_what_exceeds_it_is_waited_for() -> None:
    sensor = RateSensor(WINDOW, 100, BORN_MS)
    assert sensor.most_in_window == 1000
    assert sensor.record(1000, BORN_MS) == 0
    assert sensor.record(500, BORN_MS) == 5000  # 1500 at 100 a second over the 10 s that the window has at least


def test_the_wait_is_as_long_as_it_takes_for_the_rate_to_come_down() -> None:
    sensor = RateSensor(WINDOW, 100, BORN_MS)
    assert sensor.record(1500, BORN_MS) == 5000
    assert sensor.record(0, BORN_MS + 2500) == 4500  # the samples span 10.5 s now
    assert sensor.record(0, BORN_MS + 11_000) == 0


def test_what_happened_before_the_window_is_forgotten() -> None:
    sensor = RateSensor(WINDOW, 10, BORN_MS)
    assert sensor.record(10_000, BORN_MS) > 0
    assert sensor.record(1, BORN_MS + 11_000) == 0


def test_taking_back_what_was_not_sent_restores_the_rate() -> None:
    sensor = RateSensor(WINDOW, 100, BORN_MS)
    assert sensor.record(1000, BORN_MS) == 0
    assert sensor.record(700, BORN_MS + 10) > 0
    sensor.record_unchecked(-700, BORN_MS + 10)
    assert sensor.record(0, BORN_MS + 20) == 0


def test_the_wait_is_capped_where_kafka_caps_it() -> None:
    assert RateSensor(WINDOW, 1, BORN_MS, throttle_ms_max=1000).record(1_000_000, BORN_MS) == 1000
    assert RateSensor(WINDOW, 1, BORN_MS).record(1_000_000, BORN_MS) == 999_990_000
    assert RateSensor(WINDOW, 1, BORN_MS).record(10**15, BORN_MS) == THROTTLE_MS_MAX


def test_a_limit_of_zero_lets_nothing_through() -> None:
    rate = WindowedRate(WINDOW, BORN_MS)
    rate.record(1, BORN_MS)
    assert rate.throttle_ms(0, BORN_MS) == THROTTLE_MS_MAX
    bucket = TokenBucket(WINDOW, BORN_MS)
    bucket.record(1, 0, BORN_MS)
    assert bucket.throttle_ms(0, BORN_MS) == THROTTLE_MS_MAX


def test_the_bucket_takes_any_size_while_nothing_is_owed() -> None:
    sensor = MutationSensor(WINDOW, 2, BORN_MS)  # a burst of 22
    assert sensor.record_strictly(30, BORN_MS) == 0
    assert sensor.record_strictly(1, BORN_MS) == 4000  # 8 owed, 2 a second come back
    assert sensor.record_strictly(1, BORN_MS + 3999) == 1  # what was refused was not recorded
    assert sensor.record_strictly(1, BORN_MS + 4000) == 0


def test_old_clients_are_served_and_then_throttled() -> None:
    sensor = MutationSensor(WINDOW, 2, BORN_MS)
    assert sensor.record(22, BORN_MS) == 0
    assert sensor.record(2, BORN_MS) == 1000
    assert sensor.record(2, BORN_MS) == 2000
