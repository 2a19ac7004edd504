"""Lake tables of every format on a real disk: once is once, columns are added, keys are replaced, old things go."""

import contextlib
import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel.spark.errors import OptionError
from runnel.spark.lake.files import DataFile, FileWriter
from runnel.spark.lake.options import TABLE_FORMATS, LakeOptions, parse_lake_options
from runnel.spark.lake.tables import (
    AlreadyThere,
    Conflict,
    LakeTable,
    StaleCheckpoint,
    Stamp,
    Upsert,
    commit_once,
    latest_by_key,
    open_table,
    table_layout,
    table_schema,
)

TIME = pa.timestamp("us", "UTC")
ROWS = pa.schema([("key", pa.string()), ("value", pa.binary()), ("offset", pa.int64()), ("timestamp", TIME)])
MONDAY = datetime.datetime(2026, 11, 16, 12, tzinfo=datetime.UTC)
HOW = Upsert(("key",), "offset", "value")


@pytest.fixture(params=TABLE_FORMATS)
def table_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def options(tmp_path: Path, table_format: str) -> LakeOptions:
    return parse_lake_options({"path": str(tmp_path / "lake" / "orders"), "tableFormat": table_format, "appId": "app"})


def rows(*records: tuple[str, bytes | None, int, datetime.datetime]) -> pa.RecordBatch:
    columns = list(zip(*records, strict=True))
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)], ROWS)


def written(options: LakeOptions, *batches: pa.RecordBatch) -> tuple[LakeTable, list[DataFile]]:
    """What Spark does: the driver makes the table, executors write files."""
    table = open_table(options.destination)
    layout = table_layout(table, options, batches[0].schema)
    table.ensure(table_schema(batches[0].schema, layout), layout.partition_by)
    writer = FileWriter(layout._replace(store=table.store))
    for batch in batches:
        writer.write(batch)
    return open_table(options.destination), writer.close()


def commit(options: LakeOptions, batch_id: int, *batches: pa.RecordBatch, how: Upsert | None = None) -> bool:
    table, files = written(options, *batches)
    return commit_once(options.destination, table, files, Stamp("app", batch_id), how)


def content(options: LakeOptions, columns: Sequence[str] = ("key", "value", "offset")) -> list[dict[str, object]]:
    batches = [batch.select(list(columns)).to_pylist() for batch in open_table(options.destination).scan(columns)]
    return sorted((row for batch in batches for row in batch), key=lambda row: (row["offset"], str(row)))


def test_a_batch_is_in_the_table_once_however_often_it_is_committed(options: LakeOptions) -> None:
    first = rows(("a", b"1", 0, MONDAY), ("b", b"2", 1, MONDAY))
    assert commit(options, 0, first) is True
    assert commit(options, 0, first) is False
    assert commit(options, 1, rows(("c", b"3", 2, MONDAY))) is True
    assert [row["offset"] for row in content(options)] == [0, 1, 2]
    assert open_table(options.destination).last_batch("app") == 1
    assert open_table(options.destination).last_batch("another") is None


def test_an_empty_batch_of_a_driver_given_up_for_dead_sets_nothing_back(options: LakeOptions) -> None:
    """It had looked for its batch, found none, and paused; meanwhile another driver went on."""
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    late = open_table(options.destination)
    opened = getattr(late, "_open", None)
    if opened is not None:
        found = opened()
        late._open = lambda: found  # type: ignore[attr-defined]
    commit_once(options.destination, open_table(options.destination), [], Stamp("app", 1), None)
    commit(options, 2, rows(("b", b"2", 1, MONDAY)))
    with pytest.raises((Conflict, AlreadyThere)):
        late.append([], Stamp("app", 1))
    assert open_table(options.destination).last_batch("app") == 2


def test_the_files_of_a_repeated_batch_are_removed(options: LakeOptions) -> None:
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    before = _parquet_files(options)
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    assert _parquet_files(options) == before


def test_a_checkpoint_that_starts_again_is_refused(options: LakeOptions) -> None:
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    commit(options, 1, rows(("b", b"1", 1, MONDAY)))
    with pytest.raises(StaleCheckpoint, match="another appId"):
        commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    assert len(content(options)) == 2


