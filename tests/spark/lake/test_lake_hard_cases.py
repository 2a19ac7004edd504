"""Lake tables where things are not as the last query left them: other options, types and zones, and slow rivals."""

import datetime
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.lake.test_lake_tables import MONDAY, commit, content, rows, written

from runnel.spark.errors import OptionError
from runnel.spark.lake import tables
from runnel.spark.lake.columns import in_utc, nullable
from runnel.spark.lake.options import TABLE_FORMATS, LakeOptions, parse_lake_options
from runnel.spark.lake.sink import LakeCommit, Prepared, remove_rows
from runnel.spark.lake.tables import (
    CONFLICTS_MAX,
    Conflict,
    StaleCheckpoint,
    Stamp,
    Upsert,
    commit_once,
    open_table,
    retried,
)

UPSERTING = ("delta", "iceberg")


def options_of(folder: Path, table_format: str, **more: str) -> LakeOptions:
    given = {"path": str(folder / "lake" / "orders"), "tableFormat": table_format, "appId": "app"}
    return parse_lake_options({**given, **more})


def people(*records: tuple[str | None, str | None, int]) -> pa.RecordBatch:
    names, countries, numbers = zip(*records, strict=True)
    columns = [pa.array(names, pa.string()), pa.array(countries, pa.string()), pa.array(numbers, pa.int64())]
    return pa.record_batch(columns, ["name", "country", "offset"])


# Layout -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_table_keeps_its_partitions_whatever_the_next_query_says(tmp_path: Path, table_format: str) -> None:
    by_country = options_of(tmp_path, table_format, partitionBy="country")
    commit(by_country, 0, people(("Ada", "UK", 0)))
    commit(options_of(tmp_path, table_format), 1, people(("Bob", "NZ", 1)))
    found = content(by_country, ("name", "country", "offset"))
    assert [(row["name"], row["country"]) for row in found] == [("Ada", "UK"), ("Bob", "NZ")]
    with pytest.raises(OptionError, match="partitioned by country"):
        commit(options_of(tmp_path, table_format, partitionBy="name"), 2, people(("Eve", "FR", 2)))
    with pytest.raises(OptionError, match="partitioned by 'country'"):
        commit(by_country, 2, people(("Eve", "FR", 2)).drop_columns(["country"]))


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_table_without_partitions_gets_none_later(tmp_path: Path, table_format: str) -> None:
    plain = options_of(tmp_path, table_format)
    commit(plain, 0, people(("Ada", "UK", 0)))
    with pytest.raises(OptionError, match="partitioned by nothing"):
        commit(options_of(tmp_path, table_format, partitionBy="country"), 1, people(("Bob", "NZ", 1)))
    timed = people(("Bob", "NZ", 1)).append_column("timestamp", pa.array([MONDAY], pa.timestamp("us", "UTC")))
    commit(plain, 1, timed)
    assert [row["country"] for row in content(plain, ("country", "offset"))] == ["UK", "NZ"]


# Commits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_commit_that_got_through_and_was_told_as_a_conflict_keeps_its_files(
    tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(tmp_path, table_format)
    table, files = written(options, rows(("a", b"1", 0, MONDAY)))
    append: Any = table.append
    calls: list[int] = []

    def ambiguous(*arguments: Any, **more: Any) -> None:
        append(*arguments, **more)
        calls.append(1)
        raise Conflict("a repeated request")

    monkeypatch.setattr(table, "append", ambiguous)
    assert commit_once(options.destination, table, files, Stamp("app", 0), None) is False
    assert len(calls) == 1
    assert [row["offset"] for row in content(options)] == [0]


def test_a_commit_that_got_through_before_the_last_attempt_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CONFLICT_WAIT_S", 0)
    options = options_of(tmp_path, "delta")
    table, files = written(options, rows(("a", b"1", 0, MONDAY)))
    append: Any = table.append
    calls: list[int] = []

    def through_when_it_is_almost_given_up(*arguments: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) >= CONFLICTS_MAX - 1:
            append(*arguments, **more)
        raise Conflict("a rival, or a repeated request")

    monkeypatch.setattr(table, "append", through_when_it_is_almost_given_up)
    assert commit_once(options.destination, table, files, Stamp("app", 0), None) is False
    assert len(calls) == CONFLICTS_MAX
    assert [row["offset"] for row in content(options)] == [0]


