"""Sealed segments read from the broker's files: the same rows, the broker left alone, and files that move under way."""

from __future__ import annotations

import base64
import errno
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.process import BrokerProcess
from harness.topics import create_topic
from runnel.client.metadata import TopicPartition
from runnel.spark.errors import DataLoss, OptionError
from runnel.spark.kafka_options import BrokerSettings, FetchSettings
from runnel.spark.reading import segments as segments_module
from runnel.spark.reading.ranges import OffsetRange, Piece
from runnel.spark.reading.segments import SegmentFiles
from runnel.wire.batch import encode_batch
from spark.records import Sent, batch_reader, produce, read, read_batch
from spark.test_batch_reader import delete_records

TOPIC_ID = uuid.uuid4()
TARGET = TopicPartition("t", 0)
READ_COMMITTED = 1
RECORDS = 1500


# On a real broker -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(broker_process: BrokerProcess | None) -> tuple[str, str]:
    """A broker's address and data directory; in it topic `sealed`, two partitions of some segments each."""
    if broker_process is None:
        pytest.skip("needs a broker whose files can be seen")
    create_topic(broker_process.address, "sealed", 2, {"segment.bytes": str(1 << 20)})
    records = [Sent(b"%05d" % number + b"x" * 3500, b"k", number % 2) for number in range(RECORDS)]
    produce(broker_process.address, "sealed", records, **{"batch.num.messages": 5})
    return broker_process.address, str(broker_process.data_dir)


def test_the_same_rows_with_the_files_as_without(place: tuple[str, str]) -> None:
    address, folder = place
    direct = {"runnel.data.dir": folder}
    assert len(list(Path(folder, "sealed-0").glob("*.log"))) > 2
    everything = read_batch(address, subscribe="sealed")
    assert len(everything) == RECORDS
    assert read_batch(address, subscribe="sealed", **direct) == everything
    part = {"startingOffsets": '{"sealed":{"0":123,"1":7}}', "endingOffsets": '{"sealed":{"0":456,"1":8}}'}
    expected = read_batch(address, subscribe="sealed", **part)
    assert read_batch(address, subscribe="sealed", **part, **direct) == expected
    assert read_batch(address, subscribe="sealed", minPartitions="17", **direct) == everything


