"""The judge of the crash tests must be able to condemn: each kind of damage, made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.drivers import Sent
from clients.drivers.confluent_driver import ConfluentDriver
from crash.load import Ledger, Verdict, judge

NewTopic = Callable[..., str]


def written(bootstrap: str, topic: str, numbers: list[int]) -> Ledger:
    """A ledger that is right about a log with these numbers."""
    offsets = ConfluentDriver(bootstrap).produce(topic, [Sent(b"w:%d:" % number) for number in numbers])
    return Ledger(topic, 0, "w", idempotent=True, acked=dict(zip(numbers, offsets, strict=True)))


def test_a_good_log(bootstrap: str, new_topic: NewTopic) -> None:
    verdict = judge(bootstrap, [written(bootstrap, new_topic(), [0, 1, 2])])
    assert verdict.is_good(), verdict
    assert verdict.acked == 3


@pytest.mark.parametrize(
    ("numbers", "acked", "crime"),
    [
        ([0, 1, 2], {0: 0, 3: 3}, "lost"),
        ([0, 1, 2], {0: 0, 1: 2}, "moved"),
        ([0, 1, 1], {0: 0}, "duplicates"),
        ([0, 2, 1], {0: 0}, "reordered"),
    ],
)
def test_damage(bootstrap: str, new_topic: NewTopic, numbers: list[int], acked: dict[int, int], crime: str) -> None:
    ledger = written(bootstrap, new_topic(), sorted(set(numbers)) if crime == "lost" else numbers)
    ledger.acked = acked
    verdict = judge(bootstrap, [ledger])
    assert not verdict.is_good()
    assert [name for name in Verdict.__slots__ if getattr(verdict, name) and name != "acked"] == [crime]
