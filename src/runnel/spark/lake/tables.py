"""What every lake table can do, whatever its format, and how one is opened.

A commit is stamped with (app id, batch id). `commit_once` is the exactly-once rule, in one place for all formats: the
batch that was committed last is not committed again, and an older one, or the same of another checkpoint, means that
the checkpoint does not belong to the table. A table looks for the stamp in the version that it commits to: a driver
that was given up for dead and still writes meets a `Conflict`, not a second copy of its batch.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from runnel.spark.errors import OptionError
from runnel.spark.lake.files import DataFile, Layout, remove_files
from runnel.spark.lake.options import EVENT_DATE, Destination, LakeOptions
from runnel.spark.lake.stores import Store

CONFLICTS_MAX = 10
CONFLICT_WAIT_S = 0.05
"""At most, after the first conflict, and twice as long after each other one."""
EVENT_TIME_DEFAULT = "timestamp"
WHOLE_NUMBERS = ("int8", "int16", "int32")
"""Each may be written where the table has one further right: Parquet stores them alike, Iceberg has only the last."""
Result = TypeVar("Result")


class Stamp(NamedTuple):
    app_id: str
    batch_id: int
    query_id: str | None = None
    """Of Spark's checkpoint, where one is known: another checkpoint counts its batches from 0 again."""

    @property
    def names(self) -> list[str]:
        """Under which the batch is noted in the table."""
        if self.query_id in (None, self.app_id):
            return [self.app_id]
        return [self.app_id, f"{self.app_id}/{self.query_id}"]


class Upsert(NamedTuple):
    """Rows replace those with the same keys; a null in `value_column` deletes; of several the largest order wins, of
    equal ones the last."""

    key_columns: tuple[str, ...]
    order_column: str | None
    value_column: str | None


class Maintained(NamedTuple):
    """What a maintenance job did."""

    files_before: int
    files_after: int
    files_removed: int


class LakeTable(Protocol):
    keeps_partition_columns: bool
    folder: str
    """Where in the table's root executors write: what is not committed must not be seen by readers of the root."""
    ending: str
    """Of the names of what they write."""

    @property
    def store(self) -> Store: ...

    def exists(self) -> bool:
        """Asking makes nothing."""

    def ensure(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Make the table, or add the columns that it lacks."""

    def lacking(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns that it lacks, of a table that is there; OptionError where it cannot take such rows."""

    def last_batch(self, app_id: str) -> int | None: ...
    def append(self, files: Sequence[DataFile], stamp: Stamp | None, *, overwrite: bool = False) -> None:
        """One commit; AlreadyThere or Conflict where it is not to be, or not now."""

    def upsert(self, rows: pa.Table, how: Upsert, stamp: Stamp | None) -> None: ...
    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]: ...
    def schema(self) -> pa.Schema: ...
    def partition_columns(self) -> Sequence[str]: ...
    def file_sizes(self) -> list[int]: ...
    def compact(self, file_bytes: int) -> Maintained: ...
    def expire_rows(self, before_date: str) -> int: ...
    def remove_old_files(self, hours: float) -> int: ...


class Conflict(RuntimeError):
    """Another writer changed the table in between, and nothing of ours is in it: look again."""


class AlreadyThere(Exception):
    """The table has this batch, or a later one, of the app."""

    def __init__(self, last: int) -> None:
        super().__init__(f"batch {last} is in the table")
        self.last = last
        self.may_be_ours = False
        """An attempt before this one was told as a conflict, and may have got through all the same."""


class StaleCheckpoint(RuntimeError):
    """The query repeats batches that the table has had long ago."""

    def __init__(self, destination: Destination, stamp: Stamp, last: int) -> None:
        super().__init__(
            f"{destination.path} already holds batch {last} of app '{stamp.app_id}', and the query now writes another "
            f"batch {stamp.batch_id}: its checkpoint was deleted or belongs to another run. Give the query its old "
            "checkpoint back, or another appId if it shall load everything again."
        )


def open_table(destination: Destination) -> LakeTable:
    """The table at this place, which need not exist yet. The libraries of the other formats are not imported."""
    try:
        if destination.table_format == "delta":
            from runnel.spark.lake.delta import DeltaLakeTable

            return DeltaLakeTable(destination)
        if destination.table_format == "iceberg":
            from runnel.spark.lake.iceberg import IcebergLakeTable

            return IcebergLakeTable(destination)
    except ImportError as error:
        raise OptionError(f"{destination.table_format} tables need the extra: pip install 'runnel[lake]'") from error
    from runnel.spark.lake.plain_parquet import ParquetLakeTable

    return ParquetLakeTable(destination)


