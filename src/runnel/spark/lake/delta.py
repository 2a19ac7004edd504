"""Delta tables through delta-rs: no JVM, no catalog. The stamp is Delta's own transaction identifier (`txn`)."""

from __future__ import annotations

import datetime
import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from runnel.spark.errors import OptionError
from runnel.spark.lake.files import DataFile, skips
from runnel.spark.lake.options import Destination
from runnel.spark.lake.stores import Store, folder_of
from runnel.spark.lake.tables import Conflict, Maintained, Stamp, Upsert, check_new, check_types, retried

DATA_FILE = re.compile(r"(?:[^/]+=[^/]*/)*(?:part-[^/]+\.parquet|deletion_vector_[^/]+\.bin)")
"""What writers of Delta leave in a table's folder, beside names with an underscore, which vacuum passes over."""

COLUMN_MAPPING = "delta.columnMapping.mode"
CONSTRAINTS = "delta.constraints."
FIELD_RULES = ("delta.generationExpression", "delta.invariants", "delta.identity.")
STATISTICS = "delta.dataSkippingStatsColumns"
"""Which columns files have statistics of. Delta-rs takes a column whose bounds are missing, beside others that are
there, for one without values, and finds none of its rows: a file has those of all these columns, or of none."""


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise Conflict(str(error)) from error


