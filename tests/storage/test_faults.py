"""Disks that fail: torn writes, full disks, fsync errors. What was acknowledged stays; what failed leaves no trace."""

from __future__ import annotations

import errno

import pytest

from runnel.storage.errors import LogOffline
from runnel.storage.files import MemoryFiles
from runnel.storage.log import Log
from runnel.testing.faults import FOREVER, FaultyFiles
from runnel.wire.errors import ErrorCode, Refusal
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, read_headers, read_values, sync

DIRECTORY = MEMORY_ROOT / "topic-0"


@pytest.fixture
def files() -> FaultyFiles:
    inner = MemoryFiles()
    inner.make_directory(MEMORY_ROOT)
    return FaultyFiles(inner)


def reopen(files: FaultyFiles, **options: int) -> Log:
    files.heal()
    return open_log(files, DIRECTORY, **options)


def code_of_append(log: Log) -> ErrorCode | None:
    try:
        append(log, make_batch(1, value=b"x" * 40))
    except Refusal as refused:
        return refused.code
    return None


def test_a_torn_write_is_taken_back_whatever_its_length(files: FaultyFiles) -> None:
    log = open_log(files)
    append(log)
    size = log.size_bytes
    batch = make_batch(3, value=b"x" * 50)
    for torn_bytes in range(len(batch) + 1):
        files.fail("write", error=errno.ENOSPC, torn_bytes=torn_bytes, path_contains=".log")
        with pytest.raises(Refusal) as refused:
            append(log, bytearray(batch))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "no space left" in refused.value.message
        assert (log.end_offset, log.size_bytes, log.active.log.get().size()) == (1, size, size)
        assert log.offline is None
    assert append(log, batch).base_offset == 1
    assert read_values(log) == [(0, 1), (1, 3)]


def test_a_full_disk_does_not_touch_producers_or_epochs(files: FaultyFiles) -> None:
    log = open_log(files)
    files.fail("write", error=errno.ENOSPC, times=3, path_contains=".log")
    for _ in range(3):
        with pytest.raises(Refusal):
            append(log, make_batch(1, producer_id=9, sequence=0), leader_epoch=4)
    assert (len(log.producers), log.latest_epoch, log.first_unflushed_ms) == (0, -1, None)
    result = append(log, make_batch(1, producer_id=9, sequence=0), leader_epoch=4)
    assert (result.base_offset, result.duplicate) == (0, False)


def test_any_other_write_error_takes_the_log_offline(files: FaultyFiles) -> None:
    log = open_log(files)
    append(log)
    sync(log)
    files.fail("write", error=errno.EIO, torn_bytes=7, path_contains=".log")
    with pytest.raises(LogOffline, match="topic-0 is offline"):
        append(log)
    for call in (append, sync, lambda log: log.plan_read(0, 100), lambda log: log.roll(0)):
        with pytest.raises(LogOffline):
            call(log)
    assert read_values(reopen(files)) == [(0, 1)]


def test_a_torn_write_that_cannot_be_taken_back_takes_the_log_offline(files: FaultyFiles) -> None:
    log = open_log(files)
    append(log)
    files.fail("write", error=errno.ENOSPC, torn_bytes=20, path_contains=".log")
    files.fail("truncate", error=errno.EIO, path_contains=".log")
    with pytest.raises(LogOffline):
        append(log)
    again = reopen(files)
    assert (again.end_offset, read_values(again)) == (1, [(0, 1)])


def test_an_fsync_error_is_never_followed_by_an_ack(files: FaultyFiles) -> None:
    log = open_log(files)
    append(log)
    job = log.sync_job()
    assert job is not None
    files.fail("sync", error=errno.EIO)
    with pytest.raises(OSError) as failed:
        job.run()
    log.sync_failed(failed.value)
    assert log.flushed_offset == 0
    for call in (append, Log.sync_job, lambda log: log.close(clean=True) or log.sync_job()):
        with pytest.raises(LogOffline):
            call(log)


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
def test_closing_reports_what_could_not_be_made_durable(files: FaultyFiles, operation: str) -> None:
    log = open_log(files)
    append(log)
    files.fail(operation, error=errno.EIO)  # type: ignore[arg-type]
    with pytest.raises(LogOffline):
        log.close(clean=True)


