"""Sparse indexes: search against a linear model, entries in the file and in memory, Kafka's byte layout."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.storage.files import MemoryFiles
from runnel.storage.handles import HandleCache
from runnel.storage.index import PENDING_ENTRIES_MAX, OffsetIndex, TimeIndex
from runnel.testing.faults import FaultyFiles

PATH = "/0.index"


def rising(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries, first, second = [], 0, 0
    for first_step, second_step in steps:
        first, second = first + first_step, second + second_step
        entries.append((first, second))
    return entries


STEPS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5000)), max_size=700)


@given(steps=STEPS, flushed=st.floats(0, 1), values=st.lists(st.integers(-1, 3_000_000), max_size=20))
def test_floor_is_what_a_linear_search_finds(steps: list[tuple[int, int]], flushed: float, values: list[int]) -> None:
    entries = rising(steps)
    index = OffsetIndex(HandleCache().handle(MemoryFiles(), PATH), 0)
    for number, entry in enumerate(entries):
        index.append(*entry)
        if number == int(flushed * len(entries)):
            index.flush()
    assert list(index) == entries
    known = [value for entry in entries[:: max(1, len(entries) // 5)] for value in entry]
    for value in [*values, *known]:
        for column, key in ((index.FIRST, 0), (index.SECOND, 1)):
            below = [entry for entry in entries if entry[key] <= value]
            floor = index.floor(column, value)
            if not below:
                assert floor is None
            else:
                assert floor == (below[-1], below[-2] if len(below) > 1 else None)


def test_the_layout_is_kafkas() -> None:
    files = MemoryFiles()
    index = OffsetIndex(HandleCache().handle(files, PATH), 1000)
    index.append(5, 4200)
    index.flush()
    assert files.read_bytes(PATH) == bytes.fromhex("00000005 00001068")
    times = TimeIndex(HandleCache().handle(files, "/0.timeindex"), 1000)
    times.maybe_append(77, 1005)
    times.flush()
    assert files.read_bytes("/0.timeindex") == bytes.fromhex("000000000000004d 00000005")


def test_only_a_larger_timestamp_is_a_time_entry() -> None:
    times = TimeIndex(HandleCache().handle(MemoryFiles(), PATH), 10)
    for timestamp, offset in ((-1, 10), (5, 11), (5, 12), (4, 13), (9, 14)):
        times.maybe_append(timestamp, offset)
    assert list(times) == [(5, 1), (9, 4)]
    assert [times.by_timestamp(timestamp) for timestamp in (4, 5, 8, 9, 100)] == [10, 11, 11, 14, 14]


def test_few_entries_wait_in_memory() -> None:
    files = MemoryFiles()
    index = OffsetIndex(HandleCache().handle(files, PATH), 0)
    for number in range(1, PENDING_ENTRIES_MAX):
        index.append(number, number)
    assert not files.exists(PATH)
    index.append(PENDING_ENTRIES_MAX, PENDING_ENTRIES_MAX)
    assert (files.size(PATH), len(index.pending)) == (PENDING_ENTRIES_MAX * 8, 0)


@pytest.mark.parametrize("content", [b"123", b"\xff" * 8, b"\0\0\0\1\0\0\0\1\0"])
def test_a_file_that_cannot_be_right_is_not_taken(content: bytes) -> None:
    files = MemoryFiles()
    files.write_bytes(PATH, content)
    assert not OffsetIndex(HandleCache().handle(files, PATH), 0).load()
    files.remove(PATH)
    assert not OffsetIndex(HandleCache().handle(files, PATH), 0).load()


def test_a_good_file_is_taken_and_continued() -> None:
    files = MemoryFiles()
    index = OffsetIndex(HandleCache().handle(files, PATH), 0)
    index.append(1, 10)
    index.append(2, 20)
    index.flush()
    again = OffsetIndex(HandleCache().handle(files, PATH), 0)
    assert again.load()
    assert (again.entries, again.last) == (2, (2, 20))
    again.append(3, 30)
    again.flush()
    assert list(again) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("keep", range(7))
def test_reset_keeps_a_prefix(keep: int) -> None:
    index = OffsetIndex(HandleCache().handle(MemoryFiles(), PATH), 0)
    entries = [(number, 10 * number) for number in range(1, 7)]
    for number, entry in enumerate(entries):
        index.append(*entry)
        if number == 2:
            index.flush()
    index.reset(keep)
    assert list(index) == entries[:keep]
    assert index.last == (entries[keep - 1] if keep else None)
    index.append(100, 1000)
    index.flush()
    assert list(index) == [*entries[:keep], (100, 1000)]


@pytest.mark.parametrize("torn_bytes", range(17))
def test_a_torn_flush_is_repaired_by_the_next(torn_bytes: int) -> None:
    files = FaultyFiles(MemoryFiles())
    index = OffsetIndex(HandleCache().handle(files, PATH), 0)
    index.append(1, 10)
    index.flush()
    index.append(2, 20)
    index.append(3, 30)
    files.fail("write", error=errno.ENOSPC, torn_bytes=torn_bytes)
    with pytest.raises(OSError):
        index.flush()
    assert list(index) == [(1, 10), (2, 20), (3, 30)]
    index.flush()
    assert files.size(PATH) == 24
    assert all(a < b for a, b in pairwise(index))


def test_searching_reads_little_of_a_large_file(tmp_path: Path) -> None:
    class CountingFiles(FaultyFiles):
        reads = 0

        def check(self, operation: str, path: object) -> None:  # type: ignore[override]
            self.reads += operation == "read"

    files = CountingFiles(MemoryFiles())
    index = OffsetIndex(HandleCache().handle(files, PATH), 0)
    for number in range(1, 100_000):
        index.append(number * 3, number * 4100)
    index.flush()
    for number in range(1, 100_000, 991):
        files.reads = 0
        assert index.by_offset(number * 3 + 1) == number * 4100
        assert files.reads <= 3