def test_conflicts_without_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CONFLICT_WAIT_S", 0)
    calls: list[int] = []

    def conflict() -> None:
        calls.append(1)
        raise Conflict("a rival")

    with pytest.raises(Conflict, match=f"given up after {CONFLICTS_MAX} attempts: a rival"):
        retried(conflict)
    assert len(calls) == CONFLICTS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_queries_that_never_pause_all_get_into_one_table(tmp_path: Path, table_format: str) -> None:
    writers, batches = 4, 6
    options = options_of(tmp_path, table_format)
    written(options, people(("Ada", "UK", 0)))

    def write(writer: int) -> None:
        for number in range(batches):
            table, files = written(options, people(("Ada", "UK", writer * batches + number)))
            assert commit_once(options.destination, table, files, Stamp(f"app {writer}", number), None)

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert [row["offset"] for row in content(options, ("offset",))] == list(range(writers * batches))


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_an_abort_of_a_batch_that_others_have_gone_beyond_removes_nothing(tmp_path: Path, table_format: str) -> None:
    options = options_of(tmp_path, table_format)
    table, files = written(options, rows(("a", b"1", 0, MONDAY)))
    commit_once(options.destination, table, files, Stamp("app", 5), None)
    commit(options, 6, rows(("b", b"1", 1, MONDAY)))
    remove_rows(Prepared(options, None, None), [LakeCommit(files)], 5)  # type: ignore[arg-type]
    assert [row["offset"] for row in content(options)] == [0, 1]


def test_a_parquet_writer_that_slept_through_two_batches_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(tmp_path, "parquet")
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    table, files = written(options, rows(("b", b"1", 1, MONDAY)))
    write: Any = table._write_atomic  # type: ignore[attr-defined]

    def after_the_others(*arguments: Any, **more: Any) -> None:
        monkeypatch.setattr(table, "_write_atomic", write)
        commit(options, 1, rows(("b", b"1", 1, MONDAY)))
        commit(options, 2, rows(("c", b"1", 2, MONDAY)))
        write(*arguments, **more)

    monkeypatch.setattr(table, "_write_atomic", after_the_others)
    with pytest.raises(StaleCheckpoint):
        commit_once(options.destination, table, files, Stamp("app", 1), None)
    assert [row["offset"] for row in content(options)] == [0, 1, 2]


# Upserts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_format", UPSERTING)
def test_keys_of_two_columns(tmp_path: Path, table_format: str) -> None:
    options, how = options_of(tmp_path, table_format, writeMode="upsert"), Upsert(("name", "country"), "offset", None)
    commit(options, 0, people(("Ada", "UK", 0), ("Ada", "NZ", 1), ("Ada", None, 2)), how=how)
    commit(options, 1, people(("Ada", "UK", 3), ("Ada", None, 4), ("Bob", None, 5)), how=how)
    found = content(options, ("name", "country", "offset"))
    assert [(row["name"], row["country"], row["offset"]) for row in found] == [
        ("Ada", "NZ", 1),
        ("Ada", "UK", 3),
        ("Ada", None, 4),
        ("Bob", None, 5),
    ]


@pytest.mark.parametrize("table_format", UPSERTING)
def test_keys_that_hold_nulls_replace_no_others(tmp_path: Path, table_format: str) -> None:
    keys = [(name, country) for name in (None, "Ada", "Bob") for country in (None, "NZ", "UK")]
    how = Upsert(("name", "country"), "offset", None)
    for number, pair in enumerate([((None, "NZ"), ("Ada", "UK")), ((None, None), ("Bob", None)), (("Ada", None),) * 2]):
        options = options_of(tmp_path / str(number), table_format, writeMode="upsert")
        commit(options, 0, people(*((*key, offset) for offset, key in enumerate(keys))), how=how)
        commit(options, 1, people(*((*key, 100 + offset) for offset, key in enumerate(pair))), how=how)
        found = content(options, ("name", "country", "offset"))
        assert sorted(((row["name"], row["country"]) for row in found), key=str) == sorted(keys, key=str)
        assert {(row["name"], row["country"]) for row in found if row["offset"] >= 100} == set(pair)  # type: ignore[operator]


