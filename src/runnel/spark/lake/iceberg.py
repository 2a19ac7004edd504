"""Iceberg tables through pyiceberg: any catalog it knows, by default a SQLite file beside the tables.

The stamp is a table property that is set in the same commit as the rows: it outlives snapshots that expire.
"""

from __future__ import annotations

import datetime
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, IsNull, LessThan, NotNull, Or
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile as IcebergDataFile
from pyiceberg.table import FileScanTask, Table, TableProperties, Transaction
from pyiceberg.transforms import IdentityTransform
from sqlalchemy.exc import DBAPIError

from runnel.spark.errors import OptionError
from runnel.spark.lake.files import DataFile
from runnel.spark.lake.options import EVENT_DATE, Destination
from runnel.spark.lake.stores import Store, folder_of
from runnel.spark.lake.tables import Conflict, Maintained, Stamp, Upsert, check_new, check_types, retried

STAMP = "runnel.batch."
NO_LIMIT = 1 << 50


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except (CommitFailedException, TableAlreadyExistsError, ValidationException) as error:
        raise Conflict(str(error)) from error
    except UnicodeDecodeError as error:
        raise OptionError(
            "a column of text holds bytes that are no UTF-8, which Iceberg does not take: write "
            f"make_valid_utf8(column), or the bytes as they are ({error})"
        ) from error