def test_rows_lie_by_their_date(options: LakeOptions) -> None:
    late = MONDAY - datetime.timedelta(days=3)
    commit(options, 0, rows(("a", b"1", 0, MONDAY), ("b", None, 1, late), ("c", b"3", 2, late)))
    assert {str(row["event_date"]) for row in content(options, ("offset", "event_date"))} == {
        "2026-11-16",
        "2026-11-13",
    }
    folders = {Path(path).parent.name for path in _parquet_files(options)}
    assert {"event_date=2026-11-16", "event_date=2026-11-13"} <= folders
    assert content(options)[1] == {"key": "b", "value": None, "offset": 1}


def test_a_new_column_is_added_and_old_rows_have_null_there(options: LakeOptions) -> None:
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    wider = rows(("b", b"2", 1, MONDAY)).append_column("country", pa.array(["NZ"]))
    commit(options, 1, wider)
    assert [row["country"] for row in content(options, ("offset", "country"))] == [None, "NZ"]
    commit(options, 2, rows(("c", b"3", 2, MONDAY)))  # and a writer that does not know it yet goes on
    assert [row["country"] for row in content(options, ("offset", "country"))] == [None, "NZ", None]


def test_a_column_of_another_type_is_refused_by_name(options: LakeOptions) -> None:
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    other = rows(("b", b"2", 1, MONDAY)).drop_columns(["value"]).append_column("value", pa.array([1], pa.int64()))
    with pytest.raises(OptionError, match="column 'value'"):
        written(options, other)


def test_upsert_keeps_the_newest_row_of_a_key_and_null_deletes(options: LakeOptions, table_format: str) -> None:
    if table_format == "parquet":
        with pytest.raises(OptionError, match="no upsert"):
            commit(options, 0, rows(("a", b"1", 0, MONDAY)), how=HOW)
        return
    commit(options, 0, rows(("a", b"1", 0, MONDAY), ("b", b"1", 1, MONDAY), ("a", b"2", 2, MONDAY)), how=HOW)
    assert content(options) == [
        {"key": "b", "value": b"1", "offset": 1},
        {"key": "a", "value": b"2", "offset": 2},
    ]
    commit(options, 1, rows(("b", None, 3, MONDAY), ("c", b"1", 4, MONDAY), ("never", None, 5, MONDAY)), how=HOW)
    commit(options, 1, rows(("a", b"repeated", 9, MONDAY)), how=HOW)  # the batch is there already
    commit(options, 2, rows(("a", b"older", 1, MONDAY)), how=HOW)  # and so is a newer row of the key
    assert content(options) == [
        {"key": "a", "value": b"2", "offset": 2},
        {"key": "c", "value": b"1", "offset": 4},
    ]
    assert open_table(options.destination).last_batch("app") == 2


@pytest.mark.parametrize("table_format", ["delta", "iceberg"], indirect=True)
def test_upserted_rows_expire_by_their_date(tmp_path: Path, table_format: str) -> None:
    place = {"path": str(tmp_path / "orders"), "tableFormat": table_format, "appId": "app"}
    options = parse_lake_options({**place, "writeMode": "upsert", "partitionBy": "event_date"})
    commit(options, 0, rows(("a", b"1", 0, MONDAY - datetime.timedelta(30)), ("b", b"1", 1, MONDAY)), how=HOW)
    assert open_table(options.destination).expire_rows("2026-11-01") == 1
    assert content(options) == [{"key": "b", "value": b"1", "offset": 1}]


def test_of_several_rows_of_a_key_the_largest_order_wins() -> None:
    table = pa.Table.from_batches([rows(("a", b"new", 7, MONDAY), ("b", b"x", 1, MONDAY), ("a", b"old", 3, MONDAY))])
    kept = latest_by_key(table, HOW).select(["key", "value"]).to_pylist()
    assert sorted(kept, key=str) == [{"key": "a", "value": b"new"}, {"key": "b", "value": b"x"}]