def existing_table(destination: Destination) -> LakeTable:
    table = open_table(destination)
    if not table.exists():
        raise OptionError(
            f"there is no {destination.table_format} table at {destination.path}: look at path and format"
        )
    return table


def table_layout(table: LakeTable, options: LakeOptions, schema: pa.Schema) -> Layout:
    """As the table is laid out already; else by event date where there is an event time, unless the options say
    otherwise. New tables for upserts are not partitioned. The store is filled in once the table exists.
    """
    event_time = _event_time(options, schema)
    partition_by, says = options.partition_by, "option 'partitionBy' names"
    if table.exists():
        there = tuple(table.partition_columns())
        if partition_by not in (None, there):
            raise OptionError(
                f"the table is partitioned by {', '.join(there) or 'nothing'}: option 'partitionBy' cannot change that"
            )
        partition_by, says = there, "the table is partitioned by"
    elif partition_by is None:
        partition_by = (EVENT_DATE,) if event_time is not None and not options.is_upsert else ()
    hidden = ("_", ".") if options.destination.table_format == "parquet" else (".",)
    for name in partition_by:
        if name.startswith(hidden):
            raise OptionError(f"{says} '{name}': readers pass over folders of such names")
        if name not in schema.names and not (name == EVENT_DATE and event_time is not None):
            raise OptionError(f"{says} '{name}': the rows have {', '.join(schema.names)}")
        if name in schema.names and not _names_a_folder(schema.field(name).type):
            raise OptionError(
                f"{says} '{name}', which is {schema.field(name).type}: cast it to text, or choose another"
            )
    if not table.keeps_partition_columns and set(partition_by) >= set(schema.names):
        raise OptionError(f"{says} every column: leave out one at least, for the files to hold")
    keeps = table.keeps_partition_columns or options.is_upsert  # an upsert reads the files back
    return Layout(Store(""), table.folder, table.ending, partition_by, event_time, keeps, options.file_bytes)


def _event_time(options: LakeOptions, schema: pa.Schema) -> str | None:
    """Rows may well have a column of the usual name that holds something else: seconds, or text."""
    name = options.event_time_column or EVENT_TIME_DEFAULT
    kind = schema.field(name).type if name in schema.names else None
    if kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return name
    if options.event_time_column is not None:
        found = f"which is {kind}: cast it to timestamp" if kind is not None else f"and the rows have {schema.names}"
        raise OptionError(f"option 'eventTimeColumn' names '{name}', {found}")
    return None


def _names_a_folder(kind: pa.DataType) -> bool:
    """Whether a value survives as text: bytes do not, numbers with a fraction are not equal to themselves always."""
    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp)
    return _plain(kind) == "string" or any(test(kind) for test in tests)


def table_schema(schema: pa.Schema, layout: Layout) -> pa.Schema:
    """The columns of the table: those of the rows, and the date that they are laid out by."""
    if EVENT_DATE in layout.partition_by and EVENT_DATE not in schema.names:
        return schema.append(pa.field(EVENT_DATE, pa.date32()))
    return schema


def check_types(destination: Destination, there: pa.Schema, given: pa.Schema) -> list[pa.Field]:
    """The fields that the table lacks; OptionError where one that it has is of another type, may not be null (nobody
    would look), or is written otherwise: Spark, and Delta, do not tell names apart by case."""
    for field in there:
        for name in _never_null(field, field.name):
            raise OptionError(
                f"column '{name}' of {destination.path} must not be null, which would not be checked: let it be "
                "null, or write to another table"
            )
    lacking = []
    known = {name.lower(): name for name in there.names}
    for field in given:
        index = there.get_field_index(field.name)
        if index < 0 and field.name.lower() in known:
            raise OptionError(
                f"column '{field.name}' is '{known[field.name.lower()]}' in {destination.path}: rename it to that"
            )
        if index < 0:
            lacking.append(field)
        elif not _fits(there.field(index).type, field.type):
            raise OptionError(
                f"column '{field.name}' of {destination.path} is {there.field(index).type}, and the query writes "
                f"{field.type}: cast it, or write to another table"
            )
    return lacking