class IcebergLakeTable:
    keeps_partition_columns = True
    folder = "data"
    ending = ".parquet"

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    @cached_property
    def _catalog(self) -> Catalog:
        return _catalog(self._destination)

    @property
    def store(self) -> Store:
        """With what the catalog gave for this table, which may be credentials that nobody has written down."""
        table = self._open()
        return Store(folder_of(table.location()), dict(table.io.properties), is_icebergs=True)

    def _open(self) -> Table:
        return self._catalog.load_table(self._destination.table)

    def exists(self) -> bool:
        if not self._destination.catalog and not _default_catalog(self._destination).exists():
            return False  # to open it would make it
        return self._catalog.table_exists(self._destination.table)

    def ensure(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        def ensure() -> None:
            try:
                self._ensure(schema, partition_by)
            except DBAPIError as error:
                # Catalogs in a database let two queries make one namespace, and the database tells the second. To
                # make what is there is harmless; a commit that failed so may have got through, and is not repeated.
                raise Conflict(str(error)) from error

        retried(ensure)

    @_conflicts()
    def _ensure(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        try:
            table = self._open()
        except NoSuchTableError:
            self._create(schema, partition_by)
            return
        if _lacking(self._destination, table, schema):
            with table.update_schema() as update:
                update.union_by_name(schema)

    def lacking(self, schema: pa.Schema) -> list[pa.Field]:
        return _lacking(self._destination, self._open(), schema)

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """With its partitioning in the same commit: a crash must not leave a table that lacks it."""
        self._catalog.create_namespace_if_not_exists(self._destination.table.rsplit(".", 1)[0])
        with self._catalog.create_table_transaction(self._destination.table, schema=schema) as transaction:
            if partition_by:
                with transaction.update_spec() as update:
                    for name in partition_by:
                        update.add_identity(name)
            # Our files have no field ids: their columns are known by name. The first commit would note that too, but of
            # the columns that it knew. And a stream makes a metadata file per trigger, of which a hundred are kept.
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            properties = {TableProperties.DEFAULT_NAME_MAPPING: mapping}
            transaction.set_properties({**properties, TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true"})

    def last_batch(self, app_id: str) -> int | None:
        return _last_batch(self._open(), app_id)

    def append(self, files: Sequence[DataFile], stamp: Stamp | None, *, overwrite: bool = False) -> None:
        table = self._checked(stamp)
        base = str(table.location()).rstrip("/")
        with _conflicts(), table.transaction() as transaction:
            if overwrite:
                transaction.delete(AlwaysTrue())
            if files:
                transaction.add_files([f"{base}/{file.path}" for file in files], check_duplicate_files=False)
            else:
                _add_nothing(transaction)
            _stamp(transaction, stamp)

    def _checked(self, stamp: Stamp | None, settings: Mapping[str, str] = MappingProxyType({})) -> Table:
        """The version to commit to, and to no other: pyiceberg's own retries would not look for the stamp again."""
        table = self._open()
        check_new(stamp, _last_batch(table, stamp.app_id) if stamp is not None else None)
        properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0", **settings}
        table.metadata = table.metadata.model_copy(update={"properties": properties, **_without_past(table)})
        return table

    @_conflicts()
    def upsert(self, rows: pa.Table, how: Upsert, stamp: Stamp | None) -> None:
        """Delete what the batch knows better, then insert it: one commit of both."""
        table = self._checked(stamp)
        known = _known_orders(table, rows, how)
        fresh = [
            order is None or known.get(key) is None or order >= known[key] for key, order in _keys_and_orders(rows, how)
        ]
        rows = rows.filter(pa.array(fresh, pa.bool_()))
        replaced = [key for key, _ in _keys_and_orders(rows, how) if key in known]
        if how.value_column:
            rows = rows.filter(pc.is_valid(rows.column(how.value_column)))
        with table.transaction() as transaction:
            if replaced:
                transaction.delete(_any_key(replaced, how))
            if rows.num_rows:
                transaction.append(rows)
            else:
                _add_nothing(transaction)
            _stamp(transaction, stamp)

    def schema(self) -> pa.Schema:
        return schema_to_pyarrow(self._open().schema(), include_field_ids=False)

    def partition_columns(self) -> list[str]:
        table = self._open()
        return [table.schema().find_column_name(field.source_id) or field.name for field in table.spec().fields]

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        scan = self._open().scan(selected_fields=tuple(columns) if columns is not None else ("*",))
        try:
            yield from scan.to_arrow_batch_reader()
        except pa.ArrowInvalid as error:
            damaged = ", ".join(self._unreadable()) or self._destination.path
            raise pa.ArrowInvalid(f"{damaged}: {error}") from error

    def _unreadable(self) -> list[str]:
        """pyiceberg does not say which file it could not read."""
        table = self._open()
        return [path for path in sorted(_named_files(table)) if not _is_parquet(table, path)]

    def file_sizes(self) -> list[int]:
        return [task.file.file_size_in_bytes for task in self._open().scan().plan_files()]

    def compact(self, file_bytes: int) -> Maintained:
        before = len(self.file_sizes())
        for paths in _small_files(self._open(), file_bytes):
            self._merge(paths)
        return Maintained(before, len(self.file_sizes()), 0)

    def _merge(self, paths: set[str]) -> None:
        """One file of several; no more than these is in memory. Their rows are read and written once: only the commit
        is tried again, which takes a moment, or it would never come in between those of a writer."""
        table = self._checked(None, {TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(NO_LIMIT)})
        small = _tasks(table, paths)
        if len(small) < len(paths):  # replaced since they were chosen
            return
        rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(small.values())
        merged = list(_dataframe_to_data_files(table.metadata, rows, table.io)) if rows.num_rows else []
        if not retried(lambda: self._replace(small, merged, table.metadata.default_spec_id)):
            made = {file.file_path for file in merged}
            for path in made - _tasks(self._open(), made).keys():  # a commit that was told as a conflict may be there
                table.io.delete(path)

    def _replace(self, small: Mapping[str, FileScanTask], merged: Sequence[IcebergDataFile], spec_id: int) -> bool:
        """Whether they could be: not if some were replaced since they were read, rows in them deleted, or the table
        laid out anew."""
        table = self._checked(None)
        if _tasks(table, small) != small or table.metadata.default_spec_id != spec_id:
            return False
        with _conflicts(), table.transaction() as whole, whole.update_snapshot().overwrite() as snapshot:
            for file in merged:
                snapshot.append_data_file(file)
            for task in small.values():
                snapshot.delete_data_file(task.file)
        return True

    def expire_rows(self, before_date: str) -> int:
        old: BooleanExpression = LessThan(EVENT_DATE, before_date)  # type: ignore[call-arg, arg-type]
        scan = self._open().scan(row_filter=old, selected_fields=(EVENT_DATE,))
        rows: int = sum(batch.num_rows for batch in scan.to_arrow_batch_reader())
        if rows:
            retried(lambda: self._delete(old))
        return rows

    def _delete(self, old: BooleanExpression) -> None:
        with _conflicts():
            self._open().delete(old)

    def remove_old_files(self, hours: float) -> int:
        """Forget old snapshots, then remove data files and manifests that no snapshot names any more."""
        oldest = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=hours)
        retried(lambda: self._forget_snapshots(oldest))
        store = self.store
        filesystem, base = store.open()
        # By their own names alone, which are unique: the same path may be spelt s3a://, s3:// or file:/ elsewhere.
        table = self._open()
        named = {path.rsplit("/", 1)[-1] for path in (*_named_files(table), *_manifests(table))}
        removed = 0
        for folder, ending in ((self.folder, ""), ("metadata", ".avro")):
            selector = pyarrow.fs.FileSelector(f"{base}/{folder}", recursive=True, allow_not_found=True)
            for info in filesystem.get_file_info(selector):
                is_old = info.mtime is not None and info.mtime.timestamp() < oldest.timestamp()
                if info.is_file and is_old and info.path.endswith(ending) and info.base_name not in named:
                    filesystem.delete_file(info.path)
                    removed += 1
        return removed

    def _forget_snapshots(self, oldest: datetime.datetime) -> None:
        with _conflicts():
            self._open().maintenance.expire_snapshots().older_than(oldest).commit()


def _catalog(destination: Destination) -> Catalog:
    properties = dict(destination.catalog)
    if not properties:
        file = _default_catalog(destination)
        file.parent.mkdir(parents=True, exist_ok=True)
        properties = {"type": "sql", "uri": f"sqlite:///{file}", "warehouse": f"file://{file.parent}"}
    return load_catalog("runnel", **properties)


def _default_catalog(destination: Destination) -> Path:
    path = folder_of(destination.path)
    if "://" in path:
        raise OptionError(f"an Iceberg table at {destination.path} needs a catalog: name one with options catalog.*")
    return Path(path, "catalog.db")


def _lacking(destination: Destination, table: Table, schema: pa.Schema) -> list[pa.Field]:
    for field in table.spec().fields:
        if not isinstance(field.transform, IdentityTransform):
            raise OptionError(
                f"{destination.path} is partitioned by {field.name}, a {field.transform} of a column, which is not "
                "supported: write to a table that is partitioned by columns"
            )
    lacking = check_types(destination, schema_to_pyarrow(table.schema(), include_field_ids=False), schema)
    # Files know their columns by name. One of a name that was given away would get the values of the other.
    before = {field.name for older in table.schemas().values() for field in older.fields}
    for field in lacking:
        if field.name in before:
            raise OptionError(
                f"column '{field.name}' of {destination.path} was renamed or dropped: write it under another name"
            )
    return lacking


def _without_past(table: Table) -> dict[str, Any]:
    """A commit needs the current snapshot alone, and pyiceberg copies all that there are a dozen times for it: of a day
    of a stream, for seconds. The catalog has them, and adds to those."""
    current = table.current_snapshot()
    return {"snapshots": [current] if current is not None else [], "snapshot_log": [], "metadata_log": []}


def _add_nothing(transaction: Transaction) -> None:
    """A snapshot all the same: a commit of properties alone is not refused when another came first, and would let a
    driver that was given up for dead set the stamp back."""
    with transaction.update_snapshot().fast_append():
        pass


def _stamp(transaction: Transaction, stamp: Stamp | None) -> None:
    if stamp is not None:
        transaction.set_properties({STAMP + name: str(stamp.batch_id) for name in stamp.names})


def _same_key(row: dict[str, Any]) -> BooleanExpression:
    """It says of every value that it is not null: where one key of several holds a null, pyiceberg's delete takes the
    comparisons of the others for null too, which is not false, and loses rows of other keys."""
    return And(*(part for name, value in row.items() for part in _same_value(name, value)))


def _same_value(name: str, value: Any) -> list[BooleanExpression]:
    if value is None:
        return [IsNull(name)]  # type: ignore[call-arg, arg-type]
    return [NotNull(name), EqualTo(name, value)]  # type: ignore[call-arg, arg-type]


Key: TypeAlias = tuple[Any, ...]


def _any_key(keys: Sequence[Key], how: Upsert) -> BooleanExpression:
    """One column is asked for as a set: a tree of thousands of comparisons would take minutes."""
    if len(how.key_columns) == 1:
        (name,) = how.key_columns
        values = {key[0] for key in keys}
        known: BooleanExpression = In(name, values - {None})  # type: ignore[call-arg, arg-type]
        return Or(known, IsNull(name)) if None in values else known  # type: ignore[call-arg, arg-type]
    parts = [_same_key(dict(zip(how.key_columns, key, strict=True))) for key in keys]
    return parts[0] if len(parts) == 1 else Or(*parts)


def _keys_and_orders(rows: pa.Table, how: Upsert) -> list[tuple[Key, Any]]:
    columns = [rows.column(name).to_pylist() for name in how.key_columns]
    orders = rows.column(how.order_column).to_pylist() if how.order_column else [None] * rows.num_rows
    return list(zip(zip(*columns, strict=True), orders, strict=True))


def _known_orders(table: Table, rows: pa.Table, how: Upsert) -> dict[Key, Any]:
    """The keys of these rows that the table has, with their order there."""
    if not rows.num_rows:
        return {}
    keys = [key for key, _ in _keys_and_orders(rows, how)]
    return dict(_keys_and_orders(table.scan(row_filter=_any_key(keys, how)).to_arrow(), how))


def _small_files(table: Table, file_bytes: int) -> list[set[str]]:
    """Files of one partition that are smaller than half of what a file should be, as many as make up one."""
    groups: list[set[str]] = []
    filling: dict[Any, tuple[set[str], int]] = {}
    for task in table.scan().plan_files():
        size = task.file.file_size_in_bytes
        if size >= file_bytes // 2:
            continue
        partition = (task.file.spec_id, task.file.partition)
        group, filled = filling.get(partition, (set(), file_bytes))
        if filled + size > file_bytes:
            group, filled = set(), 0
            groups.append(group)
        group.add(task.file.file_path)
        filling[partition] = group, filled + size
    return [group for group in groups if len(group) > 1]


def _tasks(table: Table, paths: Container[str]) -> dict[str, FileScanTask]:
    """These files, and which deletes there are of their rows, as this version knows them."""
    return {task.file.file_path: task for task in table.scan().plan_files() if task.file.file_path in paths}


def _is_parquet(table: Table, path: str) -> bool:
    try:
        with table.io.new_input(path).open() as file:
            pq.read_metadata(file)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def _named_files(table: Table) -> set[str]:
    files = table.inspect.all_files().column("file_path").to_pylist() if table.current_snapshot() else []
    return {folder_of(str(path)) for path in files}


def _manifests(table: Table) -> Iterator[str]:
    """Those of every snapshot, and the lists of them."""
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path


def _last_batch(table: Table, app_id: str) -> int | None:
    value = table.properties.get(STAMP + app_id)
    return None if value is None else int(value)
