"""The parts of compaction on their own: the key map's memory, the throttle, handles that are renamed in use, damage to
what a swap leaves behind, and what travels between the broker and its child."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runnel.storage.compaction.cleaning import CannotClean, Cleaned, Job, Source, Summary
from runnel.storage.compaction.key_map import BATCH_BYTES, KEY_BYTES, START_BITS, START_MASK, KeyMap, shorten
from runnel.storage.compaction.pace import STEP_BYTES, Stopped, Throttle
from runnel.storage.compaction.runners import (
    ChildDied,
    ProcessRunner,
    child_command,
    decode_answer,
    decode_job,
    encode_answers,
    encode_job,
)
from runnel.storage.errors import LogCorrupt
from runnel.storage.files import MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.storage.segment import Segment
from runnel.wire.batch import decode_records, iterate_headers
from runnel.wire.record_keys import KEY_BYTES_SHORT
from storage.builders import MEMORY_ROOT, append, open_log, sync
from storage.compaction_builders import compact, keyed_batch, pairs_of, put, records

COMPACTED = {"compacted": True, "retention_ms": -1}


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(MEMORY_ROOT)
    return files


# --- the key map --------------------------------------------------------------------------------------------------

MEASURE = """
import sys, resource
from runnel.storage.compaction.key_map import KeyMap, shorten
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before, bytes_max = resident(), int(sys.argv[1])
keys = KeyMap(bytes_max)
number, starts = 0, list(range(1000))
while keys.add([shorten(b"%020d" % (number + each)) for each in range(1000)], starts, number, False):
    number += 1000
places = keys.places()
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("megabytes", [8, 32])
def test_the_map_takes_no_more_memory_than_it_was_given(megabytes: int) -> None:
    bytes_max = megabytes << 20
    done = subprocess.run([sys.executable, "-c", MEASURE, str(bytes_max)], capture_output=True, text=True, check=True)
    assert bytes_max * 0.4 < int(done.stdout) < bytes_max * 1.1


def test_the_map_knows_where_the_newest_record_of_each_key_starts() -> None:
    keys = KeyMap(1 << 20)
    assert keys.add([b"a", b"b", None, b"a"], [70, 80, 95, 110, 120], 0, False)
    assert keys.add([b"b", b"c"], [10, 25, 30], 500, True)
    assert keys.add([], [0], 600, False)
    assert keys.add([b"b"], [7, 9], 700, False)
    found = [(place >> START_BITS, place & START_MASK) for place in keys.places()]
    assert found == [(0, 40), (1, 15), (3, 0)]
    assert set(keys.newest) == {b"a", b"b", b"c"}
    assert list(keys.positions) == [0, 500, 600, 700]
    assert [keys.has_null_values(number) for number in range(4)] == [False, True, False, False]


def test_a_full_map_takes_keys_that_it_knows_but_not_for_ever() -> None:
    keys = KeyMap(2 * KEY_BYTES + 10 * BATCH_BYTES)
    assert keys.add([b"a", b"b"], [0, 1, 2], 0, False)
    assert not keys.add([b"c"], [0, 1], 1, False)
    taken = 1
    while keys.add([b"a"], [0, 1], 2, False):
        taken += 1
    assert taken == 11, "batches cost something too"


def test_a_digest_is_never_taken_for_a_short_key() -> None:
    assert len(shorten(b"x" * 32)) == KEY_BYTES_SHORT + 1


# --- pace ---------------------------------------------------------------------------------------------------------


def test_the_throttle_keeps_to_its_rate() -> None:
    clock = [0.0]

    def wait(seconds: float) -> bool:
        clock[0] += seconds
        return False

    throttle = Throttle(1_000_000, wait, lambda: clock[0])
    for _ in range(100):
        throttle(STEP_BYTES)
    assert clock[0] == pytest.approx(100 * STEP_BYTES / 1_000_000, rel=0.02)


