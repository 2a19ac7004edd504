"""The assignors: every partition once, to somebody who wants it; even; and nothing moves without need."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.core.groups.assignors import ASSIGNORS, Wish
from runnel.core.groups.records import Partitions

TOPICS = [UUID(int=number) for number in range(1, 5)]
MEMBERS = [f"m{number}" for number in range(6)]
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
ALIKE = st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True).map(
    lambda names: {name: frozenset(TOPICS) for name in names}
)
DIFFERENT = st.dictionaries(st.sampled_from(MEMBERS), st.frozensets(st.sampled_from(TOPICS)), min_size=1)
SUBSCRIPTIONS = ALIKE | DIFFERENT


def assign(
    name: str,
    subscriptions: Mapping[str, frozenset[UUID]],
    counts: Mapping[UUID, int],
    before: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    wishes = {member: Wish(topics, before.get(member, {})) for member, topics in subscriptions.items()}
    return ASSIGNORS[name](wishes, counts)


def places(partitions: Partitions) -> set[tuple[UUID, int]]:
    return {(topic, number) for topic, numbers in partitions.items() for number in numbers}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(SUBSCRIPTIONS, SUBSCRIPTIONS, COUNTS, COUNTS)
def test_every_partition_is_given_once_to_somebody_who_wants_it(
    name: str,
    first: dict[str, frozenset[UUID]],
    then: dict[str, frozenset[UUID]],
    counts: dict[UUID, int],
    later_counts: dict[UUID, int],
) -> None:
    before = assign(name, first, counts, {})
    after = assign(name, then, later_counts, before)
    assert after.keys() == then.keys()
    given_out = [place for partitions in after.values() for place in places(partitions)]
    wanted = frozenset().union(*then.values())
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {(topic, number) for topic in wanted for number in range(later_counts[topic])}
    for member, partitions in after.items():
        assert partitions.keys() <= then[member]
        assert all(numbers == tuple(sorted(numbers)) and numbers for numbers in partitions.values())
    assert assign(name, then, later_counts, after) == after, "an assignment is at rest"
    assert assign(name, then, later_counts, before) == after, "the same input gives the same output"


@given(SUBSCRIPTIONS, SUBSCRIPTIONS, COUNTS)
def test_uniform_leaves_no_move_that_would_make_it_more_even(
    first: dict[str, frozenset[UUID]], then: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    after = assign("uniform", then, counts, assign("uniform", first, counts, {}))
    loads = {member: len(places(partitions)) for member, partitions in after.items()}
    for giver, partitions in after.items():
        for taker, topics in then.items():
            if not topics.isdisjoint(partitions):
                assert loads[giver] - loads[taker] < 2, (giver, taker, after)


@given(ALIKE, ALIKE, COUNTS)
def test_uniform_moves_no_more_than_it_must_where_all_read_the_same(
    first: dict[str, frozenset[UUID]], then: dict[str, frozenset[UUID]], counts: dict[UUID, int]
) -> None:
    before = assign("uniform", first, counts, {})
    after = assign("uniform", then, counts, before)
    loads = sorted(len(places(partitions)) for partitions in after.values())
    assert loads[-1] - loads[0] <= 1
    stayed = {member: len(places(before[member]) & places(after[member])) for member in first.keys() & then.keys()}
    total = sum(counts.values())
    quota, extra = divmod(total, len(then))
    had = sorted((len(places(before[member])) for member in stayed), reverse=True)
    keep = sum(min(load, quota + (order < extra)) for order, load in enumerate(had))
    assert sum(stayed.values()) == keep


@given(ALIKE, ALIKE, st.integers(1, 9))
def test_range_is_co_partitioned_and_contiguous(
    first: dict[str, frozenset[UUID]], then: dict[str, frozenset[UUID]], count: int
) -> None:
    counts = dict.fromkeys(TOPICS, count)
    after = assign("range", then, counts, assign("range", first, counts, {}))
    for partitions in after.values():
        assert len(set(partitions.values())) <= 1, "the same numbers of each topic"
        for numbers in partitions.values():
            assert numbers == tuple(range(numbers[0], numbers[0] + len(numbers)))
    lengths = [len(partitions.get(TOPICS[0], ())) for partitions in after.values()]
    assert max(lengths) - min(lengths) <= 1


def test_range_keeps_the_order_of_its_readers() -> None:
    topic, counts = TOPICS[0], {TOPICS[0]: 9}
    wanted = frozenset({topic})
    before = assign("range", dict.fromkeys(("x", "y"), wanted), counts, {})
    assert before == {"x": {topic: (0, 1, 2, 3, 4)}, "y": {topic: (5, 6, 7, 8)}}
    after = assign("range", dict.fromkeys(("a", "x", "y"), wanted), counts, before)
    assert after == {"a": {topic: (6, 7, 8)}, "x": {topic: (0, 1, 2)}, "y": {topic: (3, 4, 5)}}


def test_uniform_spreads_each_topic() -> None:
    counts = dict.fromkeys(TOPICS, 3)
    after = assign("uniform", dict.fromkeys(("a", "b", "c"), frozenset(TOPICS)), counts, {})
    assert {len(numbers) for partitions in after.values() for numbers in partitions.values()} == {1}
