"""Scenarios of the area "Consumer groups"."""

from __future__ import annotations

import re

from clients.drivers import Committed, Reader, Sent
from compat.python import Run, equal, numbered, poll_until, read, scenario

PARTITIONS = 4
EACH = 25


def _held(reader: Reader) -> set[int]:
    return {partition for _, partition in reader.assigned()}


def _all_held(*readers: Reader) -> bool:
    """Every partition by exactly one of them, and no member without."""
    held = [_held(reader) for reader in readers]
    return all(held) and sorted(index for share in held for index in share) == list(range(PARTITIONS))


def _fill(run: Run, topic: str) -> set[bytes]:
    records = [
        Sent(f"{partition}/{index}".encode(), partition=partition)
        for partition in range(PARTITIONS)
        for index in range(EACH)
    ]
    run.client.produce(topic, records)
    return {record.value for record in records if record.value is not None}


def _share_and_leave(run: Run, first: str, second: str) -> tuple[str, Reader, Reader]:
    """Two members share the topic, read each record once between them and commit; then the first one leaves."""
    topic = run.topic(PARTITIONS)
    one = run.member(topic, topic, strategy=first)
    poll_until(lambda: _all_held(one), "everything for one member", one)
    two = run.member(topic, topic, strategy=second)
    poll_until(lambda: _all_held(one, two), "a share for each", one, two)
    equal(sorted(map(len, (_held(one), _held(two)))), [2, 2], "partitions of each")
    expected = _fill(run, topic)
    found = read(len(expected), "every record", one, two)
    equal(sorted(record.value or b"" for record in found), sorted(expected), "each record once")
    for member in (one, two):
        member.commit({partition: Committed(EACH, "") for partition in _held(member)})
    run.end(one)
    poll_until(lambda: _all_held(two), "everything for the other", two)
    for partition in range(PARTITIONS):
        equal(two.committed(partition), Committed(EACH, ""), f"committed on {partition}")
    return topic, one, two


@scenario("group-eager")
def eager(run: Run) -> None:
    _share_and_leave(run, "eager", "eager")


@scenario("group-cooperative")
def cooperative(run: Run) -> None:
    topic = run.topic(PARTITIONS)
    one = run.member(topic, topic, strategy="cooperative")
    poll_until(lambda: _all_held(one), "everything for one member", one)
    two = run.member(topic, topic, strategy="cooperative")
    poll_until(lambda: _all_held(one, two), "a share for each", one, two)
    equal(one.revoked, set(range(PARTITIONS)) - _held(one), "what the first member gave up")
    expected = _fill(run, topic)
    found = read(len(expected), "every record", one, two)
    equal(sorted(record.value or b"" for record in found), sorted(expected), "each record once")


@scenario("group-static")
def static(run: Run) -> None:
    topic = run.topic(PARTITIONS)
    one = run.member(topic, topic, instance="one")
    two = run.member(topic, topic, instance="two")
    poll_until(lambda: _all_held(one, two), "a share for each", one, two)
    read(len(_fill(run, topic)), "every record", one, two)
    held, rebalances = _held(two), one.rebalances
    run.end(two)
    again = run.member(topic, topic, instance="two")
    poll_until(lambda: _all_held(one, again), "the share again", one, again)
    equal(_held(again), held, "partitions after the restart")
    read(len(_fill(run, topic)), "every record", one, again)
    equal(one.rebalances, rebalances, "rebalances of the other member")


@scenario("commit-metadata")
def commit_metadata(run: Run) -> None:
    topic = run.topic()
    run.client.produce(topic, numbered(10))
    one = run.member(topic, topic)
    equal(len(read(10, "ten records", one)), 10, "records")
    one.commit({0: Committed(4, "see page 7")})
    found = one.committed(0)
    equal(None if found is None else found.offset, 4, "committed")
    equal(run.admin.group_offsets(topic), {0: (4, "see page 7")}, "offset and metadata")
    run.end(one)
    two = run.member(topic, topic)
    equal([one.offset for one in read(6, "what was not committed", two)], list(range(4, 10)), "offsets")


@scenario("auto-commit")
def auto_commit(run: Run) -> None:
    topic = run.topic()
    run.client.produce(topic, numbered(10))
    one = run.member(topic, topic, auto_commit=True)
    read(10, "ten records", one)
    run.end(one)
    equal(run.admin.group_offsets(topic)[0][0], 10, "committed")


@scenario("kip848")
def next_generation(run: Run) -> None:
    topic, _, two = _share_and_leave(run, "consumer", "consumer")
    run.end(two)
    run.client.produce(topic, [Sent(b"later")])
    three = run.member(topic, topic, strategy="consumer")
    equal([one.value for one in read(1, "what is new", three)], [b"later"], "what a new member reads")


@scenario("kip848-regex")
def next_generation_pattern(run: Run) -> None:
    topics = {run.topic(part=part) for part in ("a", "b")}
    run.topic(part="other")
    pattern = re.escape(run.name()) + r"\.[ab]$"
    member = run.member(run.name(), pattern, strategy="consumer", pattern=True)
    poll_until(lambda: {topic for topic, _ in member.assigned()} == topics, "both topics", member)
    for topic in (*topics, run.name("other")):
        run.client.produce(topic, [Sent(topic.encode())])
    found = read(2, "a record of each", member)
    equal({one.value for one in found}, {topic.encode() for topic in topics}, "records")


@scenario("kip848-migration")
def migration(run: Run) -> None:
    _share_and_leave(run, "eager", "consumer")
