"""Retention by time and size, DeleteRecords, truncation."""

from __future__ import annotations

import pytest

from runnel.storage.files import MemoryFiles
from runnel.storage.log import Log
from runnel.wire.errors import ErrorCode, Refusal
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, read_values, sync

SIZE = len(make_batch())


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(MEMORY_ROOT)
    return files


def filled(files: MemoryFiles, timestamps: list[int], **config: int) -> Log:
    """Segments of two batches."""
    log = open_log(files, segment_bytes=2 * SIZE, **config)
    for timestamp in timestamps:
        append(log, make_batch(timestamp=timestamp), now_ms=timestamp)
    return log


def segment_files(log: Log) -> list[str]:
    return sorted(name for name in log.files.list(log.directory) if name.endswith((".log", ".index", ".timeindex")))


def test_time_deletes_segments_whose_largest_timestamp_is_old(files: MemoryFiles) -> None:
    log = filled(files, [100, 900, 200, 210, 300, 310, 400], retention_ms=500)
    assert log.enforce_retention(900) == 0, "the first segment holds 900 and stands before the others"
    assert log.enforce_retention(1400) == 0
    assert log.enforce_retention(1401) == 4
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (7, 7, 0)


def test_time_keeps_everything_after_the_first_young_segment(files: MemoryFiles) -> None:
    log = filled(files, [100, 110, 900, 900, 100, 110, 120], retention_ms=500)
    assert log.enforce_retention(1000) == 1
    assert (log.log_start_offset, [segment.base_offset for segment in log.segments]) == (2, [2, 4, 6])


def test_an_expired_active_segment_leaves_exact_watermarks(files: MemoryFiles) -> None:
    log = filled(files, [100], retention_ms=500)
    assert log.enforce_retention(1000) == 1
    assert (log.log_start_offset, log.end_offset) == (1, 1)
    assert [segment.base_offset for segment in log.segments] == [1]
    assert log.plan_read(1, 100).is_empty
    assert log.enforce_retention(10**9) == 0, "an empty segment stays"
    log.close(clean=True)
    again = open_log(files, clean=True)
    assert (again.log_start_offset, again.end_offset) == (1, 1)
    assert append(again).base_offset == 1


def test_a_timestamp_in_the_future_is_kept(files: MemoryFiles) -> None:
    log = filled(files, [10**9, 10**9, 100], retention_ms=500)
    assert log.enforce_retention(5000) == 0


def test_no_limit_deletes_nothing(files: MemoryFiles) -> None:
    assert filled(files, [0] * 9, retention_ms=-1).enforce_retention(10**12) == 0


def test_size_keeps_at_least_what_is_wanted(files: MemoryFiles) -> None:
    log = filled(files, [0] * 9, retention_ms=-1, retention_bytes=5 * SIZE)
    assert log.enforce_retention(0) == 2
    assert (log.log_start_offset, log.size_bytes) == (4, 5 * SIZE)
    assert log.enforce_retention(0) == 0


def test_nothing_above_the_high_watermark_is_deleted(files: MemoryFiles) -> None:
    log = filled(files, [0] * 9, retention_ms=1)
    assert log.enforce_retention(1000, high_watermark=3) == 1
    assert log.enforce_retention(1000, high_watermark=4) == 1
    assert log.log_start_offset == 4


def test_files_go_with_their_segments(files: MemoryFiles) -> None:
    log = filled(files, [0] * 6, retention_ms=-1, retention_bytes=2 * SIZE)
    log.enforce_retention(0)
    assert segment_files(log) == [f"{4:020d}.log"]
    assert [name for name in files.list(log.directory) if name.endswith(".deleted")] == []


def test_deferred_removal_happens_in_the_job(files: MemoryFiles) -> None:
    log = filled(files, [0] * 6, retention_ms=-1, retention_bytes=2 * SIZE)
    before = segment_files(log)
    assert log.enforce_retention(0, defer_removal=True) == 2
    assert segment_files(log) == before
    assert len(log.file_jobs) == 1
    log.file_jobs.run_all()
    assert segment_files(log) == [f"{4:020d}.log"]


