"""A bounded set of open files shared by all logs, so that 10 000 partitions fit the default ulimit.

In: a `Handle` per file name; out: an open `File`. Which file to close next is decided by a clock (second chance):
using a handle costs one attribute, not a list operation. Closing means forgetting: readers in other threads keep
the `File` they hold, and the descriptor goes when the last of them is done.
"""

from __future__ import annotations

import errno
import threading

from runnel.storage.files import File, Files

HANDLES_MAX_DEFAULT = 512
SECOND_CHANCES_MAX = 64
"""How many files one eviction may spare: bounds its cost when every open file is busy or dirty."""


class Handle:
    """One file of a log, open or not."""

    __slots__ = ("cache", "dirty", "file", "files", "path", "recent")

    def __init__(self, cache: HandleCache, files: Files, path: str) -> None:
        self.cache = cache
        self.files = files
        self.path = path
        self.file: File | None = None
        self.recent = False
        self.dirty = False
        """Holds bytes that were not fsynced: closed last, so that a failed writeback is still reported to us."""

    def get(self) -> File:
        """The open file; reopened if it was evicted."""
        file = self.file
        if file is not None:
            self.recent = True
            return file
        return self.cache.open(self, create=False)

    def create(self) -> File:
        """The open file; made if it is not there."""
        return self.file or self.cache.open(self, create=True)

    def release(self) -> None:
        """Forget the file, as when the log closes or the segment is deleted."""
        self.cache.release(self)


class HandleCache:
    def __init__(self, limit: int = HANDLES_MAX_DEFAULT) -> None:
        self.limit = max(1, limit)
        self._open: dict[Handle, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def handle(self, files: Files, path: str) -> Handle:
        return Handle(self, files, path)

    def open(self, handle: Handle, *, create: bool) -> File:
        try:
            file = handle.files.open(handle.path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            with self._lock:  # something else in this process took the descriptors we counted on
                self._evict(len(self._open) // 2)
            file = handle.files.open(handle.path, create=create)
        with self._lock:
            self._evict(self.limit - 1)
            handle.file = file
            handle.recent = True
            self._open[handle] = None
        return file

    def release(self, handle: Handle) -> None:
        with self._lock:
            self._open.pop(handle, None)
            handle.file = None
            handle.dirty = False

    def _evict(self, keep: int) -> None:
        chances = SECOND_CHANCES_MAX
        while len(self._open) > keep:
            handle = next(iter(self._open))
            del self._open[handle]
            chances -= 1
            if chances > 0 and (handle.recent or handle.dirty):
                handle.recent = False
                self._open[handle] = None
            else:
                handle.file = None
