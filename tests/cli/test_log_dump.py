"""`runnel log dump`: files of a data directory, shown without a broker."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.data_dirs import RECORDS, batch_positions, flip, segments, value, write_data_dir
from runnel.cli.main import cli


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("dump"))


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["log", "dump", *map(str, arguments)])


def documents(*arguments: str | Path) -> list[Any]:
    result = dump(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_batches_of_a_partition(written: Path) -> None:
    shown = dump(written / "orders-0")
    assert shown.exit_code == 0
    headings = [line for line in shown.stdout.splitlines() if ".log  (" in line]
    assert len(headings) == len(segments(written)) >= 3
    assert " crc " in shown.stdout
    assert "WRONG" not in shown.stdout
    batches = documents(written / "orders-0")
    assert {row["kind"] for row in batches} == {"batch"}
    assert batches[0]["base_offset"] == 0
    assert batches[-1]["last_offset"] == RECORDS - 1
    assert sum(row["records"] for row in batches) == RECORDS
    assert all(row["crc_ok"] and row["compression"] == "none" for row in batches)
    assert all(before["last_offset"] + 1 == after["base_offset"] for before, after in itertools.pairwise(batches))


def test_records(written: Path) -> None:
    rows = [row for row in documents(written / "orders-0", "--deep") if row["kind"] == "record"]
    assert [row["offset"] for row in rows] == list(range(RECORDS))
    assert rows[7]["value"] == value(7).decode()
    text = dump(written / "orders-0", "--deep", "--from", "7", "--to", "8").stdout.splitlines()
    assert [line.split()[0] for line in text if line.startswith("  ")] == ["7", "8"]
    assert "key=null  value=7 xxx" in text[2]
    assert len(dump(segments(written)[0], "-n", "3").stdout.splitlines()) == 1 + 3


def test_internal_topics_are_decoded(written: Path) -> None:
    offsets = [row["decoded"] for row in documents(written, "-t", "__consumer_offsets", "--deep") if "decoded" in row]
    committed = [row for row in offsets if row["type"] == "OffsetCommitted"]
    assert [(row["group_id"], row["topic"], row["partition"], row["offset"]) for row in committed] == [
        ("readers", "orders", 0, 42)
    ]
    metadata = [row["decoded"] for row in documents(written / "__cluster_metadata-0", "--deep") if "decoded" in row]
    assert [row["name"] for row in metadata if row["type"] == "TopicRecord"] == ["orders", "__consumer_offsets"]
    assert {"RegisterBrokerRecord", "PartitionRecord", "ConfigRecord"} <= {row["type"] for row in metadata}
    text = dump(written / "__cluster_metadata-0", "--deep").stdout
    assert "TopicRecord name=orders topic_id=" in text
    raw = [
        row
        for row in documents(written, "-t", "__consumer_offsets", "-d", "--decode", "none")
        if row["kind"] == "record"
    ]
    assert all("decoded" not in row for row in raw)


def test_indexes_and_small_files(written: Path) -> None:
    first = segments(written)[0]
    entries = documents(first.with_suffix(".index"))
    starts = set(batch_positions(first))
    assert len(entries) > 50
    assert {row["position"] for row in entries} <= starts
    times = documents(first.with_suffix(".timeindex"))
    assert [row["timestamp"] for row in times] == sorted({row["timestamp"] for row in times})
    everything = documents(written, "--all")
    kinds = {row["kind"] for row in everything}
    assert {"batch", "index", "time_index", "producer", "checkpoint", "text"} <= kinds
    (producer,) = documents(max((written / "orders-0").glob("*.producers")))
    assert producer["batches"][-1]["last_offset"] == RECORDS - 1
    assert any(row == "cluster.id" for row in _keys(written / "meta.properties"))
    recovery = documents(written / "recovery-point-offset-checkpoint")
    assert {"topic": "orders", "partition": 0, "offset": RECORDS}.items() <= recovery[-1].items() or any(
        row["topic"] == "orders" and row["offset"] == RECORDS for row in recovery
    )


def _keys(path: Path) -> list[str]:
    return [row["text"].split("=")[0] for row in documents(path)]


def test_damage_is_shown_and_passed_over(written: Path, tmp_path: Path) -> None:
    source = segments(written)[0]
    path = tmp_path / source.name
    shutil.copy(source, path)
    positions = batch_positions(source)
    flip(path, positions[5] + 100)
    shown = dump(path)
    assert shown.exit_code == 1
    assert f"DAMAGED at position {positions[5]}: the checksum is wrong" in shown.stdout
    assert f"the next good batch is at position {positions[6]}" in shown.stdout
    assert "crc " in shown.stdout
    assert shown.stdout.count(" ok") == len(positions) - 1
    assert shown.stderr == "Error: there is damage; `runnel log verify` explains\n"
    lines = [json.loads(line) for line in dump(path, "--json").stdout.splitlines()]
    assert [row["crc_ok"] for row in lines if row["kind"] == "batch"].count(False) == 1
    assert [row["position"] for row in lines if row["kind"] == "damage"] == [positions[5]]


@pytest.mark.parametrize(
    ("arguments", "message", "exit_code"),
    [
        ((), "name a data directory", 2),
        (("/no/such/place",), "/no/such/place does not exist", 1),
        (("{empty}",), "is neither a data directory", 1),
        (("{data}", "-t", "nothing"), "has no partition of nothing", 1),
        (("{file}",), "is not a file of a data directory", 1),
        (("{data}", "--decode", "xml"), "'xml' is not one of", 2),
    ],
    ids=str,
)
def test_wrong_paths(written: Path, tmp_path: Path, arguments: tuple[str, ...], message: str, exit_code: int) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("x")
    empty = tmp_path / "empty"
    empty.mkdir()
    result = dump(*(each.format(data=written, empty=empty, file=file) for each in arguments))
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
