"""Making bytes durable off the event loop: what to fsync is decided on the loop, the waiting is done in a thread.

In: the files and names of one log that changed since the last sync; out: an object whose `run` may block. The log
learns of the outcome by `Log.synced` or `Log.sync_failed`; a job that failed must never be run again (fsyncgate:
the kernel may have dropped the dirty pages and will report success).
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from runnel.storage.checkpoints import FIRST_SEGMENT_NAME, decode_first_segment, encode_first_segment
from runnel.storage.files import File, Files
from runnel.storage.handles import Handle
from runnel.storage.segment import DELETED_SUFFIX, Segment

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


class Unsynced:
    """Files besides the active one, and names, that the next sync job has to make durable, in order of change.

    A file that changes again while a job is on its way is entered again: only what was entered before the job was
    made is done when the job is.
    """

    __slots__ = ("_entries", "_synced", "changes")

    def __init__(self) -> None:
        self._entries: list[tuple[int, Handle]] = []
        self.changes = 0
        self._synced = 0

    def add(self, handles: Iterable[Handle]) -> None:
        """These files changed, or names in the folder did."""
        self.changes += 1
        self._entries += [(self.changes, handle) for handle in handles]

    @property
    def handles(self) -> list[Handle]:
        return [handle for _, handle in self._entries]

    @property
    def has_files(self) -> bool:
        return bool(self._entries)

    @property
    def is_clean(self) -> bool:
        return self._synced == self.changes

    def done(self, changes: int) -> bool:
        """Everything up to this change is durable; whether that is news."""
        if changes <= self._synced:
            return False
        self._synced = changes
        for number, handle in self._entries:
            if number <= changes:
                handle.dirty = False
        self._entries = [entry for entry in self._entries if entry[0] > changes]
        return True


class SyncJob:
    """Everything up to `target_offset` is durable once `run` has returned. Run it in any thread, one at a time."""

    __slots__ = (
        "_directories",
        "_epochs",
        "_files",
        "_tree",
        "changes",
        "position",
        "segment",
        "snapshot_offset",
        "target_offset",
        "truncations",
    )

    def __init__(
        self,
        tree: Files,
        files: Sequence[File],
        directories: Sequence[str],
        epochs: tuple[str, bytes] | None,
        *,
        target_offset: int,
        changes: int,
        truncations: int,
        snapshot_offset: int,
        segment: Segment,
    ) -> None:
        self._tree = tree
        self._files = files
        self._directories = directories
        self._epochs = epochs
        self.target_offset = target_offset
        self.changes = changes
        self.truncations = truncations
        self.snapshot_offset = snapshot_offset
        self.segment = segment
        self.position = segment.size_bytes

    def run(self) -> None:
        """Blocking. Files first, then the names that lead to them."""
        for file in self._files:
            file.sync()
        if self._epochs is not None:
            path, data = self._epochs
            self._tree.write_atomic(path, data, sync=True)
        for directory in self._directories:
            self._tree.sync_directory(directory)


def read_first_segment(tree: Files, directory: str) -> int | None:
    """Segments wholly below this offset were deleted. None if nothing was, or the file is damaged."""
    try:
        return decode_first_segment(tree.read_bytes(f"{directory}/{FIRST_SEGMENT_NAME}"))
    except FileNotFoundError:
        return None


def write_first_segment(tree: Files, directory: str, base_offset: int) -> None:
    tree.write_atomic(f"{directory}/{FIRST_SEGMENT_NAME}", encode_first_segment(base_offset), sync=True)


class FileJob(Protocol):
    """Renames and removals of one log's files, to be run in a thread."""

    def run(self) -> None: ...


class FileJobs:
    """The file jobs of one log: one at a time, oldest first, none after the log was closed (its names may by then
    belong to another log) and none after one that failed."""

    __slots__ = ("_lock", "_waiting", "closed", "failure")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[FileJob] = deque()
        self.closed = False
        self.failure: OSError | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, job: FileJob) -> None:
        self._waiting.append(job)

    def run_all(self) -> None:
        """Blocking: on return, everything that was put before has been done, here or in another thread."""
        with self._lock:
            while self._waiting and not self.closed:
                self._run_first()

    def _run_first(self) -> None:
        try:
            self._waiting.popleft().run()
        except OSError as error:
            self.failure = error
            self._waiting.clear()
            raise

    def clear(self) -> None:
        self._waiting.clear()

    def close(self) -> None:
        """Blocking: waits for a job that is running."""
        with self._lock:
            self.closed = True


class RemovalJob:
    """Deletes the files of segments that the log has let go of. Run it in any one thread.

    The producer snapshot that stands in for them must be durable before their bytes go, or a power loss would
    forget which batches were already taken. And so must the fact that they were deleted on purpose: files can come
    back after a power loss, and a gap between those that did and those that did not looks like lost bytes.
    """

    __slots__ = ("_directory", "_first_offset", "_keep", "_paths", "_tree")

    def __init__(
        self, tree: Files, directory: str, *, first_offset: int, keep: Sequence[str], paths: Sequence[str]
    ) -> None:
        self._tree = tree
        self._directory = directory
        self._first_offset = first_offset
        self._keep = keep
        self._paths = paths

    def run(self) -> None:
        for path in self._keep:
            with contextlib.suppress(FileNotFoundError):
                self._tree.open(path).sync()
        self._tree.sync_directory(self._directory)
        is_noted = self._note_first_offset()
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self._tree.rename(path, path + DELETED_SUFFIX)
                if not is_noted:
                    self._tree.sync_directory(self._directory)
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self._tree.remove(path + DELETED_SUFFIX)

    def _note_first_offset(self) -> bool:
        """False if a full disk has no room for it: then files must go durably one by one, oldest first."""
        try:
            if self._first_offset > (read_first_segment(self._tree, self._directory) or 0):
                write_first_segment(self._tree, self._directory, self._first_offset)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return False
        return True