def test_the_throttle_tells_when_to_stop() -> None:
    stop = threading.Event()
    throttle = Throttle(1e308, stop.wait)
    throttle(STEP_BYTES)
    stop.set()
    with pytest.raises(Stopped):
        throttle(2 * STEP_BYTES)


# --- handles ------------------------------------------------------------------------------------------------------


def test_a_file_is_found_again_under_its_new_name(tmp_path: Path) -> None:
    cache = HandleCache(1)
    handle, other = (cache.handle(OsFiles(), str(tmp_path / name)) for name in ("a", "b"))
    handle.create().append((b"content",))
    handle.rename(str(tmp_path / "c"))
    assert other.create().size() == 0, "the first was evicted"
    assert handle.get().read(0, 100) == b"content"
    assert sorted(os.listdir(tmp_path)) == ["b", "c"]


def test_a_detached_file_is_read_on_but_never_reopened(tmp_path: Path) -> None:
    cache = HandleCache(4)
    kept, gone = (cache.handle(OsFiles(), str(tmp_path / name)) for name in ("kept", "gone"))
    kept.create().append((b"old",))
    for handle in (kept, gone):
        handle.detach()
    (tmp_path / "kept").unlink()
    (tmp_path / "kept").write_bytes(b"another file of the same name")
    (tmp_path / "gone").write_bytes(b"")
    assert kept.get().read(0, 100) == b"old"
    for opening in (gone.get, gone.create):
        with pytest.raises(FileNotFoundError):
            opening()
    assert len(cache) == 0


def test_a_plan_made_before_the_swap_reads_the_old_file(files: MemoryFiles) -> None:
    log = open_log(files, handles=HandleCache(2), **COMPACTED)
    for number in range(5):
        put(log, (b"a", b"%d" % number))
    expected = pairs_of(log)
    plan = log.plan_read(0, 1 << 20)
    compact(log)
    assert len(pairs_of(log)) == 1
    data = plan.read()
    found = [(r.offset, r.key, r.value) for at, _ in iterate_headers(data) for r in decode_records(data, at)]
    assert found == expected