def test_compaction_makes_one_file_of_many_and_changes_no_row(options: LakeOptions, table_format: str) -> None:
    for number in range(4):
        commit(options, number, rows((f"k{number}", b"v", number, MONDAY)))
    table = open_table(options.destination)
    if table_format == "parquet":
        with pytest.raises(OptionError, match="use Delta or Iceberg"):
            table.compact(1 << 20)
        return
    before = content(options)
    done = table.compact(1 << 20)
    assert (done.files_before, done.files_after) == (4, 1)
    assert content(options) == before
    assert table.last_batch("app") == 3
    assert open_table(options.destination).remove_old_files(0) > 0
    assert content(options) == before


@pytest.mark.parametrize("table_format", ["delta", "iceberg"], indirect=True)
def test_compaction_makes_files_of_the_size_that_is_wanted(options: LakeOptions) -> None:
    for number in range(9):
        value = os.urandom(200_000 if number else 900_000)  # the first is large enough as it is
        commit(options, number, rows((f"k{number}", value, number, MONDAY)))
    before = content(options)
    open_table(options.destination).compact(1_000_000)
    sizes = sorted(open_table(options.destination).file_sizes())
    assert len(sizes) == 3, sizes
    assert max(sizes) < 1_100_000, "files are too large"
    assert content(options) == before
    assert open_table(options.destination).compact(1_000_000).files_after == len(sizes), "it was compacted in vain"


def test_compaction_leaves_alone_what_somebody_else_has_replaced(tmp_path: Path) -> None:
    place = {"path": str(tmp_path / "orders"), "tableFormat": "iceberg", "appId": "app"}
    options = parse_lake_options(place)
    for number in range(3):
        commit(options, number, rows((f"k{number}", b"v", number, MONDAY)))
    late = open_table(options.destination)
    opened = late._open  # type: ignore[attr-defined]

    def compacted_meanwhile() -> object:
        late._open = opened  # type: ignore[attr-defined]
        planned = opened()
        assert open_table(options.destination).compact(1 << 20).files_after == 1
        commit(options, 3, rows(("k3", b"v", 3, MONDAY)))
        return planned

    late.file_sizes = list  # type: ignore[method-assign]
    late._open = compacted_meanwhile  # type: ignore[attr-defined]
    late.compact(1 << 20)
    assert [row["offset"] for row in content(options)] == [0, 1, 2, 3]
    assert len(open_table(options.destination).file_sizes()) == 2


def test_icebergs_commits_do_not_carry_the_tables_past_and_lose_nothing_of_it(tmp_path: Path) -> None:
    """pyiceberg copies all snapshots a dozen times in a commit: those of a stream would slow it down more and more."""
    options = parse_lake_options({"path": str(tmp_path / "orders"), "tableFormat": "iceberg", "appId": "app"})
    for number in range(4):
        commit(options, number, rows((f"k{number}", b"v", number, MONDAY)), how=HOW if number == 3 else None)
    table: Any = open_table(options.destination)
    assert len(table._checked(None).metadata.snapshots) == 1
    whole = table._open().metadata
    assert len(whole.snapshots) == len(whole.snapshot_log) == 4
    assert table._open().scan(snapshot_id=whole.snapshots[1].snapshot_id).to_arrow().num_rows == 2


def test_expiry_leaves_no_manifest_that_no_snapshot_needs(tmp_path: Path) -> None:
    options = parse_lake_options({"path": str(tmp_path / "orders"), "tableFormat": "iceberg", "appId": "app"})
    for number in range(12):
        commit(options, number, rows((f"k{number}", b"v", number, MONDAY)))
    table = open_table(options.destination)
    table.compact(1 << 20)
    before = content(options)
    manifests = list(tmp_path.rglob("*.avro"))
    table.remove_old_files(0)
    left = list(tmp_path.rglob("*.avro"))
    assert len(left) < len(manifests) / 4, "one list and what it names is all that is needed"
    assert content(options) == before
    commit(options, 12, rows(("k12", b"v", 12, MONDAY)))
    assert len(content(options)) == 13


def test_a_parquet_write_without_a_stamp_leaves_no_books(tmp_path: Path) -> None:
    options = parse_lake_options({"path": str(tmp_path / "orders"), "tableFormat": "parquet"})
    for number in range(3):
        table, files = written(options, rows((f"k{number}", b"v", number, MONDAY)))
        commit_once(options.destination, table, files, None, None)
    assert not list((tmp_path / "orders" / "_runnel" / "commits").iterdir())
    assert [row["offset"] for row in content(options)] == [0, 1, 2]


