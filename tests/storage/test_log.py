"""One log: appending, rolling, reading, what is durable."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from runnel.storage.config import LogConfig
from runnel.storage.errors import TopicIdMismatch
from runnel.storage.files import MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.storage.log import Log
from runnel.testing.faults import FaultyFiles
from runnel.wire.batch import check_crc, encode_batch, read_header
from runnel.wire.errors import ErrorCode, Refusal
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, read_headers, read_values, sync


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(MEMORY_ROOT)
    return files


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def code_of(call: object, *arguments: object) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        call(*arguments)  # type: ignore[operator]
    return refused.value.code


# --- appending


def test_a_batch_gets_its_place_and_keeps_its_checksum(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, make_batch(3))
    batch = make_batch(2, value=b"abc")
    result = append(log, batch, leader_epoch=7)
    assert result == (3, 4, False, 1000)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert check_crc(batch, 0, header)
    assert log.plan_read(3, 1000).read() == batch
    assert (log.end_offset, log.latest_epoch, log.unflushed_messages) == (5, 7, 5)


def test_the_same_bytes_may_be_given_as_bytearray_or_view(files: MemoryFiles) -> None:
    log = open_log(files)
    batch = make_batch()
    log.append(batch, read_header(batch), 0, 0)
    log.append(memoryview(batch), read_header(batch), 0, 0)
    assert read_values(log) == [(0, 1), (1, 1)]


def test_a_batch_larger_than_a_segment_is_refused(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=200)
    append(log)
    assert code_of(append, log, make_batch(value=b"x" * 200)) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.end_offset == 1
    append(log)


def test_replicated_batches_keep_their_offsets(files: MemoryFiles) -> None:
    leader, follower = open_log(files), open_log(files, MEMORY_ROOT / "other-0", segment_bytes=300)
    for number in range(6):
        append(leader, make_batch(2, producer_id=4, sequence=2 * number), leader_epoch=number // 2)
    data = leader.plan_read(0, 1 << 20).read()
    assert follower.append_replica(data, 1000) == 12
    assert read_headers(follower) == read_headers(leader)
    assert follower.epochs.entries == leader.epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert follower.producers.check(read_header(make_batch(2, producer_id=4, sequence=12))) is None
    assert code_of(follower.append_replica, data, 1000) == ErrorCode.OFFSET_OUT_OF_RANGE


# --- rolling


def test_segments_roll_by_size(files: MemoryFiles) -> None:
    size = len(make_batch())
    log = open_log(files, segment_bytes=3 * size)
    for _ in range(7):
        append(log)
    assert bases(log) == [0, 3, 6]
    assert [segment.size_bytes for segment in log.segments] == [3 * size, 3 * size, size]


def test_segments_roll_by_the_time_of_the_records(files: MemoryFiles) -> None:
    log = open_log(files, segment_ms=1000)
    for timestamp in (5000, 6000, 6001, 5500, 7000, 7002):
        append(log, make_batch(timestamp=timestamp), now_ms=10**9)
    assert bases(log) == [0, 2, 5], "as Kafka: against the first batch of the segment, not against the clock"


def test_jitter_makes_a_roll_earlier_and_is_stable(files: MemoryFiles) -> None:
    log = open_log(files, segment_ms=1000, segment_jitter_ms=900)
    append(log, make_batch(timestamp=0))
    limit = log.active.roll_after_ms
    assert 100 <= limit < 1000
    log.close(clean=True)
    assert open_log(files, clean=True, segment_ms=1000, segment_jitter_ms=900).active.roll_after_ms == limit


def test_segments_roll_when_an_index_is_full(files: MemoryFiles) -> None:
    log = open_log(files, segment_index_bytes=12 * 5, index_interval_bytes=1)
    for number in range(12):
        append(log, make_batch(timestamp=number))
    assert len(log.segments) == 3
    assert all(segment.time_index.entries <= 5 for segment in log.segments)
    assert list(log.verify()) == []


def test_segments_roll_before_a_relative_offset_overflows(files: MemoryFiles) -> None:
    log = open_log(files)
    wide = encode_batch([(0, None, b"", ()), (0, None, b"", ())], offset_deltas=[0, 0x7FFF_FFF0])
    append(log, wide)
    append(log, make_batch(10))
    append(log, make_batch(10))
    assert bases(log) == [0, 0x7FFF_FFF1 + 10]
    assert read_headers(log)[-1].base_offset == 0x7FFF_FFF1 + 10


def test_an_idle_segment_rolls_by_the_clock(files: MemoryFiles) -> None:
    log = open_log(files, now_ms=1000, segment_ms=500)
    assert not log.roll_if_due(5000), "an empty segment never rolls"
    append(log)
    assert not log.roll_if_due(1499)
    assert log.roll_if_due(1500)
    assert bases(log) == [0, 1]


def test_a_new_config_counts_at_once(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log)
    append(log)
    log.update_config(LogConfig(segment_bytes=len(make_batch()) * 2))
    append(log)
    assert bases(log) == [0, 2]


def test_nothing_is_preallocated_and_an_unused_log_is_small(tmp_path: Path) -> None:
    log = open_log(OsFiles(), tmp_path / "topic-0")
    names = sorted(path.name for path in (tmp_path / "topic-0").iterdir())
    assert names == ["00000000000000000000.log", "partition.metadata"]
    assert log.size_bytes == (tmp_path / "topic-0" / names[0]).stat().st_size == 0


# --- reading


def fill(log: Log, count: int) -> int:
    for number in range(count):
        append(log, make_batch(2, value=b"x" * 40, timestamp=number))
    return log.size_bytes // count


def test_a_read_ends_at_a_batch_and_within_its_limit(files: MemoryFiles) -> None:
    log = open_log(files, index_interval_bytes=300)
    size = fill(log, 50)
    for max_bytes in range(1, 12 * size, 13):
        plan = log.plan_read(7, max_bytes)
        whole, rest = divmod(plan.length, size)
        assert rest == 0
        assert whole >= 1
        assert plan.length <= max(max_bytes, size)
        assert plan.read()[:8] == (6).to_bytes(8, "big"), "the batch that holds the offset comes first"
        assert plan.next_offset == 6 + 2 * whole


def test_less_than_one_batch_is_nothing_unless_one_is_wanted(files: MemoryFiles) -> None:
    log = open_log(files)
    size = fill(log, 3)
    assert log.plan_read(0, size - 1, min_one=False).is_empty
    assert log.plan_read(0, size, min_one=False).length == size
    assert log.plan_read(0, 0, min_one=True).length == size


def test_reads_stop_at_the_high_watermark(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=1000)
    size = fill(log, 20)
    assert log.plan_read(0, 1 << 20, 0).is_empty
    assert log.plan_read(0, 1 << 20, 1).is_empty, "a batch is visible when all of it is"
    assert log.plan_read(0, 1 << 20, 6).length == 3 * size
    assert log.plan_read(0, 1 << 20, 7).length == 3 * size
    assert log.plan_read(39, 1 << 20, 6).is_empty


def test_reads_go_on_at_the_end_of_a_sealed_segment(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=1000)
    fill(log, 30)
    assert len(log.segments) > 2
    for start in range(60):
        headers = read_headers(log, start)
        assert headers[0].base_offset == start - start % 2
        assert len(headers) == 30 - start // 2


def test_offsets_outside_are_out_of_range(files: MemoryFiles) -> None:
    log = open_log(files)
    fill(log, 3)
    assert log.plan_read(6, 100).is_empty
    assert code_of(log.plan_read, 7, 100) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(log.plan_read, -1, 100) == ErrorCode.OFFSET_OUT_OF_RANGE
    log.trim_prefix(3)
    assert code_of(log.plan_read, 2, 100) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_headers(log, 3)[0].base_offset == 2


def test_a_sequential_reader_never_searches(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(files, segment_bytes=2000, index_interval_bytes=200)
    fill(log, 100)
    plan = log.plan_read(0, 500)
    plan.read()
    monkeypatch.setattr("runnel.storage.segment.Segment.locate", None)
    while not plan.is_empty:
        plan = log.plan_read(plan.next_offset, 500)
        plan.read()
    assert plan.next_offset == 200


def test_many_readers_do_not_grow_the_memory_of_a_log(files: MemoryFiles) -> None:
    log = open_log(files)
    fill(log, 300)
    for offset in range(0, 600, 2):
        log.plan_read(offset, 100).read()
    assert len(log.hints) < 50


def test_a_wrong_index_entry_is_noticed_and_rebuilt(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=4000, index_interval_bytes=100)
    fill(log, 60)
    log.close(clean=True)
    path = log.segments[0].index.handle.path
    data = bytearray(files.read_bytes(path))
    for position in range(4, len(data), 8):
        data[position : position + 4] = (int.from_bytes(data[position : position + 4], "big") - 3).to_bytes(4, "big")
    files.write_bytes(path, bytes(data))
    for start in (0, 17, 30):
        again = open_log(files, clean=True, segment_bytes=4000, index_interval_bytes=100)
        assert len(read_headers(again, start, 700)) == 60 - start // 2
    assert list(again.verify()) == []


def test_a_deleted_segments_reader_is_unharmed(tmp_path: Path) -> None:
    log = open_log(OsFiles(), tmp_path / "topic-0", handles=HandleCache(1), segment_bytes=500, retention_bytes=0)
    fill(log, 20)
    plan = log.plan_read(0, 300)
    assert log.enforce_retention(0) > 2
    data = plan.read()
    assert data[:8] == bytes(8)
    assert len(data) == plan.length


# --- timestamps


def test_offsets_by_timestamp_look_into_the_batch(files: MemoryFiles) -> None:
    log = open_log(files)
    records = [(timestamp, None, b"", ()) for timestamp in (100, 300, 200)]
    append(log, encode_batch(records))
    append(log, encode_batch([(250, None, b"", ()), (400, None, b"", ())], compression=4), leader_epoch=2)
    assert log.offset_for_timestamp(0) == (100, 0, 0)
    assert log.offset_for_timestamp(150) == (300, 1, 0)
    assert log.offset_for_timestamp(300) == (300, 1, 0)
    assert log.offset_for_timestamp(301) == (400, 4, 2)
    assert log.offset_for_timestamp(401) is None
    assert log.max_timestamp_offset() == (400, 4, 2)
    log.trim_prefix(2)
    assert log.offset_for_timestamp(150) == (200, 2, 0)


def test_an_empty_log_has_no_timestamps(files: MemoryFiles) -> None:
    log = open_log(files)
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    append(log, make_batch(timestamp=-1))
    assert log.max_timestamp_offset() is None


def test_the_largest_timestamp_may_be_in_an_old_segment(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=200)
    for timestamp in (10, 99, 20, 30, 99, 5):
        append(log, make_batch(timestamp=timestamp))
    assert len(log.segments) > 2
    assert log.max_timestamp_offset() == (99, 1, 0)
    log.trim_prefix(2)
    assert log.max_timestamp_offset() == (99, 4, 0)
    log.trim_prefix(5)
    assert log.max_timestamp_offset() == (5, 5, 0)


# --- durability


def test_a_sync_makes_durable_what_was_there_when_it_began(files: MemoryFiles) -> None:
    log = open_log(files)
    assert log.flushed_offset == 0
    append(log, now_ms=100)
    append(log, now_ms=200)
    assert log.first_unflushed_ms == 100
    job = log.sync_job()
    assert job is not None
    assert job.target_offset == 2
    append(log, now_ms=300)
    job.run()
    log.synced(job)
    assert (log.flushed_offset, log.unflushed_messages, log.first_unflushed_ms) == (2, 1, 300)
    sync(log)
    assert (log.unflushed_messages, log.first_unflushed_ms, log.sync_job()) == (0, None, None)


def test_a_sealed_segment_waits_for_its_sync(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log)
    sync(log)
    assert not log.sealed_unsynced
    log.roll(0)
    assert log.sealed_unsynced
    sync(log)
    assert not log.sealed_unsynced


def test_a_segment_sealed_while_a_sync_is_on_its_way_is_synced_again(files: MemoryFiles) -> None:
    synced: list[str] = []

    class RecordingFiles(FaultyFiles):
        def check(self, operation: str, path: object) -> None:  # type: ignore[override]
            if operation == "sync":
                synced.append(Path(str(path)).name)

    log = open_log(RecordingFiles(files))
    append(log)
    log.roll(0)
    append(log)
    job = log.sync_job()
    assert job is not None
    job.run()
    append(log)  # after the fsync of its file, before the job is done
    log.roll(0)
    log.synced(job)
    assert log.flushed_offset == 2
    synced.clear()
    sync(log)
    assert log.flushed_offset == 3
    assert f"{1:020d}.log" in synced


def test_a_sync_that_was_overtaken_by_a_truncation_does_not_count(files: MemoryFiles) -> None:
    log = open_log(files)
    for _ in range(4):
        append(log)
    job = log.sync_job()
    assert job is not None
    job.run()
    log.truncate_to(1)
    append(log)
    append(log)
    log.synced(job)
    assert (log.flushed_offset, log.end_offset) == (0, 3)


def test_a_batch_that_is_not_whole_is_our_own_bug(files: MemoryFiles) -> None:
    log = open_log(files)
    batch = make_batch()
    with pytest.raises(ValueError, match="not one whole batch"):
        log.append(batch + b"x", read_header(batch), 0, 0)
    assert (log.end_offset, log.size_bytes) == (0, 0)


def test_jobs_may_finish_out_of_order(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log)
    first = log.sync_job()
    append(log)
    second = log.sync_job()
    assert first is not None
    assert second is not None
    second.run()
    log.synced(second)
    first.run()
    log.synced(first)
    assert log.flushed_offset == 2


def test_a_folder_of_another_topic_is_not_touched(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log)
    log.close(clean=True)
    before = sorted(files.list(log.directory))
    with pytest.raises(TopicIdMismatch, match="belongs to topic id"):
        Log.open(log.directory, uuid.uuid4(), LogConfig(), files=files, handles=HandleCache(), clean=True, now_ms=0)
    assert sorted(files.list(log.directory)) == before
