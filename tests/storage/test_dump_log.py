"""Apache Kafka's own DumpLogSegments reads what we write, and has nothing to complain about."""

from __future__ import annotations

from pathlib import Path

import pytest

from java_tools import run_java
from runnel.storage.files import OsFiles
from runnel.wire.batch import encode_batch
from storage.builders import append, make_batch, open_log

DUMP = "org.apache.kafka.tools.DumpLogSegments"

pytestmark = pytest.mark.java


def dump(files: list[Path], *options: str) -> str:
    done = run_java(DUMP, "--files", ",".join(map(str, files)), *options)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "SLF4J" not in line]
    return "\n".join([done.stdout, *complaints])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dump") / "orders-0"
    log = open_log(OsFiles(), path, segment_bytes=40_000, index_interval_bytes=512, retention_ms=-1)
    for number in range(240):
        timestamp = 1_700_000_000_000 + number * 10 - (500 if number % 7 == 3 else 0)
        records = [(timestamp + each, b"key", b"v" * (number * 5), [("h", b"1")]) for each in range(3)]
        compression = number % 5
        append(log, encode_batch(records, compression=compression), leader_epoch=number // 100, now_ms=timestamp)
        batch = make_batch(2, timestamp=timestamp, producer_id=number % 3 + 1, sequence=number // 3 * 2)
        append(log, batch, leader_epoch=number // 100, now_ms=timestamp)
    log.close(clean=True)
    assert len(log.segments) >= 3
    return path


def test_every_batch_is_valid_and_every_record_readable(folder: Path) -> None:
    output = dump(sorted(folder.glob("*.log")), "--deep-iteration", "--print-data-log")
    batches = [line for line in output.splitlines() if "baseOffset:" in line]
    assert len(batches) == 480
    assert all("isvalid: true" in line for line in batches)
    assert output.count("| offset:") == 240 * 5
    assert "partitionLeaderEpoch: 2" in batches[-1]
    assert batches[-1].split("lastOffset: ")[1].split()[0] == "1199"


def test_indexes_agree_with_the_log(folder: Path) -> None:
    indexes = [*sorted(folder.glob("*.index")), *sorted(folder.glob("*.timeindex"))]
    assert len(indexes) >= 6
    output = dump(indexes)
    rows = [line for line in output.splitlines() if line and not line.startswith(("Dumping", "offset:", "timestamp:"))]
    assert rows == [], "it complains"
    assert "offset: " in output
    assert "timestamp: " in output


def test_indexes_pass_the_sanity_check(folder: Path) -> None:
    indexes = [*sorted(folder.glob("*.index")), *sorted(folder.glob("*.timeindex"))]
    output = dump(indexes, "--index-sanity-check")
    assert output.count("passed sanity check") == len(indexes)


def test_producer_snapshots_are_read(folder: Path) -> None:
    newest = max(folder.glob("*.snapshot"))
    rows = [line for line in dump([newest]).splitlines() if line.startswith("producerId:")]
    assert sorted(row.split()[1] for row in rows) == ["1", "2", "3"]
    assert all("lastSequence: 159" in row for row in rows)


def test_damage_would_be_reported(folder: Path, tmp_path: Path) -> None:
    """So that the silence above means something."""
    source = min(folder.glob("*.log"))
    data = bytearray(source.read_bytes())
    data[100] ^= 1
    (tmp_path / source.name).write_bytes(data)
    index = bytearray(source.with_suffix(".index").read_bytes())
    index[2] ^= 0x40
    (tmp_path / source.name).with_suffix(".index").write_bytes(index)
    assert "isvalid: false" in dump([tmp_path / source.name])
    assert "Mismatches in" in dump([(tmp_path / source.name).with_suffix(".index")])
