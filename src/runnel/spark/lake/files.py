"""What an executor does for a lake table: Arrow batches in, Parquet files out, one per partition value.

The files are whole and in place when `close` returns, and belong to no table until the driver commits them.
"""

from __future__ import annotations

import datetime
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from runnel.spark.lake.columns import in_utc
from runnel.spark.lake.options import EVENT_DATE
from runnel.spark.lake.stores import Store

OPEN_FILES_MAX = 32
"""A batch with more dates than this closes the file that was used least recently; it only makes more files."""
COMPRESSION = "zstd"
FIRST_DAY, LAST_DAY = ((day - datetime.date(1970, 1, 1)).days for day in (datetime.date.min, datetime.date.max))
"""A time beyond them has no date."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

PartitionValues = tuple[tuple[str, str | None], ...]


class DataFile(NamedTuple):
    """`path` is relative to the table. `ranges` holds (column, smallest, largest, nulls) of columns that files are
    skipped by: without bounds where all is null, and not those whose bounds are not known."""

    path: str
    size_bytes: int
    row_count: int
    partition: PartitionValues
    ranges: tuple[tuple[str, Any, Any, int], ...] = ()


class Layout(NamedTuple):
    """Where and how files are written. Iceberg wants its partition columns inside the files, the others do not."""

    store: Store
    folder: str
    ending: str
    partition_by: tuple[str, ...]
    event_time_column: str | None
    keeps_partition_columns: bool
    file_bytes: int


def with_event_date(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """The rows with their date in UTC, where the table is laid out by it."""
    if EVENT_DATE not in layout.partition_by or layout.event_time_column is None or EVENT_DATE in batch.schema.names:
        return batch
    dates = pc.cast(batch.column(layout.event_time_column), pa.date32(), safe=False)
    days = pc.cast(dates, pa.int32())
    written_with_four_digits = pc.and_(pc.greater_equal(days, FIRST_DAY), pc.less_equal(days, LAST_DAY))
    dates = pc.if_else(written_with_four_digits, dates, pa.scalar(None, pa.date32()))
    return batch.append_column(EVENT_DATE, dates)


class FileWriter:
    """Use `write` for each batch, then `close` for the files; `discard` where the task fails."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._filesystem, self._root = layout.store.open()
        self._open: OrderedDict[PartitionValues, _OpenFile] = OrderedDict()
        self._done: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        for values, rows in self._split(with_event_date(in_utc(batch), self._layout)):
            file = self._file(values, rows.schema)
            file.write(rows)
            if file.bytes_written >= self._layout.file_bytes:
                self._finish(values)

    def close(self) -> list[DataFile]:
        for values in list(self._open):
            self._finish(values)
        return self._done

    def discard(self) -> None:
        remove_files(self._layout.store, [file.path for file in self.close()])

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[PartitionValues, pa.RecordBatch]]:
        columns = self._layout.partition_by
        if not columns:
            yield (), batch
            return
        kinds = pa.Table.from_batches([batch.select(list(columns))]).group_by(list(columns)).aggregate([])
        for kind in kinds.to_pylist():
            rows = batch if kinds.num_rows == 1 else batch.filter(_matching(batch, kind))
            if not self._layout.keeps_partition_columns:
                rows = rows.drop_columns(list(columns))
            yield tuple((name, None if kind[name] is None else str(kind[name])) for name in columns), rows

    def _file(self, values: PartitionValues, schema: pa.Schema) -> _OpenFile:
        file = self._open.get(values)
        if file is None:
            while len(self._open) >= OPEN_FILES_MAX:
                self._finish(next(iter(self._open)))
            file = self._open[values] = _OpenFile(self._filesystem, self._root, self._path(values), schema)
        self._open.move_to_end(values)
        return file

    def _path(self, values: PartitionValues) -> str:
        # An empty text would make a folder `name=`, which Spark does not read.
        folders = [f"{_escaped(name)}={_escaped(value) if value else NO_VALUE}" for name, value in values]
        return "/".join([*filter(None, [self._layout.folder]), *folders, f"part-{uuid.uuid4()}{self._layout.ending}"])

    def _finish(self, values: PartitionValues) -> None:
        self._done.append(self._open.pop(values).close(values))


