"""The judge of the crash tests must be able to condemn: each kind of damage, made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.drivers import Sent
from clients.drivers.confluent_driver import ConfluentDriver
from crash.crowd import Group, OffsetWatch, missing
from crash.load import Ledger, Verdict, judge
from harness.conditions import wait_until
from harness.raw import RawConnection

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


@pytest.mark.parametrize(
    ("commits", "promised", "crime"),
    [([3, 5], 5, ""), ([5, 3], 3, "3 after 5"), ([5], 6, "5 after 6"), ([5], 5, "")],
    ids=["good", "went back", "forgotten", "kept"],
)
def test_the_watch_over_offsets(
    bootstrap: str, new_topic: NewTopic, commits: list[int], promised: int, crime: str
) -> None:
    topic = new_topic()
    group = Group(topic, "eager")
    watch = OffsetWatch(bootstrap, topic, 1, [group])
    watch.start()
    with RawConnection(bootstrap) as raw:
        for offset in commits:
            commit(raw, topic, offset)
            target = watch.asked + 2
            wait_until(lambda target=target: watch.asked >= target, "answers about the offset")
    group.note(b"C 0 %d\n" % promised)
    target = watch.asked + 2
    wait_until(lambda: watch.asked >= target, "answers about the promised offset")
    watch.finish()
    assert bool(watch.went_back) == bool(crime), watch.went_back
    assert all(crime in found for found in watch.went_back)


def commit(raw: RawConnection, name: str, offset: int) -> None:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "group_id": name,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": name, "partitions": [part]}],
    }
    assert raw.request(8, 8, body).topics[0].partitions[0].error_code == 0


def test_a_record_that_no_member_processed() -> None:
    group = Group("g", "eager")
    group.note(b"N p0:1\n")
    ledger = Ledger("t", 0, "p0", idempotent=True, acked={1: 0, 2: 1})
    assert missing([group], [ledger]) == {"g": ["p0:2"]}