@pytest.mark.parametrize("table_format", UPSERTING)
@pytest.mark.parametrize(
    "orders",
    [
        (MONDAY, MONDAY + datetime.timedelta(seconds=1)),
        ("a", "b"),
        (1e17, 2e17),
        (None, 1.0),
    ],
    ids=["times", "texts", "large numbers", "null in the table"],
)
def test_orders_of_any_type(tmp_path: Path, table_format: str, orders: tuple[Any, Any]) -> None:
    options, how = options_of(tmp_path, table_format, writeMode="upsert"), Upsert(("key",), "order", None)
    kind = pa.array([order for order in orders if order is not None]).type
    kind = pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) else kind
    for number, order in enumerate(orders):
        columns = [pa.array(["k"]), pa.array([order], kind), pa.array([number], pa.int64())]
        commit(options, number, pa.record_batch(columns, ["key", "order", "offset"]), how=how)
    assert [row["offset"] for row in content(options, ("key", "offset"))] == [1]


@pytest.mark.parametrize("table_format", UPSERTING)
@pytest.mark.parametrize("value", [b"new", None])
def test_of_equal_orders_the_last_wins_in_one_batch_and_in_two(
    tmp_path: Path, table_format: str, value: bytes | None
) -> None:
    """Two changes of a key in one millisecond, where `orderColumn` is the timestamp."""
    how, old, new = Upsert(("key",), "timestamp", "value"), ("a", b"old", 0, MONDAY), ("a", value, 1, MONDAY)
    wanted = [] if value is None else [{"key": "a", "value": value, "offset": 1}]
    for name, batches in {"one": [rows(old, new)], "two": [rows(old), rows(new)]}.items():
        options = options_of(tmp_path / name, table_format, writeMode="upsert")
        for number, batch in enumerate(batches):
            commit(options, number, batch, how=how)
        assert content(options) == wanted


# Types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_whole_numbers_may_be_narrower_than_the_table_and_not_wider(tmp_path: Path, table_format: str) -> None:
    def one(kind: pa.DataType, number: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array([number], kind), pa.array([number], pa.int64())], ["n", "offset"])

    options = options_of(tmp_path, table_format)
    commit(options, 0, one(pa.int16(), 7))
    commit(options, 1, one(pa.int8(), 8))
    if table_format != "iceberg":  # which has nothing smaller than 32 bits
        with pytest.raises(OptionError, match="column 'n'"):
            commit(options, 2, one(pa.int32(), 100_000))
    assert [row["n"] for row in content(options, ("n", "offset"))] == [7, 8]


def test_columns_may_be_null_all_the_way_down() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("s", inner, nullable=False),
            pa.field("l", pa.list_(pa.field("element", inner, nullable=False)), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.field("value", inner, nullable=False)), nullable=False),
        ]
    )
    found = nullable(schema)
    assert all(field.nullable for field in found)
    assert found.field("s").type.field("x").nullable
    assert found.field("l").type.value_field.nullable
    assert found.field("l").type.value_type.field("x").nullable
    assert found.field("m").type.item_field.nullable
    assert not found.field("m").type.key_field.nullable


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_session_in_another_time_zone_writes_the_same_table(tmp_path: Path, table_format: str) -> None:
    late = datetime.datetime(2026, 11, 16, 23, 30, tzinfo=datetime.UTC)
    columns = [pa.array([0], pa.int64()), pa.array([late], pa.timestamp("us", "Europe/Berlin"))]
    batch = pa.record_batch(columns, ["offset", "timestamp"])
    options = options_of(tmp_path, table_format)
    table, files = written(options, in_utc(batch).slice(0, 0), batch)
    assert commit_once(options.destination, table, files, Stamp("app", 0), None)
    (row,) = content(options, ("offset", "timestamp", "event_date"))
    assert (row["timestamp"], row["event_date"]) == (late, datetime.date(2026, 11, 16))