def _never_null(field: pa.Field, name: str) -> Iterator[str]:
    """The field, and those in it, that may not be null; a map's keys never are."""
    if not field.nullable:
        yield name
    kind = field.type
    if pa.types.is_map(kind):
        yield from _never_null(kind.item_field, f"{name}.value")
        yield from _never_null(kind.key_field.with_nullable(True), f"{name}.key")
    elif _is_list(kind):
        yield from _never_null(kind.value_field, f"{name}.element")
    elif pa.types.is_struct(kind):
        yield from (inner for part in kind for inner in _never_null(part, f"{name}.{part.name}"))


def _fits(there: pa.DataType, given: pa.DataType) -> bool:
    """Formats read text and bytes back as other variants of Arrow's types, times with other zone names, and lists and
    maps with other names inside."""
    if pa.types.is_map(there) and pa.types.is_map(given):
        return _fits(there.key_type, given.key_type) and _fits(there.item_type, given.item_type)
    if pa.types.is_struct(there) and pa.types.is_struct(given):
        same_names = [field.name for field in there] == [field.name for field in given]
        return same_names and all(_fits(one.type, other.type) for one, other in zip(there, given, strict=True))
    if _is_list(there) and _is_list(given):
        return _fits(there.value_type, given.value_type)
    if str(there) in WHOLE_NUMBERS and str(given) in WHOLE_NUMBERS:
        return WHOLE_NUMBERS.index(str(given)) <= WHOLE_NUMBERS.index(str(there))
    return _plain(there) == _plain(given)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _plain(kind: pa.DataType) -> str:
    text = str(kind).replace("large_", "").replace("_view", "")
    for zone in ("Etc/UTC", "+00:00"):
        text = text.replace(zone, "UTC")
    return text


def commit_once(
    destination: Destination, table: LakeTable, files: Sequence[DataFile], stamp: Stamp | None, how: Upsert | None
) -> bool:
    """Make the files part of the table, unless this batch is in it already; whether it was not."""
    try:
        if how is None:
            retried(lambda: table.append(files, stamp))
        else:
            retried(lambda: upsert_files(table, files, how, stamp))
    except AlreadyThere as known:
        if how is not None or not known.may_be_ours:
            remove_files(table.store, [file.path for file in files])
        if stamp is not None and (stamp.batch_id < known.last or table.last_batch(stamp.names[-1]) != stamp.batch_id):
            raise StaleCheckpoint(destination, stamp, known.last) from None
        return False
    if how is not None:
        remove_files(table.store, [file.path for file in files])
    return True


def check_new(stamp: Stamp | None, last: int | None) -> None:
    """For formats, with what the version that they commit to says about the app."""
    if stamp is not None and last is not None and stamp.batch_id <= last:
        raise AlreadyThere(last)


def retried(action: Callable[[], Result]) -> Result:
    """Whoever meets another writer starts again from what that one left, after a while by chance: writers that all
    start again at once meet again, and the slow among them never get through."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return action()
        except Conflict as conflict:
            if attempt == CONFLICTS_MAX:
                raise Conflict(f"given up after {attempt} attempts: {conflict}") from conflict
            time.sleep(random.uniform(0, CONFLICT_WAIT_S * 2 ** (attempt - 1)))
        except AlreadyThere as known:
            known.may_be_ours = attempt > 1
            raise


def upsert_files(table: LakeTable, files: Sequence[DataFile], how: Upsert, stamp: Stamp | None) -> None:
    """Merge what the executors wrote. The batch is read back on the driver: upserts are for tables of entities."""
    import pyarrow.parquet as pq

    filesystem, base = table.store.open()
    paths = [f"{base.rstrip('/')}/{file.path}" for file in files]
    parts = [pq.read_table(path, filesystem=filesystem, partitioning=None) for path in paths]
    if parts:
        table.upsert(latest_by_key(pa.concat_tables(parts, promote_options="default"), how), how, stamp)


def latest_by_key(rows: pa.Table, how: Upsert) -> pa.Table:
    """The last row of each key: by the order column, else as they come."""
    import pyarrow.compute as pc

    order = rows.column(how.order_column) if how.order_column else pa.array(range(rows.num_rows))
    numbered = rows.append_column("__row", pa.array(range(rows.num_rows)))
    ranked = numbered.take(pc.sort_indices(order))
    last = ranked.group_by(list(how.key_columns), use_threads=False).aggregate([("__row", "last")])
    return rows.take(last.column("__row_last"))