def _escaped(text: str) -> str:
    """As Spark and Hive name folders. They take each escaped byte for a character: what is not ASCII stays as it is."""
    return "".join(quote(character, safe="") if character.isascii() else character for character in text)


class _OpenFile:
    def __init__(self, filesystem: pyarrow.fs.FileSystem, root: str, path: str, schema: pa.Schema) -> None:
        self._filesystem = filesystem
        self._path = path
        self._full_path = f"{root.rstrip('/')}/{path}"
        self._schema = schema
        self._metadata: list[pq.FileMetaData] = []
        self.bytes_written = 0
        filesystem.create_dir(self._full_path.rsplit("/", 1)[0], recursive=True)
        self._writer = pq.ParquetWriter(
            self._full_path,
            schema,
            filesystem=filesystem,
            compression=COMPRESSION,
            metadata_collector=self._metadata,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self.bytes_written += rows.nbytes

    def close(self, values: PartitionValues) -> DataFile:
        self._writer.close()
        metadata = self._metadata[0]
        size = self._filesystem.get_file_info(self._full_path).size
        return DataFile(self._path, size, metadata.num_rows, values, _ranges(metadata, self._schema))


def _matching(batch: pa.RecordBatch, kind: Mapping[str, Any]) -> pa.Array:
    masks = [
        pc.is_null(batch.column(name))
        if value is None
        else pc.equal(batch.column(name), pa.scalar(value, batch.schema.field(name).type))
        for name, value in kind.items()
    ]
    chosen = masks[0]
    for mask in masks[1:]:
        chosen = pc.and_(chosen, mask)
    return chosen


def skips(kind: pa.DataType) -> bool:
    """Whether files are skipped by such a column: whole numbers and times; the rest costs more than it saves."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _ranges(metadata: pq.FileMetaData, schema: pa.Schema) -> tuple[tuple[str, Any, Any, int], ...]:
    plain = {field.name for field in schema if skips(field.type)}
    found: dict[str, list[Any]] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if column.path_in_schema in plain and column.statistics is not None and column.statistics.has_null_count:
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    return tuple(
        (name, *bounds, sum(s.null_count for s in rows))
        for name, rows in found.items()
        if len(rows) == metadata.num_row_groups and (bounds := _bounds(rows)) is not None
    )


def _bounds(rows: list[Any]) -> tuple[Any, Any] | None:
    """None where they are not known, or Python has no such time."""
    bounded = [s for s in rows if s.num_values]  # it does not count nulls
    if not all(s.has_min_max for s in bounded):
        return None
    try:
        return min((s.min for s in bounded), default=None), max((s.max for s in bounded), default=None)
    except OverflowError:
        return None


class FilesElsewhere(RuntimeError):
    """Executors wrote where this machine does not see it: their folder has the same name, and is another."""


def check_here(store: Store, files: Sequence[DataFile]) -> None:
    """Before a commit. A table in a folder whose files stayed on the executors would be damaged unnoticed."""
    if "://" in store.root:  # a store is the same for all
        return
    filesystem, base = store.open()
    seen = filesystem.get_file_info([f"{base.rstrip('/')}/{file.path}" for file in files])
    for file, found in zip(files, seen, strict=True):
        if found.size != file.size_bytes:
            raise FilesElsewhere(
                f"an executor wrote {found.path} ({file.size_bytes} bytes), and the driver does not see it: the table "
                "must be in a folder that all nodes share (on Kubernetes a volume of the executors), or in a store"
            )


def remove_files(store: Store, paths: Sequence[str]) -> None:
    """Files that no commit will name. One that is gone already is no trouble."""
    filesystem, base = store.open()
    for path in paths:
        try:
            filesystem.delete_file(f"{base.rstrip('/')}/{path}")
        except FileNotFoundError:
            continue