# Maintenance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Lima"])
def test_iceberg_snapshots_expire_by_their_age_in_any_zone(
    tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    options = options_of(tmp_path, "iceberg")
    for number in range(3):
        commit(options, number, rows(("a", b"1", number, MONDAY)))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        table: Any = open_table(options.destination)
        table.remove_old_files(1)
        assert len(table._open().snapshots()) >= 3, "they are seconds old"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_delta_refuses_to_delete_what_is_not_the_tables(tmp_path: Path) -> None:
    options = options_of(tmp_path, "delta")
    commit(options, 0, rows(("a", b"1", 0, MONDAY)))
    table, _ = written(options, rows(("never", b"1", 1, MONDAY)))
    place = Path(options.destination.path)
    stranger = place / "checkpoint" / "metadata"
    stranger.parent.mkdir()
    stranger.write_text("{}")
    age(place)
    with pytest.raises(OptionError, match="checkpoint/metadata"):
        table.remove_old_files(1)
    assert stranger.exists()
    stranger.unlink()
    assert table.remove_old_files(1) == 1, "what was written and never committed"
    assert [row["offset"] for row in content(options)] == [0]


def age(folder: Path) -> None:
    """All data files are a week old."""
    for path in folder.rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            os.utime(path, (path.stat().st_mtime - 7 * 86400,) * 2)


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_the_same_batch_number_of_another_checkpoint_is_refused(tmp_path: Path, table_format: str) -> None:
    """Its rows are other rows: to take them for a repetition would lose them."""
    options = options_of(tmp_path, table_format)

    def commit_as(query: str, batch_id: int, offset: int) -> bool:
        table, files = written(options, rows(("a", b"1", offset, MONDAY)))
        return commit_once(options.destination, table, files, Stamp("app", batch_id, query), None)

    assert commit_as("one", 0, 0)
    assert not commit_as("one", 0, 0)
    with pytest.raises(StaleCheckpoint, match="another batch 0"):
        commit_as("two", 0, 1)
    assert commit_as("one", 1, 1)
    assert not commit_as("one", 1, 1)
    assert [row["offset"] for row in content(options)] == [0, 1]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])  # pyiceberg has no times beyond the year 9999
def test_an_event_time_beyond_all_dates_does_not_stop_a_query(tmp_path: Path, table_format: str) -> None:
    year_12000 = 316_516_204_800_000_000
    columns = [pa.array([0, 1, 2], pa.int64()), pa.array([0, year_12000, None], pa.timestamp("us", "UTC"))]
    options = options_of(tmp_path, table_format)
    commit(options, 0, pa.record_batch(columns, ["offset", "timestamp"]))
    dates = [row["event_date"] for row in content(options, ("offset", "event_date"))]
    assert dates == [datetime.date(1970, 1, 1), None, None]


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
@pytest.mark.parametrize("partition_by", ["country,event_date", "event_date,country"])
def test_old_days_are_expired_beside_other_partitions(tmp_path: Path, table_format: str, partition_by: str) -> None:
    options = options_of(tmp_path, table_format, partitionBy=partition_by)
    days = pa.array(
        [MONDAY - datetime.timedelta(40), MONDAY, MONDAY - datetime.timedelta(40)], pa.timestamp("us", "UTC")
    )
    batch = people(("Ada", "UK", 0), ("Bob", "UK", 1), ("Eve", None, 2)).append_column("timestamp", days)
    commit(options, 0, batch)
    assert open_table(options.destination).expire_rows("2026-11-01") == 2
    assert [row["name"] for row in content(options, ("name", "offset"))] == ["Bob"]


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_dates_that_are_text_expire_too(tmp_path: Path, table_format: str) -> None:
    options = options_of(tmp_path, table_format, partitionBy="event_date")
    days = pa.array(["2026-10-01", "2026-11-16", None])
    commit(options, 0, people(("Ada", "UK", 0), ("Bob", "UK", 1), ("Eve", None, 2)).append_column("event_date", days))
    assert open_table(options.destination).expire_rows("2026-11-01") == 1
    assert [row["name"] for row in content(options, ("name", "offset"))] == ["Bob", "Eve"]


