"""Plans without brokers: tasks, rate limits, and what a stream finds changed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.client.metadata import TopicPartition
from runnel.spark import offsets_behind_latest
from runnel.spark.errors import DataLoss
from runnel.spark.planning import tasks
from runnel.spark.planning.changes import compare
from runnel.spark.planning.limits import Delay, rate_limited
from runnel.spark.planning.tasks import plan_tasks
from runnel.spark.positions import Offsets, from_nested, to_nested
from runnel.spark.reading.ranges import Missing, OffsetRange

targets = st.builds(TopicPartition, st.sampled_from(("a", "b", "c")), st.integers(0, 12))
ranges = st.dictionaries(targets, st.tuples(st.integers(0, 10**12), st.integers(-5, 5_000_000)), max_size=20).map(
    lambda found: [OffsetRange(target, start, start + size) for target, (start, size) in found.items()]
)
T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def covered(planned: list[tuple[OffsetRange, ...]]) -> dict[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for task in planned:
        for row in task:
            found.setdefault(row.target, []).append((row.start, row.until))
    return {target: sorted(parts) for target, parts in found.items()}


@given(ranges, st.none() | st.integers(1, 60), st.none() | st.integers(10_000, 3_000_000))
def test_every_offset_is_in_exactly_one_task(
    given_ranges: list[OffsetRange], tasks_min: int | None, records_max: int | None
) -> None:
    planned = plan_tasks(given_ranges, tasks_min, records_max)
    parts = covered(planned)
    assert parts.keys() == {row.target for row in given_ranges if row.size > 0}
    for row in given_ranges:
        if row.size > 0:
            edges = parts[row.target]
            assert edges[0][0] == row.start
            assert edges[-1][1] == row.until
            assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    for task in planned:
        assert len({row.target for row in task}) == len(task), "no partition twice in one task"
        if records_max is not None:
            assert all(row.size <= records_max for row in task)


@given(ranges)
def test_tasks_without_options_are_of_a_decent_size(given_ranges: list[OffsetRange]) -> None:
    for task in plan_tasks(given_ranges, None, None):
        assert sum(row.size for row in task) <= tasks.TASK_RECORDS_MAX + tasks.SHARED_RECORDS_MAX


def test_a_large_partition_is_split_and_small_ones_share_a_task() -> None:
    large = OffsetRange(T0, 0, 1_000_000)
    small = [OffsetRange(TopicPartition("s", index), 0, 1_000) for index in range(100)]
    planned = plan_tasks([large, *small], None, None)
    assert [row.size for task in planned for row in task if row.target == T0] == [250_000] * 4
    assert [len(task) for task in planned if task[0].target.topic == "s"] == [50, 50]
    assert plan_tasks([large, *small], None, None, whole=True) == [task for task in planned if len(task) > 1] + [
        (large,)
    ]


def test_only_the_first_task_of_a_partition_may_begin_later_than_planned() -> None:
    """What expires before another is a gap behind records that were read."""
    oldest = OffsetRange(T0, 0, 1_000_000, from_earliest=True)
    assert [row.from_earliest for (row,) in plan_tasks([oldest], None, None)] == [True, False, False, False]


@pytest.mark.parametrize("tasks_min", [None, 3000])
def test_each_of_many_partitions_is_looked_at_a_few_times(
    tasks_min: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern may match thousands, and every trigger plans them anew."""
    looks = 0

    def size(row: OffsetRange) -> int:
        nonlocal looks
        looks += 1
        return row.until - row.start

    monkeypatch.setattr(OffsetRange, "size", property(size))
    rows = [OffsetRange(TopicPartition("s", index), 0, 1 + index % 3) for index in range(2000)]
    assert plan_tasks(rows, tasks_min, None)
    assert looks < 20 * len(rows)


# As spark-sql-kafka-0-10 splits: (offset range sizes, minPartitions, maxRecordsPerPartition) -> sizes of tasks.
SPLITS = [
    ([5], None, None, [5]),
    ([5, 0, -3], 2, None, [2, 3]),
    ([100], 4, None, [25, 25, 25, 25]),
    ([3, 7], 3, None, [3, 3, 4]),
    ([1, 10000], 20, None, [1] + [526] * 13 + [527] * 6),
    ([100], None, 30, [25, 25, 25, 25]),
    ([10, 100], 3, 60, [10, 50, 50]),
    ([10, 100], 6, 60, [10, 16, 17, 17, 16, 17, 17]),
]


