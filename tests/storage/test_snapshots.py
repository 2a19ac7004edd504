"""Producer snapshots: Kafka's format, our five batches beside it, and damage to either."""

from __future__ import annotations

import pytest

from runnel.core.partition.producers import BatchSeen, ProducerEntry, ProducerStates
from runnel.storage.files import MemoryFiles
from runnel.storage.log import Log
from runnel.storage.snapshots import (
    ProducerSnapshots,
    decode_producers,
    decode_snapshot,
    encode_producers,
    encode_snapshot,
)
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, sync

DIRECTORY = MEMORY_ROOT / "topic-0"


def make_states() -> ProducerStates:
    states = ProducerStates()
    batches = [BatchSeen(2 * n, 2 * n + 1, 10 + 2 * n, 11 + 2 * n, 500 + n) for n in range(5)]
    empty = ProducerEntry(0, [], 7, coordinator_epoch=4)
    states.load([(9, ProducerEntry(3, batches, 700, -1, 16)), (1 << 40, empty)])
    return states


def entries(states: ProducerStates) -> list[tuple[object, ...]]:
    slots = ("epoch", "batches", "last_seen_ms", "coordinator_epoch", "transaction_first_offset")
    return [(producer_id, *(getattr(entry, slot) for slot in slots)) for producer_id, entry in states]


def test_ours_keeps_everything() -> None:
    states = make_states()
    again = ProducerStates()
    again.load(decode_producers(encode_producers(states, 20), 20) or [])
    assert entries(again) == entries(states)


def test_kafkas_keeps_the_last_batch() -> None:
    states = make_states()
    again = ProducerStates()
    again.load(decode_snapshot(encode_snapshot(states)) or [])
    entry = again.get(9)
    assert entry is not None
    assert entry.batches == [BatchSeen(8, 9, 18, 19, 700)]
    assert (entry.epoch, entry.transaction_first_offset) == (3, 16)
    assert again.get(1 << 40) is not None


def test_kafkas_layout_to_the_byte() -> None:
    states = ProducerStates()
    states.load([(7, ProducerEntry(1, [BatchSeen(3, 5, 100, 102, 60)], 61))])
    data = encode_snapshot(states)
    assert data[:2] == b"\0\1"
    body = (
        "00000001 0000000000000007 0001 00000005 0000000000000066 00000002 000000000000003d ffffffff ffffffffffffffff"
    )
    assert data[6:] == bytes.fromhex(body)


def test_every_flipped_or_missing_byte_is_noticed() -> None:
    states = make_states()
    ours, kafkas = encode_producers(states, 20), encode_snapshot(states)
    for number in range(len(ours)):
        assert decode_producers(ours[:number] + bytes([ours[number] ^ 4]) + ours[number + 1 :], 20) is None
        assert decode_producers(ours[:number], 20) is None
    for number in range(len(kafkas)):
        assert decode_snapshot(kafkas[:number] + bytes([kafkas[number] ^ 4]) + kafkas[number + 1 :]) is None
        assert decode_snapshot(kafkas[:number]) is None
    assert decode_producers(ours, 21) is None


def fill(log: Log, first: int, count: int) -> None:
    for number in range(first, first + count):
        append(log, make_batch(2, value=b"x" * 60, producer_id=9, sequence=2 * number))


def assert_five_known(log: Log, last: int) -> None:
    for number in range(last - 4, last + 1):
        result = append(log, make_batch(2, value=b"x" * 60, producer_id=9, sequence=2 * number))
        assert result[:3] == (2 * number, 2 * number + 1, True)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(MEMORY_ROOT)
    return files


@pytest.mark.parametrize("clean", [True, False])
def test_five_batches_are_known_after_a_restart(files: MemoryFiles, clean: bool) -> None:
    log = open_log(files, segment_bytes=450)
    fill(log, 0, 11)
    log.close(clean=clean)
    assert_five_known(open_log(files, clean=clean, segment_bytes=450), 10)


@pytest.mark.parametrize("clean", [True, False])
def test_five_batches_are_known_after_retention_deleted_them_all(files: MemoryFiles, clean: bool) -> None:
    log = open_log(files, segment_bytes=450, retention_ms=10)
    fill(log, 0, 11)
    assert log.enforce_retention(5000) > 3
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (22, 22, 0)
    assert_five_known(log, 10)
    log.close(clean=clean)
    again = open_log(files, clean=clean, segment_bytes=450)
    assert (again.log_start_offset, again.end_offset) == (22, 22)
    assert_five_known(again, 10)


@pytest.mark.parametrize("suffix", [".snapshot", ".producers"])
@pytest.mark.parametrize("damage", ["flip", "empty", "remove"])
def test_a_damaged_newest_snapshot_is_made_up_for(files: MemoryFiles, suffix: str, damage: str) -> None:
    log = open_log(files, segment_bytes=450)
    fill(log, 0, 11)
    log.close(clean=True)
    path = f"{DIRECTORY}/{22:020d}{suffix}"
    data = files.read_bytes(path)
    if damage == "remove":
        files.remove(path)
    else:
        files.write_bytes(path, b"" if damage == "empty" else data[:-1] + bytes([data[-1] ^ 1]))
    assert_five_known(open_log(files, clean=True, segment_bytes=450), 10)


def test_all_snapshots_damaged_means_a_replay_of_the_log(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=450)
    fill(log, 0, 11)
    log.close(clean=True)
    for name in files.list(DIRECTORY):
        if name.endswith((".snapshot", ".producers")):
            files.write_bytes(DIRECTORY / name, b"\0" * 40)
    assert_five_known(open_log(files, clean=True, segment_bytes=450), 10)


def test_a_folder_of_kafkas_without_our_file_keeps_the_last_batch(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=450, retention_ms=10)
    fill(log, 0, 11)
    log.enforce_retention(5000)
    log.close(clean=True)
    for name in files.list(DIRECTORY):
        if name.endswith(".producers"):
            files.remove(DIRECTORY / name)
    again = open_log(files, clean=True)
    assert append(again, make_batch(2, value=b"x" * 60, producer_id=9, sequence=20))[:3] == (20, 21, True)
    assert append(again, make_batch(2, value=b"x" * 60, producer_id=9, sequence=22))[:3] == (22, 23, False)


def test_old_snapshots_go_when_a_newer_is_durable(files: MemoryFiles) -> None:
    log = open_log(files, segment_bytes=450)
    fill(log, 0, 11)
    sync(log)
    bases = [segment.base_offset for segment in log.segments]
    assert log.snapshots.offsets == bases[1:]
    log.close(clean=True)
    log = open_log(files, clean=True, segment_bytes=450)
    fill(log, 11, 6)
    sync(log)
    log.close(clean=True)
    names = files.list(DIRECTORY)
    found = ProducerSnapshots(str(DIRECTORY), files, names).offsets
    assert found == [*(segment.base_offset for segment in log.segments[1:]), 34]