def beside_a_merge(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Somebody else writes whenever Iceberg's compaction has written a file and not yet committed it."""
    from runnel.spark.lake import iceberg

    write = iceberg._dataframe_to_data_files

    def slowly(*arguments: Any) -> Any:
        made = list(write(*arguments))
        what()
        return made

    monkeypatch.setattr(iceberg, "_dataframe_to_data_files", slowly)


def test_icebergs_compaction_is_slower_than_the_writer_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CONFLICT_WAIT_S", 0)
    options, batches = options_of(tmp_path, "iceberg"), itertools.count()

    def write() -> None:
        number = next(batches)
        commit(options, number, people(("Ada", "UK", number)))

    for _ in range(3):
        write()
    beside_a_merge(monkeypatch, write)
    assert open_table(options.destination).compact(1 << 20).files_after == 2
    assert [row["offset"] for row in content(options, ("offset",))] == [0, 1, 2, 3]


def test_icebergs_compaction_that_got_through_and_was_told_as_a_conflict_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CONFLICT_WAIT_S", 0)
    options = options_of(tmp_path, "iceberg")
    for number in range(3):
        commit(options, number, people(("Ada", "UK", number)))
    table = open_table(options.destination)
    replace: Any = table._replace  # type: ignore[attr-defined]
    calls: list[int] = []

    def ambiguous(*arguments: Any) -> Any:
        calls.append(1)
        done = replace(*arguments)
        if len(calls) == 1:
            raise Conflict("a repeated request")
        return done

    monkeypatch.setattr(table, "_replace", ambiguous)
    assert table.compact(1 << 20).files_after == 1
    assert [row["offset"] for row in content(options, ("offset",))] == [0, 1, 2]


@pytest.mark.parametrize("deleted", ["2026-11-15", "2026-11-17"], ids=["a file", "all"])
def test_icebergs_compaction_brings_nothing_back_that_was_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: str
) -> None:
    options = options_of(tmp_path, "iceberg", partitionBy="")
    for number in range(3):
        day = pa.array([datetime.date(2026, 11, 14 + number)])
        commit(options, number, people(("Ada", "UK", number)).append_column("event_date", day))
    beside_a_merge(monkeypatch, lambda: open_table(options.destination).expire_rows(deleted))
    left = open_table(options.destination).compact(1 << 20).files_after
    wanted = [1, 2] if deleted == "2026-11-15" else []
    assert [row["offset"] for row in content(options, ("offset",))] == wanted
    assert left == len(wanted)
    assert len(list(tmp_path.rglob("*.parquet"))) == 3, "the file that was made in vain is removed"


def test_a_parquet_folder_without_dates_says_that_nothing_can_expire(tmp_path: Path) -> None:
    options = options_of(tmp_path, "parquet", partitionBy="country")
    commit(options, 0, people(("Ada", "UK", 0)).append_column("event_date", pa.array([datetime.date(2020, 1, 1)])))
    with pytest.raises(OptionError, match="not partitioned by event_date"):
        open_table(options.destination).expire_rows("2026-11-01")


# What would lose or alter rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["lake/orders", "lake/orders/", "lake/orders/dead", "lake/x/../orders"])
def test_dead_letters_do_not_go_into_the_table(tmp_path: Path, place: str) -> None:
    """Both commits have the same stamp: the second, that of the good rows, would be taken for a repetition."""
    with pytest.raises(OptionError, match="dead letters need a place of theirs"):
        options_of(tmp_path, "delta", deadLetterPath=str(tmp_path / "x")[:-1] + place)
    assert options_of(tmp_path, "delta", deadLetterPath=str(tmp_path / "lake" / "orders-dead")).dead_letters


