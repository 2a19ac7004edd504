"""The broker's one data directory as the services use it: held, identified, with every log's checkpoints.

Wraps ``storage.directory`` with what lives as long as the process: the lock, the file handles, the offsets that the
last run left, and the decision whether logs must be scanned when they are opened. Everything here blocks.
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from runnel.storage.compaction.runners import ProcessRunner, Runner, ThreadRunner
from runnel.storage.config import LogConfig
from runnel.storage.directory import CLEANED, LOG_STARTS, RECOVERY_POINTS, DataDirectory
from runnel.storage.errors import TopicIdMismatch
from runnel.storage.files import Files, MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.storage.log import Log

log = logging.getLogger("runnel.storage")

MEMORY_PATH = Path("/memory")
STRAY_SUFFIX = "-stray"
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, CLEANED)
Key = tuple[str, int]


class LogStorage:
    def __init__(
        self,
        data_dir: Path | None,
        node_id: int,
        cluster_id: str | None,
        handles_max: int,
        files: Files | None = None,
    ) -> None:
        """Take the data directory (None: memory); StorageError where it is another's. Tests bring their own files."""
        self._files: Files = files or (MemoryFiles() if data_dir is None else OsFiles())
        self._handles = HandleCache(handles_max)
        self._directory = DataDirectory(MEMORY_PATH if data_dir is None else data_dir.absolute(), self._files)
        self._in_memory = data_dir is None
        self._offsets_lock = threading.Lock()
        self._directory.lock()
        try:
            is_new = self._directory.identity() is None
            identity = self._directory.claim(cluster_id, node_id, uuid.uuid4())
            self.was_clean = self._directory.take_clean_marker() or is_new
            self._offsets = {name: self._directory.read_checkpoint(name) for name in CHECKPOINTS}
        except BaseException:
            self._directory.unlock()
            raise
        self.cluster_id, self.node_id = identity.cluster_id, identity.node_id
        self.directory_id = identity.directory_uuid

    @property
    def path(self) -> str:
        return str(self._directory.path)

    def open_log(self, topic: str, index: int, topic_id: uuid.UUID, config: LogConfig, now_ms: int) -> Log:
        try:
            return self._open_log(topic, index, topic_id, config, now_ms)
        except TopicIdMismatch as error:
            # A topic was deleted and made again, and the broker died before the old folder was renamed.
            log.warning("%s; the folder is set aside", error)
            self.forget([(topic, index)])
            self._set_stray_aside(self._directory.partition_path(topic, index))
            return self._open_log(topic, index, topic_id, config, now_ms)

    def _open_log(self, topic: str, index: int, topic_id: uuid.UUID, config: LogConfig, now_ms: int) -> Log:
        return Log.open(
            self._directory.partition_path(topic, index),
            topic_id,
            config,
            files=self._files,
            handles=self._handles,
            clean=self.was_clean,
            now_ms=now_ms,
            log_start_offset=self._offsets[LOG_STARTS].get((topic, index)),
            recovery_point=self._offsets[RECOVERY_POINTS].get((topic, index)),
            cleaned_offset=self._offsets[CLEANED].get((topic, index)),
        )

    def write_checkpoints(
        self, flushed: Mapping[Key, int], starts: Mapping[Key, int], cleaned: Mapping[Key, int]
    ) -> None:
        """Note the offsets of the open logs; those of logs that were never opened stay as they were."""
        with self._offsets_lock:
            self._write(RECOVERY_POINTS, {**self._offsets[RECOVERY_POINTS], **flushed})
            firsts = {**self._offsets[LOG_STARTS], **starts}
            self._write(LOG_STARTS, {key: offset for key, offset in firsts.items() if offset > 0})
            self._write(CLEANED, {**self._offsets[CLEANED], **cleaned})

    def _write(self, name: str, offsets: dict[Key, int]) -> None:
        if offsets != self._offsets[name]:
            self._directory.write_checkpoint(name, offsets)
            self._offsets[name] = offsets

    def compaction_runner(self) -> Runner:
        """Who does the work of compaction: real files can be reached from another process."""
        if isinstance(self._files, OsFiles) and sys.executable:
            return ProcessRunner()
        return ThreadRunner(self._files)

    def forget(self, keys: Iterable[Key]) -> None:
        """A later partition of such a name starts afresh. On disk on return: with the start of the old log, a crash
        would take the records of the new one."""
        gone = set(keys)
        with self._offsets_lock:
            for name, offsets in self._offsets.items():
                if any(key in offsets for key in gone):
                    self._write(name, {key: offset for key, offset in offsets.items() if key not in gone})

    # --- deletion ---------------------------------------------------------------------------------------------

    def set_aside(self, topic: str, index: int) -> Path | None:
        """Rename a deleted partition's folder out of the way; None where there never was one."""
        self.forget([(topic, index)])
        return self._directory.mark_deleted(topic, index, uuid.uuid4())

    def sync(self) -> None:
        self._directory.sync()

    def remove(self, path: Path) -> None:
        self._directory.remove(path)

    def leftovers(self) -> list[Path]:
        """Folders that an earlier run set aside and did not come to remove."""
        return self._directory.deleted()

    def set_strays_aside(self, topics: Collection[str]) -> None:
        """Folders of topics that the metadata does not know are kept, under another name: never a deleted topic."""
        known = {key for offsets in self._offsets.values() for key in offsets}
        self.forget(key for key in known if key[0] not in topics)
        for folder in self._directory.partitions():
            if folder.topic not in topics:
                self._set_stray_aside(folder.path)

    def _set_stray_aside(self, path: Path) -> None:
        target = path.with_name(f"{path.name[:200]}.{uuid.uuid4().hex}{STRAY_SUFFIX}")
        log.warning("no topic owns %s; it is kept as %s", path, target.name)
        self._files.rename(path, target)
        self._directory.sync()

    # --- sizes ------------------------------------------------------------------------------------------------

    def partition_bytes(self, topic: str, index: int) -> int:
        """The bytes of a partition's segments, of one that is not open."""
        path = self._directory.partition_path(topic, index)
        try:
            names = self._files.list(path)
        except FileNotFoundError:
            return 0
        return sum(self._files.size(path / name) for name in names if name.endswith(".log"))

    def disk_space(self) -> tuple[int, int]:
        """Bytes of the disk in all, and those that are free."""
        if self._in_memory:
            return -1, -1
        usage = shutil.disk_usage(self._directory.path)
        return usage.total, usage.free

    # --- end --------------------------------------------------------------------------------------------------

    def mark_clean(self) -> None:
        self._directory.write_clean_marker()

    def release(self) -> None:
        self._directory.unlock()
