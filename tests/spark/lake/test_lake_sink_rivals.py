"""Two writers of one batch, and commits that fail half way: once stays once. The sink's own classes, without a JVM."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StringType, StructType

from runnel.spark.lake.files import FilesElsewhere
from runnel.spark.lake.options import TABLE_FORMATS, parse_lake_options
from runnel.spark.lake.sink import LakeCommit, LakeDataSource, LakeStreamWriter
from runnel.spark.lake.tables import Stamp, commit_once, open_table
from spark.lake.place import rows_of

COLUMNS = StructType().add("offset", LongType()).add("value", StringType()).add("_error", StringType())
BATCHES = 12
BATCH_ROWS = 5


@pytest.fixture(params=TABLE_FORMATS)
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return {"path": str(tmp_path / "table"), "tableFormat": str(request.param), "appId": "rivals"}


def writer_of(options: dict[str, str]) -> LakeStreamWriter:
    writer = LakeDataSource(CaseInsensitiveDict(options)).streamWriter(COLUMNS, False)
    assert isinstance(writer, LakeStreamWriter)
    return writer


def batch(number: int) -> list[pa.RecordBatch]:
    """Every fifth row is bad."""
    offsets = list(range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS))
    errors = ["bad" if offset % 5 == 0 else None for offset in offsets]
    columns = [pa.array(offsets), pa.array(map(str, offsets)), pa.array(errors, pa.string())]
    return [pa.record_batch(columns, names=["offset", "value", "_error"])]


def offsets(options: dict[str, str], *, dead: bool = False) -> list[int]:
    parsed = parse_lake_options(options)
    return [row["offset"] for row in rows_of(parsed.dead_letters if dead else parsed.destination, ("offset",))]


def wanted(batches: int, *, dead: bool = False) -> list[int]:
    return [offset for offset in range(batches * BATCH_ROWS) if (offset % 5 == 0) is dead]


def test_two_drivers_that_run_the_same_query_write_each_batch_once(options: dict[str, str]) -> None:
    """One was given up for dead and was not: both commit the same batch in the same moment."""
    drivers = [writer_of(options) for _ in range(2)]
    together = threading.Barrier(len(drivers))
    failures: list[BaseException] = []

    def drive(writer: LakeStreamWriter) -> None:
        try:
            for number in range(BATCHES):
                written = [writer.write(iter(batch(number)))]
                together.wait(60)
                writer.commit(written, number)
        except BaseException as error:
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=drive, args=[writer]) for writer in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert offsets(options) == wanted(BATCHES)
    assert offsets(options, dead=True) == wanted(BATCHES, dead=True)


def test_an_abort_after_the_commit_removes_nothing_that_the_tables_name(options: dict[str, str]) -> None:
    """Spark aborts whatever fails, also when only the answer of the commit was lost."""
    writer = writer_of(options)
    written: list[Any] = [writer.write(iter(batch(0)))]
    writer.commit(written, 0)
    writer.abort(written, 0)
    assert (offsets(options), offsets(options, dead=True)) == (wanted(1), wanted(1, dead=True))


def test_an_abort_between_the_two_commits_spares_the_dead_letters(options: dict[str, str]) -> None:
    writer, parsed = writer_of(options), parse_lake_options(options)
    written = writer.write(iter(batch(0)))
    assert isinstance(written, LakeCommit)
    commit_once(parsed.dead_letters, open_table(parsed.dead_letters), written.dead_files, Stamp("rivals", 0), None)
    writer.abort([written, None], 0)  # the second task failed
    assert (offsets(options), offsets(options, dead=True)) == ([], wanted(1, dead=True))
    assert not [file for file in written.files if (Path(options["path"]) / file.path).exists()]
    again: list[Any] = [writer.write(iter(batch(0)))]
    writer.commit(again, 0)
    assert (offsets(options), offsets(options, dead=True)) == (wanted(1), wanted(1, dead=True))


@pytest.mark.parametrize("dead", [False, True], ids=["rows", "dead letters"])
def test_files_that_stayed_on_an_executor_are_not_committed(options: dict[str, str], dead: bool) -> None:
    """The nodes have a folder of that name each: the driver would commit files that nobody can read."""
    writer, parsed = writer_of(options), parse_lake_options(options)
    written = writer.write(iter(batch(0)))
    assert isinstance(written, LakeCommit)
    elsewhere = (written.dead_files if dead else written.files)[0]
    table = open_table(parsed.dead_letters if dead else parsed.destination)
    Path(table.store.root, elsewhere.path).unlink()
    with pytest.raises(FilesElsewhere, match=r"the driver does not see it: .* a folder that all nodes share"):
        writer.commit([written], 0)
    writer.abort([written], 0)
    assert (offsets(options), offsets(options, dead=True)) == ([], [])
    writer.commit([writer.write(iter(batch(0)))], 0)
    assert (offsets(options), offsets(options, dead=True)) == (wanted(1), wanted(1, dead=True))


@pytest.mark.slow
def test_the_stamp_outlives_hundreds_of_commits(options: dict[str, str]) -> None:
    """Delta folds its log into checkpoints after a hundred; manifests of Parquet folders do not pile up."""
    writer = writer_of(options)
    for number in range(220):
        writer.commit([writer.write(iter(batch(number)))], number)
    assert open_table(parse_lake_options(options).destination).last_batch("rivals") == 219
    repeated: list[Any] = [writer.write(iter(batch(219)))]
    writer.commit(repeated, 219)
    assert offsets(options) == wanted(220)
    assert len(list(Path(options["path"]).glob("_runnel/commits/*/*.json"))) <= 1