@pytest.mark.parametrize("how", [None, Upsert(("value",), "offset", None), Upsert(("offset",), None, None)], ids=str)
def test_text_that_is_none_is_refused_by_iceberg_with_the_cure(tmp_path: Path, how: Upsert | None) -> None:
    """What Spark casts to text need not be text."""
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"], pa.binary()).buffers())
    batch = pa.record_batch([pa.array([0]), text], ["offset", "value"])
    with pytest.raises(OptionError, match=r"no UTF-8, which Iceberg does not take: write make_valid_utf8\(column\)"):
        commit(options_of(tmp_path, "iceberg"), 0, batch, how=how)


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
@pytest.mark.parametrize(
    "values",
    [pa.array([0.0, -0.0, float("nan")]), pa.array([b"a", b"b", None]), pa.array([[1], [2], [3]])],
    ids=["fractions", "bytes", "lists"],
)
def test_what_is_no_folders_name_is_no_partition(tmp_path: Path, table_format: str, values: pa.Array) -> None:
    batch = pa.record_batch([pa.array([0, 1, 2]), values], ["offset", "place"])
    with pytest.raises(OptionError, match=r"names 'place', which is .*: cast it to text"):
        commit(options_of(tmp_path, table_format, partitionBy="place"), 0, batch)


@pytest.mark.parametrize(
    "values", [["2026-11-16T12:00"], [1_700_000_000_000], pa.array([5], pa.int32()), [1.5]], ids=str
)
def test_a_timestamp_that_is_no_time_has_no_date(tmp_path: Path, values: Any) -> None:
    options = options_of(tmp_path, "delta")
    commit(options, 0, pa.record_batch([pa.array([0]), pa.array(values)], ["offset", "timestamp"]))
    assert open_table(options.destination).schema().names == ["offset", "timestamp"]


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_names_that_differ_by_case_are_refused(tmp_path: Path, table_format: str) -> None:
    options = options_of(tmp_path, table_format)
    commit(options, 0, people(("Ada", "UK", 0)))
    with pytest.raises(OptionError, match=r"column 'Name' is 'name' in .*: rename it"):
        commit(options, 1, people(("Bob", "NZ", 1)).rename_columns(["Name", "country", "offset"]))


@pytest.mark.parametrize("table_format", UPSERTING)
def test_a_replaced_row_keeps_nothing_of_the_one_before(tmp_path: Path, table_format: str) -> None:
    options, how = options_of(tmp_path, table_format, writeMode="upsert"), Upsert(("name",), "offset", None)
    commit(options, 0, people(("Ada", "UK", 0)), how=how)
    commit(options, 1, people(("Ada", "NZ", 1)).drop_columns(["country"]), how=how)
    assert content(options, ("name", "country", "offset")) == [{"name": "Ada", "country": None, "offset": 1}]


@pytest.mark.parametrize("table_format", UPSERTING)
def test_a_row_without_an_order_is_the_newest(tmp_path: Path, table_format: str) -> None:
    """As among the rows of one batch."""
    options, how = options_of(tmp_path, table_format, writeMode="upsert"), Upsert(("name",), "offset", None)
    commit(options, 0, people(("Ada", "UK", 5)), how=how)
    commit(options, 1, people(("Ada", "NZ", None)), how=how)  # type: ignore[arg-type]
    assert [row["country"] for row in content(options, ("name", "country", "offset"))] == ["NZ"]


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
@pytest.mark.parametrize("is_there", [False, True])
def test_queries_that_make_or_widen_a_table_together(tmp_path: Path, table_format: str, is_there: bool) -> None:
    options = options_of(tmp_path, table_format)
    if is_there:
        commit(options, 0, people(("Ada", "UK", 0)).drop_columns(["country"]))
    together = threading.Barrier(3)

    def make(_: int) -> None:
        together.wait(30)
        written(options, people(("Bob", "NZ", 1)))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(make, range(3)))
    assert set(open_table(options.destination).schema().names) == {"name", "country", "offset"}


@pytest.mark.parametrize(
    ("table_format", "by", "complaint"),
    [
        ("delta", "name,country,offset,_x", "every column"),
        ("delta", ".x", "readers pass over"),
        ("parquet", "_x", "readers pass over"),
    ],
)
def test_a_layout_in_which_rows_could_not_be_found_is_refused(
    tmp_path: Path, table_format: str, by: str, complaint: str
) -> None:
    batch = people(("Ada", "GB", 1)).append_column("_x", pa.array(["x"]))
    with pytest.raises(OptionError, match=complaint):
        commit(options_of(tmp_path, table_format, partitionBy=by), 0, batch)