def test_an_iceberg_table_knows_its_columns_by_name_from_the_beginning(tmp_path: Path) -> None:
    """Two queries that fill a new table: the first commit of one must not forget the columns that the other added."""
    options = parse_lake_options({"path": str(tmp_path / "orders"), "tableFormat": "iceberg", "appId": "app"})
    table, files = written(options, rows(("a", b"1", 0, MONDAY)))
    slow = table._open()  # type: ignore[attr-defined]
    wider = rows(("b", b"2", 1, MONDAY)).append_column("colour", pa.array(["red"]))
    table._open = lambda: slow  # type: ignore[attr-defined]
    other, others = written(options, wider)
    with contextlib.suppress(Conflict):
        table.append(files, Stamp("slow", 0))
    other.append(others, Stamp("app", 0))
    assert [row["colour"] for row in content(options, ("key", "colour", "offset")) if row["key"] == "b"] == ["red"]


def test_old_days_are_expired_by_their_date(options: LakeOptions) -> None:
    old = MONDAY - datetime.timedelta(days=40)
    commit(options, 0, rows(("a", b"1", 0, old), ("b", b"2", 1, MONDAY), ("c", b"3", 2, old)))
    assert open_table(options.destination).expire_rows("2026-11-01") == 2
    assert [row["offset"] for row in content(options)] == [1]


def test_what_a_crash_left_uncommitted_is_never_seen_and_is_cleaned_up(options: LakeOptions) -> None:
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    written(options, rows(("ghost", b"1", 1, MONDAY)))  # the driver dies here
    assert [row["key"] for row in content(options)] == ["a"]
    _make_old(options)
    assert open_table(options.destination).remove_old_files(1) == 1
    assert [row["key"] for row in content(options)] == ["a"]


def test_a_parquet_folder_shows_what_is_committed_to_readers_that_hide_nothing(tmp_path: Path) -> None:
    """DuckDB and polars look for `**/*.parquet`, below names with `_` too."""
    import pyarrow.parquet as pq

    options = parse_lake_options({"path": str(tmp_path / "orders"), "tableFormat": "parquet", "appId": "app"})
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    written(options, rows(("staged", b"1", 1, MONDAY)))
    files = list((tmp_path / "orders").glob("**/*.parquet"))
    assert [pq.read_table(path, columns=["key"], partitioning=None).to_pylist() for path in files] == [[{"key": "a"}]]


def test_a_parquet_commit_that_died_between_its_moves_is_finished(tmp_path: Path) -> None:
    options = parse_lake_options({"path": str(tmp_path / "orders"), "tableFormat": "parquet", "appId": "app"})
    late = MONDAY - datetime.timedelta(days=1)
    table, files = written(options, rows(("a", b"1", 0, MONDAY), ("b", b"2", 1, late)))
    commit_once(options.destination, table, files, Stamp("app", 0), None)
    moved = next((tmp_path / "orders").glob("event_date=2026-11-15/*.parquet"))
    staged = next(tmp_path / "orders" / f.path for f in files if moved.stem in f.path)
    staged.parent.mkdir(parents=True, exist_ok=True)
    moved.rename(staged)
    assert open_table(options.destination).last_batch("app") == 0
    assert [row["offset"] for row in content(options)] == [0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "where the table is"),
        ({"path": "x", "tableFormat": "csv"}, "one of delta, iceberg, parquet"),
        ({"path": "x", "writeMode": "merge"}, "one of append, upsert"),
        ({"path": "x", "partitionsBy": "y"}, "no option 'partitionsby'"),
        ({"path": "x", "writeMode": "upsert", "tableFormat": "parquet"}, "no upsert: set tableFormat to delta"),
        ({"path": "x", "batchId": "-1"}, "whole number"),
        ({"path": "x", "table": "orders"}, "namespace.table"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_lake_options(given)


def _parquet_files(options: LakeOptions) -> set[str]:
    """Of the table, and those that no commit has named yet."""
    return {str(path) for path in Path(options.destination.path).rglob("part-*")}


def _make_old(options: LakeOptions) -> None:
    for path in _parquet_files(options):
        os.utime(path, (0, 0))