def test_a_search_by_time_beside_a_swap_starts_again(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(files, **COMPACTED)
    for number in range(5):
        put(log, (b"a", b"%d" % number), now_ms=1000 + number)
    log.roll(2000)
    old = log.segments[0]
    load = Segment.load_indexes

    def load_late(segment: Segment) -> None:
        if segment is old and log.segments[0] is old:  # another thread comes first
            compact(log)
            old.release()
        load(segment)

    monkeypatch.setattr(Segment, "load_indexes", load_late)
    assert log.offset_for_timestamp(1001) == (1004, 4, 0)


# --- what a crash leaves ------------------------------------------------------------------------------------------


def test_a_damaged_swap_file_is_not_taken(files: MemoryFiles) -> None:
    log = open_log(files, **COMPACTED)
    put(log, (b"a", b"1"))
    log.close(clean=True)
    files.write_bytes(f"{log.path}/{0:020d}.log.swap", keyed_batch([(b"a", b"2")])[:-1])
    before = {name: files.read_bytes(f"{log.path}/{name}") for name in files.list(log.path)}
    with pytest.raises(LogCorrupt, match=r"log\.swap is damaged at position 0"):
        open_log(files, **COMPACTED)
    assert {name: files.read_bytes(f"{log.path}/{name}") for name in files.list(log.path)} == before


def test_gaps_are_legal_only_below_what_was_compacted(files: MemoryFiles) -> None:
    log = open_log(files, **COMPACTED)
    for _ in range(4):
        put(log, (b"a", b"1"))
    compact(log)
    for _ in range(3):
        put(log, (b"b", b"1"))
    sync(log)
    log.close(clean=False)
    path = f"{log.path}/{4:020d}.log"
    data = files.read_bytes(path)
    size = len(data) // 3
    files.write_bytes(path, data[:size] + data[2 * size :])  # the batch at offset 5 is missing
    log = open_log(files, cleaned_offset=4, **COMPACTED)
    assert (log.end_offset, [each.offset for each in records(log)]) == (5, [3, 4])


def test_a_folder_that_kafka_compacted_may_have_gaps_anywhere(files: MemoryFiles) -> None:
    log = open_log(files, **COMPACTED)
    for number in range(4):
        put(log, (b"a", b"%d" % number))
    log.close(clean=False)
    path = f"{log.path}/{0:020d}.log"
    data = files.read_bytes(path)
    files.write_bytes(path, data[: len(data) // 4] + data[len(data) // 2 :])
    log = open_log(files, cleaned_offset=2, **COMPACTED)
    assert [each.offset for each in records(log)] == [0, 2, 3]


def test_a_note_of_gaps_that_cannot_be_read_allows_them_all(files: MemoryFiles) -> None:
    log = open_log(files, **COMPACTED)
    for _ in range(4):
        put(log, (b"a", b"1"))
    compact(log)
    log.close(clean=True)
    files.write_bytes(f"{log.path}/compacted-checkpoint", b"?")
    assert [each.offset for each in records(open_log(files, **COMPACTED))] == [3]


def test_empty_sealed_segments_are_stepped_over(files: MemoryFiles) -> None:
    """Kafka leaves them where it compacted everything away."""
    log = open_log(files, **COMPACTED)
    put(log, (b"a", b"1"))
    log.close(clean=True)
    files.write_bytes(f"{log.path}/{1:020d}.log", b"")
    files.write_bytes(f"{log.path}/{5:020d}.log", b"")
    log = open_log(files, cleaned_offset=5, **COMPACTED)
    append(log, keyed_batch([(b"b", b"1")]))
    assert [each.offset for each in records(log)] == [0, 5]
    assert [each.offset for each in records(log, 1)] == [5]
    compact(log)
    assert [each.offset for each in records(log)] == [0, 5]
    assert list(log.verify()) == []


# --- the child ----------------------------------------------------------------------------------------------------


def job(directory: str = "/nowhere") -> Job:
    return Job(
        directory=directory,
        sources=[Source(0, 10, 5)],
        first_dirty_offset=0,
        producers={7: 4},
        now_ms=1,
        delete_retention_ms=2,
        segment_bytes=3,
        segment_index_bytes=4,
        index_interval_bytes=5,
        key_map_bytes=6,
        io_bytes_per_s=1.5,
    )


def test_jobs_and_answers_travel_whole() -> None:
    assert decode_job(encode_job(job())) == job()
    answers = [Cleaned([Source(0, 10, 5), Source(5, 0, 6)], 8), Summary(5, 1, 2, 3, 4, 5, 6)]
    assert [decode_answer(line) for line in encode_answers(iter(answers))] == answers


def test_errors_travel_too(tmp_path: Path) -> None:
    def broken(error: Exception) -> list[bytes]:
        def found() -> object:
            raise error
            yield

        return list(encode_answers(found()))  # type: ignore[arg-type]

    with pytest.raises(CannotClean, match="why"):
        decode_answer(broken(CannotClean("why"))[0])
    with pytest.raises(OSError, match="No space") as raised:
        decode_answer(broken(OSError(errno.ENOSPC, "No space", "a-file"))[0])
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "a-file")
    runner = ProcessRunner()
    try:
        with pytest.raises(FileNotFoundError):
            runner.start(job(str(tmp_path))).next()
    finally:
        runner.rest()


def test_the_child_ends_with_its_input() -> None:
    child = subprocess.Popen(child_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.close()
    assert child.wait(60) == 0
    child.stdout.close()


def test_the_child_takes_no_modules_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit(7)")
    done = subprocess.run(child_command(), cwd=tmp_path, input=b"", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_child_that_cannot_work_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    runner = ProcessRunner()
    with pytest.raises(ChildDied, match="code 1"):
        runner.start(job(str(tmp_path))).next()
    runner.rest()