def test_sealed_segments_are_read_without_the_broker(place: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    address, folder = place
    end = int(max(Path(folder, "sealed-0").glob("*.log")).stem)
    options = {"assign": '{"sealed":[0]}', "endingOffsets": f'{{"sealed":{{"0":{end}}}}}', "runnel.data.dir": folder}
    reader = batch_reader(address, **options)
    tasks = reader.partitions()
    nobody = BrokerSettings("127.0.0.1:1", patience_s=0)
    monkeypatch.setattr(reader, "_plan", replace(reader._plan, brokers=nobody))
    assert len(read(reader, tasks)) == end


def test_records_deleted_before_planning_are_not_read_though_their_file_is_there(place: tuple[str, str]) -> None:
    address, folder = place
    delete_records(address, "sealed", 1, 3)
    rows = read_batch(address, subscribe="sealed", **{"runnel.data.dir": folder})
    assert min(row["offset"] for row in rows if row["partition"] == 1) == 3


@pytest.mark.parametrize("fail", ["true", "false"])
def test_deleted_records_are_lost_with_the_files_as_without(place: tuple[str, str], fail: str) -> None:
    """A checkpoint may name them, and the file that they are in may stay for days."""
    address, folder = place
    delete_records(address, "sealed", 1, 5)
    options = {"startingOffsets": '{"sealed":{"1":4}}', "failOnDataLoss": fail, "runnel.data.dir": folder}
    if fail == "true":
        with pytest.raises(DataLoss, match="Offsets 4 to 4 of sealed/1 could not be read"):
            read_batch(address, assign='{"sealed":[1]}', **options)
    else:
        rows = read_batch(address, assign='{"sealed":[1]}', **options)
        assert [row["offset"] for row in rows] == list(range(5, RECORDS // 2))


def test_a_folder_of_another_topic_of_that_name_is_left_alone(place: tuple[str, str], tmp_path: Path) -> None:
    address, folder = place
    shutil.copytree(Path(folder, "sealed-0"), tmp_path / "sealed-0")
    (tmp_path / "sealed-0" / "partition.metadata").write_text(metadata(uuid.uuid4()))
    rows = read_batch(address, subscribe="sealed", **{"runnel.data.dir": str(tmp_path)})
    assert rows == read_batch(address, subscribe="sealed"), "all from the broker"


def test_a_data_dir_that_is_not_there_is_an_error(place: tuple[str, str]) -> None:
    with pytest.raises(OptionError, match=r"runnel\.data\.dir: /nowhere is no folder on this executor"):
        read_batch(place[0], subscribe="sealed", **{"runnel.data.dir": "/nowhere"})


# On files made by hand ------------------------------------------------------------------------------------------


def metadata(topic_id: uuid.UUID) -> str:
    return f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}"


def batch(offsets: list[int], **options: Any) -> bytes:
    deltas = [offset - offsets[0] for offset in offsets]
    records: Any = [(0, b"%d" % offset, b"v", ()) for offset in offsets]
    return bytes(encode_batch(records, base_offset=offsets[0], offset_deltas=deltas, **options))


def write_segment(folder: Path, base: int, batches: list[bytes], suffix: str = "") -> None:
    (folder / f"{base:020d}.log{suffix}").write_bytes(b"".join(batches))
    (folder / f"{base:020d}.index{suffix}").write_bytes(b"")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four segments of ten offsets each, in batches of five; the last one is not sealed."""
    made = tmp_path / "t-0"
    made.mkdir()
    (made / "partition.metadata").write_text(metadata(TOPIC_ID))
    for base in (0, 10, 20, 30):
        write_segment(made, base, [batch(list(range(base, base + 5))), batch(list(range(base + 5, base + 10)))])
    return made


def read_files(folder: Path, start: int = 0, until: int = 40, isolation: int = 0) -> tuple[list[int], int]:
    files = SegmentFiles(str(folder.parent), FetchSettings(isolation=isolation))
    wanted = OffsetRange(TARGET, start, until, TOPIC_ID)
    found: list[int] = []

    def walk() -> Iterator[Piece]:
        nonlocal rest
        rest = yield from files.pieces(wanted)

    rest = -1
    for target, chunk, first, end, aborted in walk():
        for rows in chunk.rows(target.topic, target.partition, first, end, aborted):
            found += rows.index[0].tolist()
    return found, rest


def test_sealed_segments_and_no_further(folder: Path) -> None:
    assert read_files(folder) == (list(range(30)), 30)
    assert read_files(folder, 13, 26)[0] == list(range(13, 26))
    assert read_files(folder, 33) == ([], 33), "the newest segment is the broker's"


def test_a_range_that_begins_before_the_oldest_segment_is_the_brokers(folder: Path) -> None:
    (folder / f"{0:020d}.log").unlink()
    assert read_files(folder) == ([], 0)
    assert read_files(folder, 10) == (list(range(10, 30)), 30)


def test_the_index_is_used_only_where_it_points_to_its_batch(folder: Path) -> None:
    size = len(batch([0, 1, 2, 3, 4]))
    good = (4).to_bytes(4, "big") + (0).to_bytes(4, "big") + (9).to_bytes(4, "big") + size.to_bytes(4, "big")
    index = folder / f"{10:020d}.index"
    for entries in (good, good[:8] + (7).to_bytes(4, "big") + (size + 3).to_bytes(4, "big"), b"\xff" * 24, good[:-3]):
        index.write_bytes(entries)
        assert read_files(folder, 19) == (list(range(19, 30)), 30)


def test_a_batch_larger_than_the_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "WINDOW_BYTES", 16)
    assert read_files(folder) == (list(range(30)), 30)


@pytest.mark.parametrize("base", [10, 20])
def test_a_torn_end_is_left_to_the_broker(folder: Path, base: int) -> None:
    """Also where whole segments follow: what is missing lies before them."""
    path = folder / f"{base:020d}.log"
    path.write_bytes(path.read_bytes()[:-7])
    assert read_files(folder) == (list(range(base + 5)), base + 5)


@pytest.mark.parametrize("batches", [0, 1])
def test_a_file_that_is_not_all_here_yet_is_left_to_the_broker(folder: Path, batches: int) -> None:
    """On a shared disk a file's name may be seen before its content; what is here may end with a batch, or be none."""
    write_segment(folder, 10, [batch(list(range(10, 15)))][:batches])
    assert read_files(folder) == (list(range(10 + 5 * batches)), 10 + 5 * batches)


def test_what_is_no_batch_is_left_to_the_broker(folder: Path) -> None:
    path = folder / f"{10:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(100))
    assert read_files(folder) == (list(range(10)), 10)


def test_a_damaged_batch_is_left_to_the_broker(folder: Path) -> None:
    """On a shared disk a page in the middle of a file may still be zeros."""
    path = folder / f"{10:020d}.log"
    content = bytearray(path.read_bytes())
    content[-4:] = bytes(4)
    path.write_bytes(content)
    found, rest = read_files(folder)
    assert (found, rest) == (list(range(rest)), rest)
    assert rest in (10, 15), "from the batch on, or from what is read with it"


def test_a_file_that_a_shared_disk_takes_back_is_left_to_the_broker(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(segments_module.os, "preadv", stale)
    assert read_files(folder) == ([], 0)


@pytest.mark.parametrize("text", ["", "version: 0\ntopic_id: ab"])
def test_a_folder_that_is_only_half_described_is_left_to_the_broker(folder: Path, text: str) -> None:
    (folder / "partition.metadata").write_text(text)
    assert read_files(folder) == ([], 0)


def test_segments_are_opened_some_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many a range has."""
    monkeypatch.setattr(segments_module, "SEGMENTS_OPEN_MAX", 2)
    opened: list[int] = []
    open_some = SegmentFiles._open

    def count(*args: Any) -> Any:
        found = open_some(*args)
        opened.append(len(found))
        return found

    monkeypatch.setattr(SegmentFiles, "_open", count)
    assert read_files(folder) == (list(range(30)), 30)
    assert opened == [2, 1, 0]


def test_transactions_are_the_brokers_where_only_committed_records_are_wanted(folder: Path) -> None:
    transactional = batch([10, 19], transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    write_segment(folder, 10, [transactional])
    assert read_files(folder, isolation=READ_COMMITTED) == (list(range(10)), 10)
    assert read_files(folder)[0] == [*range(11), *range(19, 30)]


def test_while_compacted_segments_are_swapped_in_the_broker_is_asked(folder: Path) -> None:
    """As the broker does it: the later ones of the old segments go before the new one has its name."""
    write_segment(folder, 0, [batch([4, 9, 14, 19])], ".swap")
    os.rename(folder / f"{10:020d}.log", folder / f"{10:020d}.log.deleted")
    assert read_files(folder) == ([], 0), "offsets 10 to 19 are not to be missed"
    os.rename(folder / f"{0:020d}.log.swap", folder / f"{0:020d}.log")
    os.rename(folder / f"{0:020d}.index.swap", folder / f"{0:020d}.index")
    assert read_files(folder) == ([4, 9, 14, 19, *range(20, 30)], 30)


def test_an_old_file_beside_the_new_one_that_holds_its_records(folder: Path) -> None:
    write_segment(folder, 0, [batch([4, 9, 14, 19])])
    assert read_files(folder)[0] == [4, 9, 14, 19, *range(20, 30)]


def test_files_that_vanish_while_they_are_read(folder: Path) -> None:
    files = SegmentFiles(str(folder.parent), FetchSettings())
    pieces = files.pieces(OffsetRange(TARGET, 0, 40, TOPIC_ID))
    first = next(pieces)
    for path in folder.glob("*.log"):
        path.unlink()
    rest = [first.chunk.next_offset, *(piece.chunk.next_offset for piece in pieces)]
    assert rest == [10, 20, 30]


def swap_in(folder: Path, kept: list[int]) -> None:
    """Step by step what the broker does when compaction has made one segment of the first two."""
    first, second = f"{0:020d}", f"{10:020d}"
    write_segment(folder, 0, [batch(kept)], ".cleaned")
    for kind in ("index", "log"):
        os.rename(folder / f"{first}.{kind}.cleaned", folder / f"{first}.{kind}.swap")
    for kind in ("index", "log"):
        os.rename(folder / f"{second}.{kind}", folder / f"{second}.{kind}.deleted")
    for kind in ("index", "log"):
        os.rename(folder / f"{first}.{kind}.swap", folder / f"{first}.{kind}")
    for kind in ("index", "log"):
        (folder / f"{second}.{kind}.deleted").unlink()


def test_readers_beside_a_compactor_miss_and_repeat_nothing(folder: Path, tmp_path: Path) -> None:
    """Offsets that compaction keeps are in every read, whatever moment it began at; the rest may be or not."""
    kept = [4, 9, 14, 19]
    complete = 0
    for number in range(150):
        copy = tmp_path / str(number) / "t-0"
        shutil.copytree(folder, copy)
        compactor = threading.Thread(target=swap_in, args=(copy, kept))
        compactor.start()
        while True:
            last = not compactor.is_alive()
            found, rest = read_files(copy, 0, 30)
            if rest:  # else the broker is asked for all of it
                complete += 1
                assert sorted(set(found)) == found
                assert set(found) >= {*kept, *range(20, 30)}
                assert rest == 30
            if last:
                break
    assert complete >= 150


def test_values_survive_the_reuse_of_buffers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "WINDOW_BYTES", len(batch([0, 1, 2, 3, 4])))
    assert read_files(folder) == (list(range(30)), 30)