@pytest.mark.parametrize(("sizes", "tasks_min", "records_max", "expected"), SPLITS)
def test_min_partitions_and_max_records_mean_what_they_mean_in_sparks_connector(
    sizes: list[int], tasks_min: int | None, records_max: int | None, expected: list[int]
) -> None:
    given_ranges = [OffsetRange(TopicPartition("t", index), 10, 10 + size) for index, size in enumerate(sizes)]
    planned = plan_tasks(given_ranges, tasks_min, records_max)
    assert sorted(row.size for task in planned for row in task) == sorted(expected)


@given(
    st.dictionaries(targets, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1), st.integers(1, 2000)
)
def test_a_rate_limit_moves_everything_that_waits_and_no_further_than_its_end(
    waiting: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    starts = {target: start for target, (start, _) in waiting.items()}
    ends = {target: start + size for target, (start, size) in waiting.items()}
    limited = rate_limited(most, starts, ends)
    assert limited.keys() == ends.keys()
    for target, offset in limited.items():
        assert starts[target] <= offset <= ends[target]
        assert (offset > starts[target]) == (ends[target] > starts[target]), "none is starved"
    assert sum(limited.values()) - sum(starts.values()) <= most + len(waiting)


def test_a_rate_limit_is_shared_in_proportion() -> None:
    assert rate_limited(10, {T0: 0, T1: 0, T2: 5}, {T0: 100, T1: 10_000, T2: 5}) == {T0: 1, T1: 9, T2: 5}


def test_a_trigger_waits_for_enough_records_but_not_for_ever() -> None:
    delay = Delay(10, 1000)
    assert not delay.waits({T0: 0}, {T0: 1}, 0), "the first trigger never waits"
    assert delay.waits({T0: 1}, {T0: 10}, 500)
    assert not delay.waits({T0: 1}, {T0: 11}, 600)
    assert delay.waits({T0: 11}, {T0: 12}, 1599)
    assert not delay.waits({T0: 11}, {T0: 12}, 1600)


def no_earliest(wanted: Collection[TopicPartition]) -> Offsets:
    raise AssertionError(f"nothing was added, and yet the first offsets of {wanted} are asked for")


CHANGES = [
    ({T0: 5}, {T1: 9, T0: 7}, {}, "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", {T0: 5}),
    ({T0: 5}, {T1: 9, T0: 7}, {T1: 3}, "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", {T0: 5, T1: 3}),
    ({T0: 5, T1: 6}, {T0: 7}, {}, "PARTITIONS_DELETED", {T0: 5}),
    ({T0: 5}, {T0: 3}, {}, "PARTITION_OFFSET_CHANGED", {T0: 5}),
]


@pytest.mark.parametrize(("starts", "ends", "earliest", "condition", "expected"), CHANGES)
def test_changes_that_may_have_cost_records_fail_or_are_passed_over(
    starts: Offsets, ends: Offsets, earliest: Offsets, condition: str, expected: Offsets
) -> None:
    with pytest.raises(DataLoss, match=rf"\[KAFKA_DATA_LOSS.{condition}\] .* failOnDataLoss to false") as caught:
        compare(starts, ends, lambda _: earliest, Missing(fail=True))
    assert caught.value.condition == condition
    assert compare(starts, ends, lambda _: earliest, Missing(fail=False)) == expected


def test_an_added_partition_that_starts_at_0_is_no_loss() -> None:
    assert compare({T0: 5}, {T0: 5, T1: 2}, lambda _: {T1: 0}, Missing(fail=True)) == {T0: 5, T1: 0}
    assert compare({T0: 5}, {T0: 9}, no_earliest, Missing(fail=True)) == {T0: 5}


@given(st.dictionaries(targets, st.integers(-2, 2**60)))
def test_offsets_are_one_text_whatever_their_order(offsets: Offsets) -> None:
    text = json.dumps(to_nested(offsets))
    assert text == json.dumps(to_nested(dict(reversed(offsets.items()))))
    assert from_nested(json.loads(text)) == offsets


def test_partitions_are_ordered_as_numbers() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    assert json.dumps(to_nested(offsets), separators=(",", ":")) == '{"a":{"0":3},"b":{"9":2,"10":1}}'


def test_how_far_behind_a_query_is() -> None:
    progress = {"endOffset": '{"t":{"0":5,"1":10}}', "latestOffset": '{"t":{"0":5,"1":30,"2":4}}'}
    expected = {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 20, "avgOffsetsBehindLatest": 8}
    assert offsets_behind_latest(progress) == expected
    assert offsets_behind_latest({"endOffset": None, "latestOffset": None}) == {}