@pytest.mark.parametrize("operation", ["write", "open", "truncate"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_a_roll_on_a_full_disk_is_tried_again(files: FaultyFiles, operation: str, nth: int) -> None:
    log = open_log(files, segment_bytes=400, index_interval_bytes=50)
    while log.active.size_bytes < 300:
        append(log, make_batch(1, value=b"x" * 40))
    files.fail(operation, nth=nth, error=errno.ENOSPC, times=2)  # type: ignore[arg-type]
    appended = log.end_offset
    for _ in range(20):
        appended += code_of_append(log) is None
    assert log.offline is None
    assert log.end_offset == appended
    assert [header.base_offset for header in read_headers(log)] == list(range(appended))
    assert list(log.verify()) == []
    assert [header.base_offset for header in read_headers(reopen(files))] == list(range(appended))


def test_index_entries_wait_for_space_and_are_not_lost(files: FaultyFiles) -> None:
    log = open_log(files, index_interval_bytes=10)
    files.fail("write", error=errno.ENOSPC, torn_bytes=5, times=3, path_contains="index")
    for _ in range(400):
        append(log)
    assert log.active.index.entries == 399
    assert list(log.verify()) == []
    for offset in range(0, 400, 37):
        assert read_headers(log, offset)[0].base_offset == offset


@pytest.mark.parametrize("everything", [True, False])
def test_retention_makes_room_on_a_full_disk(files: FaultyFiles, everything: bool) -> None:
    retention = {"retention_ms": 10} if everything else {"retention_ms": -1, "retention_bytes": 500}
    log = open_log(files, segment_bytes=300, **retention)
    for number in range(24):
        append(log, make_batch(1, value=b"x" * 50, producer_id=3, sequence=number))
    files.fail("write", error=errno.ENOSPC, times=FOREVER)
    segments = len(log.segments)
    assert log.enforce_retention(100_000) >= segments - 3
    assert len(log.segments) < 5
    assert log.offline is None
    files.heal()
    log.enforce_retention(100_000)
    assert not everything or log.log_start_offset == log.end_offset == 24
    again = reopen(files)
    assert again.end_offset == 24
    assert append(again, make_batch(1, value=b"x" * 50, producer_id=3, sequence=22)).duplicate


@pytest.mark.parametrize("operation", ["write", "sync", "truncate", "rename", "remove", "sync_directory", "open"])
def test_the_nth_operation_fails_and_nothing_durable_is_lost(files: FaultyFiles, operation: str) -> None:
    """Appends, syncs, rolls and retention, with an I/O error at each place in turn."""
    for nth in range(1, 60):
        inner = MemoryFiles()
        inner.make_directory(MEMORY_ROOT)
        broken = FaultyFiles(inner)
        broken.fail(operation, nth=nth, error=errno.EIO, times=FOREVER)  # type: ignore[arg-type]
        acked = 0
        log = None
        try:
            log = open_log(broken, segment_bytes=300, index_interval_bytes=60, retention_bytes=900, retention_ms=-1)
            for number in range(24):
                append(log, make_batch(1, value=b"x" * 50, producer_id=3, sequence=number))
                if number % 3 == 2:
                    sync(log)
                    acked = log.flushed_offset
                if number % 8 == 7:
                    log.enforce_retention(1000)
        except (OSError, LogOffline, Refusal):
            pass
        again = reopen(broken)
        assert again.end_offset >= acked
        assert again.log_start_offset <= (log.log_start_offset if log else 0)
        offsets = [header.base_offset for header in read_headers(again)]
        assert offsets == list(range(again.log_start_offset, again.end_offset))
        if again.end_offset:
            last = again.end_offset - 1
            retry = append(again, make_batch(1, value=b"x" * 50, producer_id=3, sequence=last))
            assert retry[:3] == (last, last, True)
