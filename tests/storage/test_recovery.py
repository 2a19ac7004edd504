"""Opening a log after a bad stop: what is cut, what is kept, what is rebuilt, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.storage.checkpoints import decode_partition_metadata
from runnel.storage.errors import LogCorrupt
from runnel.storage.files import MemoryFiles
from runnel.storage.log import Log
from runnel.wire.batch import read_header
from storage.builders import MEMORY_ROOT, TOPIC_ID, append, make_batch, open_log, read_headers, read_values, sync

DIRECTORY = MEMORY_ROOT / "topic-0"
CONFIG = {"segment_bytes": 1000, "index_interval_bytes": 150}
FIRST = DIRECTORY / f"{0:020d}.log"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(MEMORY_ROOT)
    return files


def filled(files: MemoryFiles, batches: int = 10, **config: int) -> Log:
    log = open_log(files, **{**CONFIG, **config})
    for number in range(batches):
        append(log, make_batch(2, value=b"x" * 60, timestamp=number, producer_id=3, sequence=2 * number))
    return log


def last_log(files: MemoryFiles) -> Path:
    return DIRECTORY / max(name for name in files.list(DIRECTORY) if name.endswith(".log"))


def flip(files: MemoryFiles, path: Path, position: int) -> None:
    data = bytearray(files.read_bytes(path))
    data[position] ^= 0x40
    files.write_bytes(path, bytes(data))


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header in read_headers(log)]


def corrupt_files(files: MemoryFiles) -> list[str]:
    return sorted(name for name in files.list(DIRECTORY) if name.endswith(".corrupt"))


def test_a_tail_torn_at_any_byte_is_cut_to_the_last_good_batch(files: MemoryFiles) -> None:
    log = filled(files, 3, segment_bytes=10_000)
    whole = files.read_bytes(FIRST)
    size = len(whole) // 3
    log.close(clean=False)
    for length in range(len(whole) + 1):
        files.write_bytes(FIRST, whole[:length])
        again = open_log(files)
        assert again.end_offset == 2 * (length // size)
        assert files.size(FIRST) == again.size_bytes == length // size * size
        assert offsets(again) == list(range(0, again.end_offset, 2))
        expected = append(again, make_batch(1, producer_id=3, sequence=again.end_offset))
        assert expected[:3] == (again.end_offset - 1, again.end_offset - 1, False)
    assert corrupt_files(files) == []


@pytest.mark.parametrize(
    "tail", [b"\0" * 500, b"\xff" * 80, b"garbage", b"\0\0\0\0\0\0\0\x14\x7f\xff\xff\xff" + b"\2" * 60]
)
def test_junk_at_the_end_is_cut(files: MemoryFiles, tail: bytes) -> None:
    log = filled(files)
    log.close(clean=False)
    files.open(last_log(files)).append((tail,))
    again = open_log(files, **CONFIG)
    assert (again.end_offset, offsets(again)) == (20, list(range(0, 20, 2)))
    assert list(again.verify()) == []


def test_the_recovery_point_saves_the_scan(files: MemoryFiles) -> None:
    """What lies before the segment of the recovery point is not read; so damage there is not found either."""
    filled(files).close(clean=False)
    flip(files, FIRST, 100)
    with_point = open_log(files, recovery_point=18, **CONFIG)
    assert with_point.end_offset == 20
    assert [finding.position for finding in with_point.verify()][:1] == [0]


def test_damage_beyond_the_recovery_point_cuts_there_and_keeps_the_rest_aside(files: MemoryFiles) -> None:
    log = filled(files)
    whole = files.read_bytes(FIRST)
    size = read_header(whole).size_bytes
    log.close(clean=False)
    flip(files, FIRST, 2 * size + 70)
    again = open_log(files, recovery_point=0, **CONFIG)
    assert (again.end_offset, offsets(again)) == (4, [0, 2])
    aside = corrupt_files(files)
    assert aside[0] == f"{0:020d}.log.{2 * size}.corrupt"
    assert len(aside) == len(log.segments)
    assert files.read_bytes(DIRECTORY / aside[0])[100:] == whole[2 * size + 100 :]
    result = append(again, make_batch(2, value=b"x" * 60, producer_id=3, sequence=2))
    assert result.duplicate, "the producer goes on where the log ends"
    assert append(again, make_batch(2, value=b"x" * 60, producer_id=3, sequence=4))[:3] == (4, 5, False)


def test_damage_below_the_recovery_point_stops_the_log_and_changes_nothing(files: MemoryFiles) -> None:
    filled(files).close(clean=False)
    flip(files, FIRST, 100)
    before = {name: files.read_bytes(DIRECTORY / name) for name in files.list(DIRECTORY) if name.endswith(".log")}
    for _ in range(2):
        with pytest.raises(LogCorrupt, match=r"position 0 \(offset 0\): the checksum is wrong.*nothing was changed"):
            open_log(files, recovery_point=2, **CONFIG)
    assert {name: files.read_bytes(DIRECTORY / name) for name in before} == before
    salvaged = open_log(files, recovery_point=2, salvage=True, **CONFIG)
    assert (salvaged.end_offset, len(corrupt_files(files))) == (0, len(before))


def test_an_end_lost_below_the_recovery_point_is_kept_aside(files: MemoryFiles) -> None:
    """Nothing good follows, so the log can go on; but these bytes were durable once, and are not thrown away."""
    log = filled(files, 3)
    log.close(clean=False)
    size = files.size(FIRST)
    files.open(FIRST).truncate(size - 5)
    again = open_log(files, recovery_point=6, **CONFIG)
    assert again.end_offset == 4
    assert len(corrupt_files(files)) == 1
    assert again.flushed_offset == 4


def test_a_stale_recovery_point_of_an_earlier_topic_does_no_harm(files: MemoryFiles) -> None:
    filled(files, 3).close(clean=False)
    files.open(FIRST).append((b"\0" * 30,))
    again = open_log(files, recovery_point=5000, **CONFIG)
    assert (again.end_offset, again.flushed_offset) == (6, 6)


def test_a_missing_middle_segment_ends_the_log_and_nothing_is_deleted(files: MemoryFiles) -> None:
    log = filled(files, 30)
    log.close(clean=False)
    files.remove(DIRECTORY / f"{log.segments[1].base_offset:020d}.log")
    again = open_log(files, **CONFIG)
    assert again.end_offset == log.segments[1].base_offset
    assert len(corrupt_files(files)) == len(log.segments) - 2 > 0


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["remove", "empty", "zeros", "ragged", "flip", "beyond"])
def test_bad_indexes_are_rebuilt(files: MemoryFiles, suffix: str, clean: bool, damage: str) -> None:
    log = filled(files, 30)
    log.close(clean=True)
    good = {name: files.read_bytes(DIRECTORY / name) for name in files.list(DIRECTORY) if name.endswith(suffix)}
    for name, data in good.items():
        path = DIRECTORY / name
        files.remove(path)
        if damage == "empty":
            files.write_bytes(path, b"")
        elif damage == "zeros":
            files.write_bytes(path, bytes(len(data)))
        elif damage == "ragged":
            files.write_bytes(path, data[:-3])
        elif damage == "flip":
            files.write_bytes(path, bytes([data[0] ^ 0x80, *data[1:]]))
        elif damage == "beyond":
            files.write_bytes(path, data + b"\x7f" * (8 if suffix == ".index" else 12))
    again = open_log(files, clean=clean, **CONFIG)
    for start in range(0, 60, 7):
        assert read_headers(again, start, 300)[0].base_offset == start - start % 2
    if damage in ("remove", "ragged") or not clean:
        assert list(again.verify()) == []
        assert again.offset_for_timestamp(17) == (17, 34, 0)


@pytest.mark.parametrize("data", [b"", b"0\n1\n", b"\xff\xfe"])
@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_are_rebuilt_from_the_batches(files: MemoryFiles, data: bytes, clean: bool) -> None:
    log = open_log(files, segment_bytes=250)
    for epoch in (0, 0, 0, 2, 2, 5, 5, 5, 5, 6):
        append(log, leader_epoch=epoch)
    entries = log.epochs.entries
    assert entries == [(0, 0), (2, 3), (5, 5), (6, 9)]
    log.close(clean=clean)
    files.write_bytes(DIRECTORY / "leader-epoch-checkpoint", data)
    again = open_log(files, clean=clean, segment_bytes=250)
    assert (again.epochs.entries, again.latest_epoch) == (entries, 6)
    assert again.end_offset_for_epoch(3) == (2, 5)


def test_epochs_and_producers_written_after_the_last_sync_survive_a_kill(files: MemoryFiles) -> None:
    log = filled(files, 3)
    sync(log)
    append(log, make_batch(2, producer_id=8, sequence=0), leader_epoch=4)
    again = open_log(files, recovery_point=log.flushed_offset, **CONFIG)
    assert again.epochs.entries == [(0, 0), (4, 6)]
    assert append(again, make_batch(2, producer_id=8, sequence=0))[:3] == (6, 7, True)


def test_a_clean_stop_is_checked_at_the_end_only(files: MemoryFiles) -> None:
    filled(files).close(clean=True)
    again = open_log(files, clean=True, **CONFIG)
    assert (again.end_offset, again.flushed_offset, again.sync_job()) == (20, 20, None)
    assert read_values(again) == [(number, 2) for number in range(0, 20, 2)]


def test_a_clean_marker_that_lies_is_found_out(files: MemoryFiles) -> None:
    filled(files, 3).close(clean=True)
    files.open(FIRST).truncate(files.size(FIRST) - 1)
    again = open_log(files, clean=True, **CONFIG)
    assert (again.end_offset, offsets(again), len(corrupt_files(files))) == (4, [0, 2], 1)


def test_what_recovery_found_is_durable_afterwards(files: MemoryFiles) -> None:
    filled(files).close(clean=False)
    again = open_log(files, **CONFIG)
    assert (again.flushed_offset, again.sync_job()) == (20, None)


def test_partition_metadata_is_written_and_mended(files: MemoryFiles) -> None:
    filled(files).close(clean=True)
    path = DIRECTORY / "partition.metadata"
    assert decode_partition_metadata(files.read_bytes(path)) == TOPIC_ID
    files.write_bytes(path, b"")
    open_log(files, clean=True)
    assert decode_partition_metadata(files.read_bytes(path)) == TOPIC_ID


def test_strangers_in_the_folder_are_left_alone(files: MemoryFiles) -> None:
    filled(files).close(clean=True)
    for name in ("notes.txt", "x.log", "x.log.swap", "00000000000000000000.log.mine"):
        files.write_bytes(DIRECTORY / name, b"mine")
    open_log(files, clean=False, **CONFIG).close(clean=True)
    assert files.read_bytes(DIRECTORY / "notes.txt") == b"mine"
    assert {"x.log", "x.log.swap", "00000000000000000000.log.mine"} <= set(files.list(DIRECTORY))


def test_reopening_again_and_again_changes_nothing(files: MemoryFiles) -> None:
    filled(files).close(clean=True)
    first = {name: files.read_bytes(DIRECTORY / name) for name in files.list(DIRECTORY)}
    for clean in (True, False, False, True):
        open_log(files, clean=clean, **CONFIG).close(clean=True)
    now = {name: files.read_bytes(DIRECTORY / name) for name in files.list(DIRECTORY)}
    assert {name for name in now if not name.endswith((".snapshot", ".producers"))} == {
        name for name in first if not name.endswith((".snapshot", ".producers"))
    }
    assert {name: now[name] for name in now if name.endswith(("log", "index"))} == {
        name: first[name] for name in first if name.endswith(("log", "index"))
    }


def test_verify_reports_every_damaged_segment(files: MemoryFiles) -> None:
    log = filled(files)
    for segment in log.segments[:2]:
        flip(files, Path(segment.log.path), 80)
    findings = [finding for finding in log.verify() if finding.problem == "the checksum is wrong"]
    assert [finding.path for finding in findings] == [segment.log.path for segment in log.segments[:2]]
