"""`format("runnel-lake")`: the sink of Spark queries into lake tables, batch and streaming.

In: options and a schema; Arrow batches on the executors. Out: one commit per batch, on the driver. Rows whose error
column is not null go to the dead-letter table instead: both tables keep the stamp, so that a repeated batch completes
the one that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from runnel.spark.errors import OptionError
from runnel.spark.lake.options import ERROR_DEFAULT, NO_OVERWRITE, Destination, LakeOptions, parse_lake_options
from runnel.spark.settling import settle
from runnel.spark.worker_daemon import quieten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from runnel.spark.lake.files import DataFile, FileWriter, Layout
    from runnel.spark.lake.tables import Stamp, Upsert


ORDER_DEFAULT, VALUE_DEFAULT = "offset", "value"


quieten()  # the processes in which Spark plans come here first


class LakeDataSource(DataSource):
    """Lake tables, as a place to write to. They are read with Spark's own readers, or with anything else."""

    @classmethod
    def name(cls) -> str:
        return "runnel-lake"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = parse_lake_options(self.options)
        if (options.app_id is None) != (options.batch_id is None):
            raise OptionError("exactly-once in a batch write needs both options, appId and batchId (or neither)")
        if overwrite and options.destination.table_format == "parquet":
            raise OptionError(NO_OVERWRITE)
        if overwrite and options.is_upsert:
            raise OptionError("an upsert keeps the rows of other keys: write with mode('append')")
        return LakeBatchWriter(_prepare(options, schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        options = parse_lake_options(self.options)
        if options.app_id is None:
            raise OptionError(
                "say who writes: option 'appId', a name that stays the same when the query restarts and that no other "
                "query into this table has"
            )
        if overwrite:
            raise OptionError(
                "output mode complete cannot go into a lake table: use append, or foreachBatch with overwrite"
            )
        writer = LakeStreamWriter(_prepare(options, schema))
        settle("planning")  # Spark asks for a writer at every trigger
        return writer


@dataclass
class LakeCommit(WriterCommitMessage):
    """What one task wrote."""

    files: list[DataFile] = field(default_factory=list)
    dead_files: list[DataFile] = field(default_factory=list)


@dataclass(frozen=True)
class Prepared:
    """Both tables are there and have the columns: what executors and the commit need to know."""

    options: LakeOptions
    layout: Layout
    dead_layout: Layout | None


def check_rows(options: LakeOptions, schema: StructType) -> None:
    """OptionError where rows of these columns cannot be written; nothing is made."""
    from runnel.spark.lake.tables import open_table, table_layout, table_schema

    rows, dead = _columns(options, schema)
    for destination, columns in ((options.destination, rows), (options.dead_letters, dead)):
        if columns is not None:
            table = open_table(destination)
            layout = table_layout(table, options, columns)
            if table.exists():
                table.lacking(table_schema(columns, layout))


def _prepare(options: LakeOptions, schema: StructType) -> Prepared:
    rows, dead = _columns(options, schema)
    layout = _ensured(options, options.destination, rows)
    # By what the rows have: a table may have a value that this query does not write.
    order = options.order_column or (ORDER_DEFAULT if ORDER_DEFAULT in rows.names else None)
    value = options.value_column or (VALUE_DEFAULT if VALUE_DEFAULT in rows.names else None)
    options = replace(options, order_column=order, value_column=value)
    return Prepared(options, layout, _ensured(options, options.dead_letters, dead) if dead is not None else None)


def _columns(options: LakeOptions, schema: StructType) -> tuple[pa.Schema, pa.Schema | None]:
    """Of the table, and of its dead letters, where there is a column for errors."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from runnel.spark.lake.columns import nullable

    # Whether Spark knows of a column that it is never null says nothing about the next query.
    rows = nullable(to_arrow_schema(schema, timezone="UTC"))
    has_errors = options.error_column in rows.names
    if not has_errors and options.error_column != ERROR_DEFAULT:  # bad rows would be taken for good ones
        raise OptionError(f"option 'errorColumn' names '{options.error_column}': the rows have {', '.join(rows.names)}")
    clean = rows.remove(rows.get_field_index(options.error_column)) if has_errors else rows
    if options.is_upsert:
        _check_keys(options, clean)
    return clean, rows if has_errors else None


def _ensured(options: LakeOptions, destination: Destination, schema: pa.Schema) -> Layout:
    from runnel.spark.lake.tables import open_table, table_layout, table_schema

    table = open_table(destination)
    layout = table_layout(table, options, schema)
    table.ensure(table_schema(schema, layout), layout.partition_by)
    return layout._replace(store=table.store)


def _check_keys(options: LakeOptions, schema: pa.Schema) -> None:
    named = {
        "keyColumns": options.key_columns,
        "orderColumn": [options.order_column],
        "valueColumn": [options.value_column],
    }
    for option, columns in named.items():
        for name in columns:
            if name is not None and name not in schema.names:
                raise OptionError(f"option '{option}' names '{name}': the rows have {', '.join(schema.names)}")


def write_rows(prepared: Prepared, batches: Iterator[pa.RecordBatch]) -> LakeCommit:
    """On an executor. A task that fails removes what it wrote."""
    from runnel.spark.lake.files import FileWriter

    good = FileWriter(prepared.layout)
    dead = FileWriter(prepared.dead_layout) if prepared.dead_layout is not None else None
    try:
        for batch in batches:
            _write_batch(prepared.options.error_column, batch, good, dead)
        written = LakeCommit(good.close(), dead.close() if dead is not None else [])
    except BaseException:
        good.discard()
        if dead is not None:
            dead.discard()
        raise
    settle("writing")
    return written


def _write_batch(error_column: str, batch: pa.RecordBatch, good: FileWriter, dead: FileWriter | None) -> None:
    import pyarrow.compute as pc

    if dead is not None:
        failed = pc.is_valid(batch.column(error_column))
        if pc.any(failed).as_py():
            dead.write(batch.filter(failed))
            batch = batch.filter(pc.invert(failed))
        batch = batch.drop_columns([error_column])
    if batch.num_rows:
        good.write(batch)


def commit_rows(prepared: Prepared, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
    """On the driver. Dead letters first: a crash in between repeats the batch, and only the missing half is done."""
    from runnel.spark.lake.tables import commit_once, open_table

    options = prepared.options
    stamp = _stamp(options, batch_id)
    files, dead = _written_here(prepared, messages)
    if prepared.dead_layout is not None and (dead or stamp is not None):
        commit_once(options.dead_letters, open_table(options.dead_letters), dead, stamp, None)
    table = open_table(options.destination)
    how = _upsert(options) if options.is_upsert else None
    commit_once(options.destination, table, files, stamp, how)


def replace_rows(prepared: Prepared, messages: list[WriterCommitMessage | None]) -> None:
    """Both tables hold what was written now and nothing else. Run twice, it ends the same."""
    from runnel.spark.lake.tables import open_table, retried

    files, dead = _written_here(prepared, messages)
    if prepared.dead_layout is not None:
        dead_letters = open_table(prepared.options.dead_letters)
        retried(lambda: dead_letters.append(dead, None, overwrite=True))
    table = open_table(prepared.options.destination)
    retried(lambda: table.append(files, None, overwrite=True))


def remove_rows(prepared: Prepared, messages: list[WriterCommitMessage | None], batch_id: int | None) -> None:
    """After a failure: what the tasks wrote, except where the commit of a table got through before it.

    Without a stamp nothing tells, and files that a table may name stay; `runnel lake expire` removes the others.
    """
    from runnel.spark.lake.files import remove_files
    from runnel.spark.lake.tables import open_table

    stamp = _stamp(prepared.options, batch_id)
    if stamp is None:
        return
    files, dead = _written(messages)
    for destination, wrote in ((prepared.options.destination, files), (prepared.options.dead_letters, dead)):
        table = open_table(destination)
        last = table.last_batch(stamp.app_id) if wrote else None
        if wrote and (last is None or last < stamp.batch_id):
            remove_files(table.store, [file.path for file in wrote])


def _stamp(options: LakeOptions, batch_id: int | None) -> Stamp | None:
    from runnel.spark.lake.tables import Stamp

    if options.app_id is None or batch_id is None:
        return None
    return Stamp(options.app_id, batch_id, options.query_id)


def _written(messages: list[WriterCommitMessage | None]) -> tuple[list[DataFile], list[DataFile]]:
    """The files of the table and those of its dead letters. Of tasks that failed there is no message."""
    commits = [message for message in messages if isinstance(message, LakeCommit)]
    files = [file for message in commits for file in message.files]
    return files, [file for message in commits for file in message.dead_files]


def _written_here(
    prepared: Prepared, messages: list[WriterCommitMessage | None]
) -> tuple[list[DataFile], list[DataFile]]:
    from runnel.spark.lake.files import check_here

    files, dead = _written(messages)
    check_here(prepared.layout.store, files)
    if prepared.dead_layout is not None:
        check_here(prepared.dead_layout.store, dead)
    return files, dead


def _upsert(options: LakeOptions) -> Upsert:
    from runnel.spark.lake.tables import Upsert

    return Upsert(options.key_columns, options.order_column, options.value_column)


class LakeStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._prepared, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_rows(self._prepared, messages, batchId)
        settle("committing")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        remove_rows(self._prepared, messages, batchId)


class LakeBatchWriter(DataSourceArrowWriter):
    def __init__(self, prepared: Prepared, overwrite: bool) -> None:
        self._prepared = prepared
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(self._prepared, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._overwrite:
            replace_rows(self._prepared, messages)
        else:
            commit_rows(self._prepared, messages, self._prepared.options.batch_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        remove_rows(self._prepared, messages, None if self._overwrite else self._prepared.options.batch_id)
