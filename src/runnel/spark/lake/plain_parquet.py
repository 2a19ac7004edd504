"""Plain Parquet folders, exactly once: a manifest per batch, written before its files become visible.

Layout: `_runnel/commits/<app>/<batch>.json` names the files of a batch; executors write below `_runnel/staged`, which
readers skip: names with `_` are hidden to Spark and Arrow, and what does not end in `.parquet` to those who ask for
that. A commit writes the manifest, then moves the files, then forgets the manifest before it. A crash in between is
finished by the next commit or reader, from the manifest. A reader may see part of the newest batch, never a row twice.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq

from runnel.spark.errors import OptionError
from runnel.spark.lake.files import DataFile
from runnel.spark.lake.options import EVENT_DATE, NO_OVERWRITE, NO_UPSERT, Destination
from runnel.spark.lake.stores import Store, folder_of
from runnel.spark.lake.tables import AlreadyThere, Conflict, Maintained, Stamp, Upsert, check_new, check_types

HIDDEN = "_runnel"
STAGED = f"{HIDDEN}/staged"
COMMITS = f"{HIDDEN}/commits"
SCHEMA = f"{HIDDEN}/schema"
MOVES_MAX = 8


class ParquetLakeTable:
    keeps_partition_columns = False
    folder = STAGED
    ending = ".staged"

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._filesystem, base = self.store.open()
        self._base = base.rstrip("/")

    @property
    def store(self) -> Store:
        return Store(folder_of(self._destination.path), self._destination.storage)

    def exists(self) -> bool:
        return self._saved_schema() is not None

    def ensure(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._filesystem.create_dir(f"{self._base}/{COMMITS}", recursive=True)
        there = self._saved_schema()
        fields = list(schema) if there is None else [*there, *self.lacking(schema)]
        marked = pa.schema(fields, metadata={"runnel.partition_by": json.dumps(list(partition_by))})
        if there is None or len(fields) != len(there):
            self._write_atomic(SCHEMA, _schema_file(marked))

    def lacking(self, schema: pa.Schema) -> list[pa.Field]:
        return check_types(self._destination, self.schema(), schema)

    def last_batch(self, app_id: str) -> int | None:
        self._finish()
        return max(self._batches(_folder(app_id)), default=None)

    def _batches(self, folder: str) -> list[int]:
        return [int(name.removesuffix(".json")) for name in self._names(f"{COMMITS}/{folder}")]

    def append(self, files: Sequence[DataFile], stamp: Stamp | None, *, overwrite: bool = False) -> None:
        if overwrite:
            raise OptionError(NO_OVERWRITE)
        check_new(stamp, self.last_batch(stamp.app_id) if stamp is not None else None)
        moves = {file.path: _committed(file.path) for file in files}
        is_unstamped = stamp is None
        stamp = stamp or Stamp(f"once-{uuid.uuid4()}", 0)
        folder, *others = map(_folder, stamp.names)
        rows = sum(file.row_count for file in files)
        manifest = json.dumps({"rows": rows, "moves": moves}).encode()
        for other in others:  # first, and without files: alone it means nothing
            self._write_atomic(
                f"{COMMITS}/{other}/{stamp.batch_id}.json", json.dumps({"rows": 0, "moves": {}}).encode()
            )
        self._write_atomic(f"{COMMITS}/{folder}/{stamp.batch_id}.json", manifest, exclusive=True)
        later = max(self._batches(folder), default=stamp.batch_id)
        if later > stamp.batch_id:  # ours was there before, and forgotten: we were given up for dead
            self._filesystem.delete_file(f"{self._base}/{COMMITS}/{folder}/{stamp.batch_id}.json")
            raise AlreadyThere(later)
        self._move(moves)
        if is_unstamped:  # nobody will come back for it
            self._filesystem.delete_dir(f"{self._base}/{COMMITS}/{folder}")
            return
        for name in (folder, *others):
            for older in self._batches(name):
                if older < stamp.batch_id:
                    self._filesystem.delete_file(f"{self._base}/{COMMITS}/{name}/{older}.json")

    def upsert(self, rows: pa.Table, how: Upsert, stamp: Stamp | None) -> None:
        raise OptionError(NO_UPSERT)

    def _finish(self) -> None:
        """Move what the newest manifests name and a crash left behind."""
        for app in self._names(COMMITS):
            newest = max(self._batches(app), default=None)
            try:
                if newest is not None:
                    self._move(self._moves(f"{COMMITS}/{app}/{newest}.json"))
            except FileNotFoundError:
                continue  # a writer is at work, and its next manifest has replaced this one

    def _moves(self, manifest: str) -> dict[str, str]:
        with self._filesystem.open_input_stream(f"{self._base}/{manifest}") as stream:
            moves: dict[str, str] = json.loads(stream.read())["moves"]
            return moves

    def _move(self, moves: dict[str, str]) -> None:
        """A reader that finishes what it finds may move the same files, and expiry may remove the folder."""
        for source, target in moves.items():
            for attempt in range(MOVES_MAX):
                if not self._exists(source):
                    break
                try:
                    self._filesystem.create_dir(f"{self._base}/{target}".rsplit("/", 1)[0], recursive=True)
                    self._filesystem.move(f"{self._base}/{source}", f"{self._base}/{target}")
                except FileNotFoundError:
                    if attempt == MOVES_MAX - 1:
                        raise

    def schema(self) -> pa.Schema:
        schema = self._saved_schema()
        if schema is None:
            raise OptionError(f"there is no table at {self._destination.path}")
        return schema.remove_metadata()

    def partition_columns(self) -> list[str]:
        schema = self._saved_schema()
        metadata = (schema.metadata if schema is not None else None) or {}
        return list(json.loads(metadata.get(b"runnel.partition_by", b"[]")))

    def scan(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        self._finish()
        yield from self._dataset().to_batches(columns=list(columns) if columns is not None else None)

    def _dataset(self) -> pyarrow.dataset.Dataset:
        schema, by = self.schema(), self.partition_columns()
        kinds = pyarrow.dataset.partitioning(pa.schema([schema.field(name) for name in by]), flavor="hive")
        return pyarrow.dataset.dataset(
            self._base, schema, format="parquet", filesystem=self._filesystem, partitioning=kinds if by else None
        )

    def file_sizes(self) -> list[int]:
        return [info.size for info in self._data_files()]

    def compact(self, file_bytes: int) -> Maintained:
        raise OptionError("a plain Parquet folder cannot be compacted safely while it is read: use Delta or Iceberg")

    def expire_rows(self, before_date: str) -> int:
        """Whole days only, by their folders: nothing is rewritten."""
        if EVENT_DATE not in self.partition_columns():
            raise OptionError(
                f"{self._destination.path} is not partitioned by {EVENT_DATE}: only whole folders can be removed"
            )
        removed = 0
        for folder in self._days(before_date):
            files = self._filesystem.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
            paths = [info.path for info in files if info.is_file]
            removed += sum(pq.read_metadata(path, filesystem=self._filesystem).num_rows for path in paths)
            self._filesystem.delete_dir(folder)
        return removed

    def _days(self, before_date: str) -> list[str]:
        """The folders of older days, also below those of other partition columns; each once."""
        prefix = f"{EVENT_DATE}="
        infos = self._filesystem.get_file_info(pyarrow.fs.FileSelector(self._base, recursive=True))
        return [
            info.path
            for info in infos
            if info.base_name.startswith(prefix)
            and info.base_name.removeprefix(prefix) < before_date
            and not info.is_file
            and f"/{HIDDEN}/" not in info.path
        ]

    def remove_old_files(self, hours: float) -> int:
        """What writers left staged and never committed."""
        self._finish()
        selector = pyarrow.fs.FileSelector(f"{self._base}/{STAGED}", recursive=True, allow_not_found=True)
        oldest = time.time() - hours * 3600
        old = [
            info
            for info in self._filesystem.get_file_info(selector)
            if info.is_file and info.mtime is not None and info.mtime.timestamp() < oldest
        ]
        for info in old:
            self._filesystem.delete_file(info.path)
        return len(old)

    # Files ------------------------------------------------------------------------------------------------------

    def _data_files(self) -> list[pyarrow.fs.FileInfo]:
        infos = self._filesystem.get_file_info(pyarrow.fs.FileSelector(self._base, recursive=True))
        return [info for info in infos if info.is_file and f"/{HIDDEN}/" not in info.path]

    def _names(self, folder: str) -> list[str]:
        selector = pyarrow.fs.FileSelector(f"{self._base}/{folder}".rstrip("/"), allow_not_found=True)
        try:
            return sorted(info.base_name for info in self._filesystem.get_file_info(selector))
        except FileNotFoundError:  # it came to be while Arrow looked whether it is not there
            return []

    def _exists(self, path: str) -> bool:
        kind = self._filesystem.get_file_info(f"{self._base}/{path}").type
        return bool(kind != pyarrow.fs.FileType.NotFound)

    def _saved_schema(self) -> pa.Schema | None:
        if not self._exists(SCHEMA):
            return None
        return pq.read_schema(f"{self._base}/{SCHEMA}", filesystem=self._filesystem)

    def _write_atomic(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """Whole or not at all; `exclusive` tells two writers of one file apart, where the file system can."""
        target = f"{self._base}/{path}"
        self._filesystem.create_dir(target.rsplit("/", 1)[0], recursive=True)
        scratch = f"{self._base}/{HIDDEN}/{uuid.uuid4()}.tmp"
        # Through a buffer, which hands bytes on: delta-rs' files of object stores take nothing else.
        with self._filesystem.open_output_stream(scratch, buffer_size=len(data) + 1) as stream:
            stream.write(data)
        if not exclusive or not isinstance(self._filesystem, pyarrow.fs.LocalFileSystem):
            self._filesystem.move(scratch, target)
            return
        try:
            os.link(scratch, target)
        except FileExistsError as error:
            raise Conflict(f"{target} was written by another query in this moment") from error
        finally:
            os.unlink(scratch)


def _committed(path: str) -> str:
    """Where a file that an executor wrote is seen."""
    return f"{path.removeprefix(f'{STAGED}/').removesuffix(ParquetLakeTable.ending)}.parquet"


def _folder(app_id: str) -> str:
    return quote(app_id, safe="")


def _schema_file(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    return bytes(sink.getvalue())
