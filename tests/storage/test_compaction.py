"""What one round of compaction leaves: the newest record of each key, where it was, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.storage.checkpoints import COMPACTED_NAME, encode_offset
from runnel.storage.compaction.cleaning import CannotClean, Job, Source, grouped
from runnel.storage.compaction.key_map import BATCH_BYTES, KEY_BYTES
from runnel.storage.compaction.planning import dirt_of, is_due
from runnel.storage.files import MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.storage.log import Log
from runnel.wire.batch import DELETE_HORIZON_BIT, BatchHeader, assemble, encode_batch, read_header
from runnel.wire.compression import Compression
from storage.builders import MEMORY_ROOT, append, open_log, read_headers, sync
from storage.compaction_builders import compact, keyed_batch, pairs_of, put, records

DAY_MS = 86_400_000


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(MEMORY_ROOT)
    return files


@pytest.fixture
def log(files: MemoryFiles) -> Log:
    return open_log(files, compacted=True, retention_ms=-1)


def reopened(log: Log, clean: bool, **options: object) -> Log:
    log.close(clean=clean)
    settings = {"compacted": True, "retention_ms": -1, **options}
    return open_log(log.files, clean=clean, cleaned_offset=log.cleaned_offset, **settings)


def headers_of(log: Log) -> list[BatchHeader]:
    return read_headers(log)


def test_the_newest_record_of_each_key_stays_where_it_was(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"))
    put(log, (b"b", b"2"), (b"d", b"1"))
    compact(log)
    assert pairs_of(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"d", b"1")]
    assert (log.log_start_offset, log.end_offset, log.cleaned_offset) == (0, 6, 6)
    assert list(log.verify()) == []


def test_the_active_segment_is_left_alone(log: Log) -> None:
    put(log, (b"a", b"1"))
    log.roll(1000)
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"))
    compact(log, roll=False)
    assert pairs_of(log) == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]
    assert log.cleaned_offset == 1


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_keep_their_offsets_their_codec_and_their_times(log: Log, codec: Compression) -> None:
    put(log, *[(b"k%d" % (n % 7), b"v" * n) for n in range(20)], compression=codec, now_ms=5000)
    before = headers_of(log)[0]
    expected = [each for each in records(log) if each.offset >= 13]
    compact(log)
    (after,) = headers_of(log)
    assert records(log) == expected
    assert after == before._replace(batch_length=after.batch_length, crc=after.crc, record_count=7)
    assert after.compression == codec
    assert after.max_timestamp == 5019


def test_the_largest_timestamp_is_that_of_what_is_left(log: Log) -> None:
    rows = [(9000, b"a", b"1", ()), (3000, b"b", b"1", ()), (4000, b"c", b"1", ())]
    append(log, encode_batch(rows))
    put(log, (b"a", b"2"), now_ms=2000)
    compact(log)
    assert [header.max_timestamp for header in headers_of(log)] == [4000, 2000]
    assert log.max_timestamp_offset() == (4000, 2, 0)
    assert log.offset_for_timestamp(4001) is None
    assert log.offset_for_timestamp(3500) == (4000, 2, 0)


def test_times_of_the_log_stay(log: Log) -> None:
    rows = [(1, b"a", b"1", ()), (2, b"b", b"1", ())]
    append(log, encode_batch(rows, log_append_time_ms=7777))
    put(log, (b"a", b"2"), now_ms=8000)
    compact(log)
    assert [(each.offset, each.timestamp) for each in records(log)] == [(1, 7777), (2, 8000)]


def test_records_without_a_key_go(log: Log) -> None:
    """They are from before the topic was compacted."""
    put(log, (None, b"1"), (b"a", b"1"), (None, b"2"))
    compact(log)
    assert pairs_of(log) == [(1, b"a", b"1")]


def test_long_keys_are_told_apart(log: Log) -> None:
    long = [b"x" * size for size in (22, 23, 24, 25, 63, 64, 65, 127, 200)]
    put(log, *[(key, b"old") for key in long])
    put(log, *[(key, b"new") for key in long[::2]])
    compact(log)
    expected = [(n, key, b"old") for n, key in enumerate(long) if n % 2]
    assert pairs_of(log) == expected + [(len(long) + n, key, b"new") for n, key in enumerate(long[::2])]


# --- tombstones -------------------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_and_then_goes(files: MemoryFiles) -> None:
    log = open_log(files, compacted=True, retention_ms=-1, delete_retention_ms=DAY_MS)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"), now_ms=2000)
    compact(log, now_ms=10_000)
    assert [(each.offset, each.value, each.timestamp) for each in records(log)] == [
        (1, b"1", 1001),
        (2, None, 2000),
        (3, b"1", 2001),
    ]
    header = headers_of(log)[1]
    assert header.attributes & DELETE_HORIZON_BIT
    assert header.base_timestamp == 10_000 + DAY_MS
    assert header.max_timestamp == 2001

    put(log, (b"z", b"1"))
    compact(log, now_ms=10_000 + DAY_MS - 1)
    assert (2, b"a", None) in pairs_of(log)
    assert headers_of(log)[1].base_timestamp == 10_000 + DAY_MS, "the horizon is set once"

    put(log, (b"z", b"2"))
    compact(log, now_ms=10_000 + DAY_MS)
    assert pairs_of(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (5, b"z", b"2")]
    assert [(each.offset, each.timestamp) for each in records(log)][1] == (3, 2001)


def test_an_older_tombstone_goes_with_its_key(log: Log) -> None:
    put(log, (b"a", None))
    put(log, (b"a", b"1"))
    compact(log)
    assert pairs_of(log) == [(1, b"a", b"1")]


def test_a_log_of_expired_tombstones_keeps_its_watermarks(files: MemoryFiles) -> None:
    log = open_log(files, compacted=True, retention_ms=-1, delete_retention_ms=0)
    put(log, *[(b"k%d" % n, None) for n in range(10)])
    compact(log)
    assert len(records(log)) == 10
    put(log, (b"k0", None))
    compact(log, now_ms=2000)
    put(log, (b"k0", None))
    compact(log, now_ms=3000)
    log.roll(3000)
    assert [each.offset for each in records(log)] == [11]
    for clean in (True, False):
        log = reopened(log, clean)
        assert (log.log_start_offset, log.end_offset) == (0, 12)


# --- producers ----------------------------------------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_as_a_header(log: Log) -> None:
    append(log, keyed_batch([(b"a", b"1"), (b"b", b"1")], producer_id=9, epoch=3, sequence=0))
    append(log, keyed_batch([(b"a", b"2"), (b"b", b"2")], producer_id=9, epoch=3, sequence=2))
    put(log, (b"a", b"3"), (b"b", b"3"))
    compact(log)
    empty, full = headers_of(log)
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (2, 3, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence, empty.last_sequence) == (9, 3, 2, 3)
    assert (empty.base_timestamp, empty.size_bytes) == (-1, 61)
    assert full.record_count == 2


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("without_snapshots", [True, False])
def test_sequences_go_on_after_compaction_and_restart(log: Log, clean: bool, without_snapshots: bool) -> None:
    for number in range(4):
        append(log, keyed_batch([(b"a", b"%d" % number)], producer_id=9, sequence=number))
    put(log, (b"a", b"end"))
    compact(log)
    if without_snapshots:
        log.close(clean=False)
        for name in log.files.list(log.directory):
            if name.endswith((".snapshot", ".producers")):
                log.files.remove(f"{log.path}/{name}")
    log = reopened(log, clean)
    retry = append(log, keyed_batch([(b"a", b"3")], producer_id=9, sequence=3))
    assert (retry.base_offset, retry.duplicate) == (3, True)
    assert append(log, keyed_batch([(b"a", b"4")], producer_id=9, sequence=4)).base_offset == 5


def test_control_batches_stay(log: Log) -> None:
    marker = encode_batch(
        [(1000, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], producer_id=5, producer_epoch=0, transactional=True, control=True
    )
    append(log, marker)
    put(log, (b"\0\0\0\1", b"a key of the same bytes"))
    compact(log)
    kept = headers_of(log)
    assert [(header.is_control, header.record_count) for header in kept] == [(True, 1), (False, 1)]


# --- segments -----------------------------------------------------------------------------------------------------


def test_small_segments_are_put_together_up_to_segment_bytes(files: MemoryFiles) -> None:
    log = open_log(files, compacted=True, retention_ms=-1, segment_bytes=2000, index_interval_bytes=100)
    for number in range(120):
        put(log, (b"key-%d" % (number % 40), b"x" * 40))
        if number % 3 == 2:
            log.roll(1000)
    assert len(log.segments) == 41
    compact(log)
    assert len(log.segments) == 9
    assert all(segment.size_bytes <= 2000 for segment in log.segments)
    assert [each.offset for each in records(log)] == list(range(80, 120))
    assert [each.offset for each in records(log, 85)] == list(range(85, 120))
    assert list(log.verify()) == []
    names = files.list(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert sum(name.endswith(".log") for name in names) == len(log.segments)
    put(log, (b"key-0", b""))
    compact(log)
    assert len(log.segments) == 4, "what the first round made small, the second puts together"


def test_a_group_ends_where_an_index_cannot_reach() -> None:
    far = 1 << 31
    sources = [Source(0, 10, 5), Source(5, 10, far), Source(far, 10, far + 1), Source(far + 1, 0, far + 2)]
    job = job_with(sources, segment_bytes=1000)
    found = [[source.base_offset for source in group] for group in grouped(job, MemoryFiles(), far + 5)]
    assert found == [[0, 5], [far, far + 1]]


def test_groups_respect_the_size_of_a_segment() -> None:
    sources = [Source(n, size, n + 1) for n, size in enumerate([400, 400, 400, 1500, 100, 0, 100])]
    job = job_with(sources, segment_bytes=1000)
    found = [[source.base_offset for source in group] for group in grouped(job, MemoryFiles(), 7)]
    assert found == [[0, 1], [2], [3], [4, 5, 6]]
    assert [len(group) for group in grouped(job, MemoryFiles(), 2)] == [2], "up to the offset that was cleaned"


def job_with(sources: list[Source], segment_bytes: int) -> Job:
    return Job(
        directory=str(MEMORY_ROOT),
        sources=sources,
        first_dirty_offset=0,
        producers={},
        now_ms=0,
        delete_retention_ms=0,
        segment_bytes=segment_bytes,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
        key_map_bytes=1 << 20,
        io_bytes_per_s=1e308,
    )


def test_a_segment_that_would_not_change_is_not_rewritten(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll(1000)
    first = log.segments[0]
    summary = compact(log)
    assert log.segments[0] is first
    assert (summary.cleaned_offset, summary.bytes_written) == (2, 0)
    assert log.cleaned_offset == 2
    assert not [name for name in log.files.list(log.directory) if name.endswith(".cleaned")]


def test_a_full_map_cleans_as_far_as_it_reaches_and_goes_on_next_time(log: Log) -> None:
    for number in range(30):
        put(log, (b"key-%d" % number, b"1"))
    for number in range(30):
        put(log, (b"key-%d" % number, b"2"))
    rounds = 0
    while log.cleaned_offset != 60:
        before = log.cleaned_offset or 0
        compact(log, key_map_bytes=10 * (KEY_BYTES + BATCH_BYTES))
        assert log.cleaned_offset is not None
        assert log.cleaned_offset == before + 10
        rounds += 1
    assert rounds == 6
    assert [each.offset for each in records(log)] == list(range(30, 60))


def test_one_batch_with_more_keys_than_the_map_holds_is_cleaned_all_the_same(log: Log) -> None:
    put(log, *[(b"key-%d" % (number % 50), b"%d" % number) for number in range(100)])
    put(log, (b"key-1", b"last"))
    compact(log, key_map_bytes=KEY_BYTES)
    compact(log, key_map_bytes=KEY_BYTES)
    assert [each.offset for each in records(log)] == [50, *range(52, 101)]


# --- what may be cleaned ----------------------------------------------------------------------------------------


def test_a_log_is_due_by_its_dirty_share(files: MemoryFiles) -> None:
    log = open_log(files, compacted=True, retention_ms=-1, min_cleanable_dirty_ratio=0.5)
    put(log, (b"a", b"x" * 100))
    compact(log)
    for _ in range(2):
        put(log, (b"b", b"x" * 100))
        log.roll(1000)
    sync(log)
    dirt = dirt_of(log, log.end_offset, 1000)
    assert (dirt.first_dirty_offset, dirt.clean_bytes * 2) == (1, dirt.dirty_bytes)
    assert is_due(log, dirt)
    log.update_config(type(log.config)(compacted=True, min_cleanable_dirty_ratio=0.9))
    assert not is_due(log, dirt)


def test_what_is_not_committed_or_not_on_disk_is_left_alone(log: Log) -> None:
    for _ in range(3):
        put(log, (b"a", b"1"))
        log.roll(1000)
    assert dirt_of(log, log.end_offset, 1000).segments == []
    sync(log)
    assert [each.base_offset for each in dirt_of(log, log.end_offset, 1000).segments] == [0, 1, 2]
    assert [each.base_offset for each in dirt_of(log, 2, 1000).segments] == [0, 1]


def test_young_records_are_safe_for_min_compaction_lag(files: MemoryFiles) -> None:
    log = open_log(files, compacted=True, retention_ms=-1, min_compaction_lag_ms=1000)
    for now_ms in (5000, 6000, 7000):
        put(log, (b"a", b"1"), now_ms=now_ms)
        log.roll(now_ms)
    sync(log)
    assert [each.base_offset for each in dirt_of(log, 3, 7500).segments] == [0, 1]
    assert [each.base_offset for each in dirt_of(log, 3, 8000).segments] == [0, 1, 2]


def test_max_compaction_lag_makes_a_log_due(files: MemoryFiles) -> None:
    log = open_log(files, compacted=True, retention_ms=-1, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    put(log, (b"a", b"1"), now_ms=5000)
    log.roll(5000)
    sync(log)
    assert not is_due(log, dirt_of(log, 1, 6000))
    assert is_due(log, dirt_of(log, 1, 6001))


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_damaged_batch_is_never_copied_as_a_good_one(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"))
    log.roll(1000)
    content = log.files.open(log.segments[0].log.path)
    data = bytearray(content.read(0, 1 << 20))
    data[-1] ^= 1
    content.truncate(0)
    content.append((data,))
    with pytest.raises(CannotClean, match=r"00000000000000000000\.log: position \d+ \(offset 1\): the checksum"):
        compact(log)
    assert log.segments[0].size_bytes == len(data)


def test_records_that_cannot_be_read_are_named(log: Log) -> None:
    put(log, (b"a", b"1"))
    good = keyed_batch([(b"a", b"1"), (b"b", b"1")])
    bad = encode_batch([(1000, b"a", b"1", ()), (1000, b"b", b"1", ())])
    header = read_header(good)
    lying = header._replace(record_count=3, last_offset_delta=2)
    append(log, assemble(lying, bytes(bad[61:])))
    with pytest.raises(CannotClean, match="the batch at offset 1: 3 records"):
        compact(log)


def test_on_real_files_with_few_handles(tmp_path: Path) -> None:
    files = OsFiles()
    log = open_log(
        files, tmp_path / "topic-0", handles=HandleCache(2), compacted=True, retention_ms=-1, segment_bytes=1500
    )
    for number in range(200):
        put(log, (b"key-%d" % (number % 10), b"%d" % number * 5), compression=number % 5)
    compact(log)
    assert [each.offset for each in records(log)] == list(range(190, 200))
    log.close(clean=True)
    log = open_log(files, tmp_path / "topic-0", clean=True, compacted=True, cleaned_offset=log.cleaned_offset)
    assert [each.offset for each in records(log)] == list(range(190, 200))
    assert list(log.verify()) == []


def test_an_index_of_before_never_serves_the_new_segment(files: MemoryFiles) -> None:
    """A power loss may leave the new name of a log file, but not that of an index, though it was given before."""
    log = open_log(files, compacted=True, retention_ms=-1)
    for number in range(20):
        put(log, (b"%d" % (number % 3), b"x" * 50), now_ms=1000 + number)
        log.roll(1000)
    before = {name: files.read_bytes(log.directory / name) for name in files.list(log.directory) if "index" in name}
    compact(log)
    wanted = [log.offset_for_timestamp(1000 + number) for number in range(20)]
    assert wanted[0] is not None
    assert len(log.segments) == 2
    log.close(clean=True)
    name = f"{0:020d}"
    files.rename(log.directory / f"{name}.log", log.directory / f"{name}.log.swap")
    files.write_bytes(log.directory / f"{name}.timeindex", before[f"{name}.timeindex"])
    files.write_bytes(log.directory / f"{name}.index", before[f"{name}.index"])
    log = open_log(files, compacted=True, retention_ms=-1, recovery_point=log.end_offset)
    assert [log.offset_for_timestamp(1000 + number) for number in range(20)] == wanted


def test_gaps_that_kafka_has_made_since_are_no_damage(log: Log) -> None:
    """Its own checkpoint says how far it went; ours is of before."""
    for number in range(12):
        put(log, (b"%d" % (number % 3), b"x"))
    compact(log)
    wanted = pairs_of(log)
    log.files.write_atomic(log.directory / COMPACTED_NAME, encode_offset(1))
    log = reopened(log, clean=False)
    assert log.gaps_below == 12
    assert pairs_of(log) == wanted
