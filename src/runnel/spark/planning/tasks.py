"""Offset ranges to tasks: large ranges are split, small ones share a task. No I/O.

In: ranges, and the options minPartitions and maxRecordsPerPartition, which mean what they mean in Spark's connector; a
query that gives neither gets tasks of a decent size. Those of a stream hold whole partitions: tasks run side by side,
and on the way to another topic no record may overtake an older one of its key. Out: the ranges of each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runnel.spark.reading.ranges import OffsetRange

TASK_RECORDS_MIN = 250_000
TASK_RECORDS_MAX = 2_000_000
TASKS_WANTED = 16
"""Between those two sizes, a query is cut into about this many: enough for a few cores, few enough to plan."""
SHARED_RECORDS_MAX = 50_000
"""Ranges smaller than this share a task until it holds as many."""


def plan_tasks(
    ranges: Sequence[OffsetRange], tasks_min: int | None, records_max: int | None, *, whole: bool = False
) -> list[tuple[OffsetRange, ...]]:
    """No task gets two ranges of one partition; empty ranges get none."""
    ranges = sorted(row for row in ranges if row.size > 0)
    if records_max is not None:
        ranges = [part for row in ranges for part in _split(row, -(-row.size // records_max))]
    if tasks_min is not None and tasks_min > len(ranges):
        ranges = list(_at_least(ranges, tasks_min))
    if tasks_min is not None or records_max is not None:
        return [(row,) for row in ranges]
    if whole:
        return _shared(ranges)
    size = max(TASK_RECORDS_MIN, min(TASK_RECORDS_MAX, sum(row.size for row in ranges) // TASKS_WANTED))
    parts = [part for row in ranges for part in _split(row, -(-row.size // size))]
    return _shared(parts)


def _split(row: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """Equal parts; rounding makes the later ones larger by one."""
    start = row.start
    for part in range(parts):
        end = start + (row.until - start) // (parts - part)
        if end > start:
            yield row.part(start, end)
        start = end


def _at_least(ranges: Sequence[OffsetRange], tasks_min: int) -> Iterator[OffsetRange]:
    """Split in proportion to size; ranges too small for a second part are left out of the proportion."""
    total = sum(row.size for row in ranges)
    small = [_part_count(row.size, total, tasks_min) == 1 for row in ranges]
    rest = sum(row.size for row, is_small in zip(ranges, small, strict=True) if not is_small)
    rest_tasks = max(tasks_min - sum(small), 1)
    for row, is_small in zip(ranges, small, strict=True):
        yield from _split(row, 1 if is_small else _part_count(row.size, rest, rest_tasks))


def _part_count(size: int, total: int, tasks: int) -> int:
    return max(int(size / total * tasks + 0.5), 1)


def _shared(ranges: Sequence[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    tasks: list[tuple[OffsetRange, ...]] = []
    sharing: list[OffsetRange] = []
    size = 0
    for row in ranges:
        if row.size >= SHARED_RECORDS_MAX:
            tasks.append((row,))
            continue
        sharing.append(row)
        size += row.size
        if size >= SHARED_RECORDS_MAX:
            tasks.append(tuple(sharing))
            sharing, size = [], 0
    return [*tasks, tuple(sharing)] if sharing else tasks