def test_removal_cut_short_is_finished_at_the_next_start(files: MemoryFiles) -> None:
    log = filled(files, [0] * 6, retention_ms=-1, retention_bytes=2 * SIZE)
    kept = {name: files.read_bytes(log.directory / name) for name in segment_files(log)}
    log.enforce_retention(0)
    name = f"{0:020d}.log"
    files.write_bytes(log.directory / name, kept[name])  # came back after a power loss
    files.write_bytes(log.directory / f"{2:020d}.index", b"")
    files.write_bytes(log.directory / f"{2:020d}.log.deleted", kept[f"{2:020d}.log"])
    again = open_log(files, clean=False)
    assert (again.log_start_offset, again.end_offset) == (4, 6)
    assert [name[:20] for name in segment_files(again)] == [f"{4:020d}"] * len(segment_files(again))
    assert read_values(again) == [(4, 1), (5, 1)]


def test_trim_moves_the_start_and_deletes_whole_segments(files: MemoryFiles) -> None:
    log = filled(files, [0] * 6)
    log.trim_prefix(3)
    assert (log.log_start_offset, [segment.base_offset for segment in log.segments]) == (3, [2, 4])
    log.trim_prefix(1)
    assert log.log_start_offset == 3, "a log start never moves back"
    with pytest.raises(Refusal) as refused:
        log.trim_prefix(7)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.trim_prefix(6)
    assert (log.log_start_offset, log.end_offset) == (6, 6)
    assert log.enforce_retention(0) == 0
    log.close(clean=True)
    again = open_log(files, clean=True, log_start_offset=6)
    assert (again.log_start_offset, again.end_offset, append(again).base_offset) == (6, 6, 6)


def test_a_start_beyond_the_end_restarts_the_log_there(files: MemoryFiles) -> None:
    """The records up to there were deleted by a client; that the end was lost must not bring them back."""
    log = filled(files, [0] * 3)
    log.close(clean=False)
    again = open_log(files, clean=False, log_start_offset=10)
    assert (again.log_start_offset, again.end_offset, again.size_bytes) == (10, 10, 0)
    assert append(again).base_offset == 10
    again.close(clean=True)
    assert read_values(open_log(files, clean=True)) == [(10, 1)]


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("clean", [True, False])
def test_truncation_cuts_every_trace_of_what_came_after(files: MemoryFiles, offset: int, clean: bool) -> None:
    log = open_log(files, segment_bytes=2 * SIZE + 40, index_interval_bytes=1)
    for number in range(7):
        append(log, make_batch(timestamp=number, producer_id=5, sequence=number), leader_epoch=number // 2)
    sync(log)
    log.truncate_to(offset)
    end = min(offset, 7)
    assert (log.end_offset, log.flushed_offset) == (end, end)
    assert read_values(log) == [(number, 1) for number in range(end)]
    assert log.latest_epoch == ((end - 1) // 2 if end else -1)
    if end < 7:
        fresh = append(log, make_batch(timestamp=50, producer_id=5, sequence=end), leader_epoch=9)
        assert (fresh.base_offset, fresh.duplicate) == (end, False)
    assert list(log.verify()) == []
    log.close(clean=clean)
    again = open_log(files, clean=clean)
    assert read_values(again) == read_values(log) if clean else again.end_offset
    assert again.latest_epoch == (9 if end < 7 else 3)


def test_truncation_in_the_middle_of_a_batch_takes_the_batch(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, make_batch(3))
    append(log, make_batch(3))
    log.truncate_to(4)
    assert log.end_offset == 3


def test_expired_producers_are_forgotten(files: MemoryFiles) -> None:
    log = open_log(files, producer_expiration_ms=1000, retention_ms=-1)
    append(log, make_batch(producer_id=1, sequence=0), now_ms=5000)
    log.enforce_retention(5999)
    assert len(log.producers) == 1
    log.enforce_retention(6000)
    assert len(log.producers) == 0