class DeltaLakeTable:
    keeps_partition_columns = False
    folder = ""
    ending = ".parquet"

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._storage = dict(destination.storage) or None

    @property
    def store(self) -> Store:
        return Store(folder_of(self._destination.path), self._destination.storage)

    def _open(self) -> DeltaTable:
        table = DeltaTable(self._destination.path, storage_options=self._storage)
        mapping = table.metadata().configuration.get(COLUMN_MAPPING, "none")
        if mapping != "none":
            raise OptionError(
                f"{self._destination.path} has {COLUMN_MAPPING}={mapping}: its files name columns otherwise than the "
                "table does, which is not supported; write to a table without it"
            )
        return table

    def exists(self) -> bool:
        return bool(DeltaTable.is_deltatable(self._destination.path, self._storage))

    def ensure(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        retried(lambda: self._ensure(schema, partition_by))

    @_conflicts()
    def _ensure(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        if not self.exists():
            DeltaTable.create(
                self._destination.path,
                schema=Schema.from_arrow(schema),
                partition_by=list(partition_by),
                mode="ignore",
                configuration=_statistics(schema, partition_by),
                storage_options=self._storage,
            )
        lacking = self.lacking(schema)
        if lacking:
            self._open().alter.add_columns(Schema.from_arrow(pa.schema(lacking)).fields)

    def lacking(self, schema: pa.Schema) -> list[pa.Field]:
        table = self._open()
        for name in table.metadata().configuration:
            if name.startswith(CONSTRAINTS):
                raise OptionError(
                    f"{self._destination.path} has the constraint '{name.removeprefix(CONSTRAINTS)}', which would not "
                    "be checked: drop it, or write to another table"
                )
        for rule in _field_rules(json.loads(table.schema().to_json())):
            raise OptionError(
                f"a column of {self._destination.path} has the rule {rule}, which would not be kept: drop it, or write "
                "to another table"
            )
        return check_types(self._destination, pa.schema(table.schema().to_arrow()), schema)

    def last_batch(self, app_id: str) -> int | None:
        return self._open().transaction_version(app_id)

    def append(self, files: Sequence[DataFile], stamp: Stamp | None, *, overwrite: bool = False) -> None:
        table = self._checked(stamp)
        with _conflicts():
            table.create_write_transaction(
                [_action(file, table) for file in files],
                "overwrite" if overwrite else "append",
                table.schema(),
                partition_by=list(table.metadata().partition_columns),
                commit_properties=_stamped(stamp),
            )

    def _checked(self, stamp: Stamp | None) -> DeltaTable:
        """The version to commit to. What comes between is compared by delta-rs, transaction identifiers too."""
        table = self._open()
        check_new(stamp, table.transaction_version(stamp.app_id) if stamp is not None else None)
        return table

    def upsert(self, rows: pa.Table, how: Upsert, stamp: Stamp | None) -> None:
        table = self._checked(stamp)
        rows = _whole_rows(rows, pa.schema(table.schema().to_arrow()))
        order = how.order_column
        newer = f"(t.`{order}` IS NULL OR s.`{order}` IS NULL OR s.`{order}` >= t.`{order}`)" if order else "true"
        merge = table.merge(
            rows,
            predicate=" AND ".join(f"(s.`{name}` IS NOT DISTINCT FROM t.`{name}`)" for name in how.key_columns),
            source_alias="s",
            target_alias="t",
            commit_properties=_stamped(stamp),
        )
        columns = {f"`{name}`": f"s.`{name}`" for name in rows.column_names}
        if how.value_column:
            gone = f"s.`{how.value_column}` IS NULL"
            merge = merge.when_matched_delete(f"{gone} AND {newer}")
            merge = merge.when_matched_update(columns, predicate=f"NOT ({gone}) AND {newer}")
            merge = merge.when_not_matched_insert(columns, predicate=f"NOT ({gone})")
        else:
            merge = merge.when_matched_update(columns, predicate=newer).when_not_matched_insert(columns)
        with _conflicts():
            merge.execute()
        if stamp is not None and self.last_batch(stamp.app_id) != stamp.batch_id:
            self.append([], stamp)  # a merge that changes nothing makes no commit, and so keeps no stamp

    def schema(self) -> pa.Schema:
        return pa.schema(self._open().schema().to_arrow())

    def partition_columns(self) -> list[str]:
        return list(self._open().metadata().partition_columns)

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        # Delta-rs' own file system calls Python from Arrow's threads: one that fails may take the process along.
        root = self.store.root
        local = None if "://" in root else pyarrow.fs.SubTreeFileSystem(root, pyarrow.fs.LocalFileSystem())
        dataset = self._open().to_pyarrow_dataset(filesystem=local)
        yield from dataset.to_batches(columns=list(columns) if columns is not None else None)

    def file_sizes(self) -> list[int]:
        actions = pa.table(self._open().get_add_actions(flatten=True))
        return [int(size) for size in actions.column("size_bytes").to_pylist()]

    def compact(self, file_bytes: int) -> Maintained:
        before = len(self.file_sizes())
        retried(lambda: self._compact(file_bytes))
        return Maintained(before, len(self.file_sizes()), 0)

    def _compact(self, file_bytes: int) -> None:
        with _conflicts():
            self._open().optimize.compact(target_size=file_bytes)

    def expire_rows(self, before_date: str) -> int:
        day = datetime.date.fromisoformat(before_date)
        return retried(lambda: self._delete(f"event_date < '{day.isoformat()}'"))

    def _delete(self, predicate: str) -> int:
        with _conflicts():
            return int(self._open().delete(predicate)["num_deleted_rows"] or 0)

    def remove_old_files(self, hours: float) -> int:
        """Whole hours, rounded up: a file that a task wrote a minute ago waits for its commit."""
        strangers = [path for path in self._vacuum(hours, dry_run=True) if not DATA_FILE.fullmatch(path)]
        if strangers:
            raise OptionError(
                f"{self._destination.path} holds files that are not the table's, for example {strangers[0]}: Delta's "
                "vacuum would delete them; move them out of the table's folder"
            )
        return len(self._vacuum(hours, dry_run=False))

    def _vacuum(self, hours: float, *, dry_run: bool) -> list[str]:
        whole = math.ceil(hours)
        return self._open().vacuum(whole, dry_run=dry_run, enforce_retention_duration=False, full=True)


def _field_rules(part: Any) -> Iterator[str]:
    """What Delta's schema, as JSON, says about values of its fields, however deep."""
    if isinstance(part, dict):
        yield from (name for name in part.get("metadata") or () if name.startswith(FIELD_RULES))
        part = [value for name, value in part.items() if name != "metadata"]
    if isinstance(part, list):
        for inner in part:
            yield from _field_rules(inner)


def _whole_rows(rows: pa.Table, there: pa.Schema) -> pa.Table:
    """With nulls in the columns that only the table has: a row is replaced, not mixed with the one before."""
    for field in there:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def _stamped(stamp: Stamp | None) -> CommitProperties:
    if stamp is None:
        return CommitProperties()
    return CommitProperties(app_transactions=[Transaction(name, stamp.batch_id) for name in stamp.names])


def _statistics(schema: pa.Schema, partition_by: Sequence[str]) -> dict[str, str | None]:
    names = [field.name for field in schema if skips(field.type) and field.name not in partition_by]
    plain = [name for name in names if name.isidentifier()]  # others would have to be quoted
    return {STATISTICS: ",".join(plain)} if plain else {}


def _action(file: DataFile, table: DeltaTable) -> AddAction:
    stats: dict[str, Any] = {"numRecords": file.row_count}
    wanted = set(filter(None, table.metadata().configuration.get(STATISTICS, "").split(",")))
    if wanted and wanted <= {name for name, *_ in file.ranges}:
        ranges = [row for row in file.ranges if row[0] in wanted]
        stats["minValues"] = {name: _text(low) for name, low, _, _ in ranges if low is not None}
        stats["maxValues"] = {name: _text(high) for name, _, high, _ in ranges if high is not None}
        stats["nullCount"] = {name: nulls for name, _, _, nulls in ranges}
    partition = {name: value or None for name, value in file.partition}  # not all readers take an empty text for null
    return AddAction(file.path, file.size_bytes, partition, int(time.time() * 1000), True, json.dumps(stats))


def _text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value
