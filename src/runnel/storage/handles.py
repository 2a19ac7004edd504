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

    __slots__ = ("cache", "detached", "dirty", "file", "files", "path", "recent")

    def __init__(self, cache: HandleCache, files: Files, path: str) -> None:
        self.cache = cache
        self.files = files
        self.path = path
        self.file: File | None = None
        self.recent = False
        self.dirty = False
        """Holds bytes that were not fsynced: closed last, so that a failed writeback is still reported to us."""
        self.detached = False
        """The name may be another file's by now: the file is used for as long as it is open, and never reopened."""

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

    def detach(self) -> None:
        """The segment was replaced or deleted: a reader that still has it keeps the file that it found open."""
        self.cache.detach(self)

    def rename(self, path: str) -> None:
        """Give the file another name, from any thread, while others use it."""
        self.cache.rename(self, path)


class HandleCache:
    def __init__(self, limit: int = HANDLES_MAX_DEFAULT) -> None:
        self.limit = max(1, limit)
        self._open: dict[Handle, None] = {}
        self._lock = threading.Lock()
        self._renaming = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def handle(self, files: Files, path: str) -> Handle:
        return Handle(self, files, path)

    def open(self, handle: Handle, *, create: bool) -> File:
        if handle.detached:
            raise FileNotFoundError(errno.ENOENT, "the segment was replaced or deleted", handle.path)
        try:
            file = self._open_by_name(handle, create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            with self._lock:  # something else in this process took the descriptors we counted on
                self._evict(len(self._open) // 2)
            file = self._open_by_name(handle, create)
        with self._lock:
            self._evict(self.limit - 1)
            handle.file = file
            handle.recent = True
            self._open[handle] = None
        return file

    def _open_by_name(self, handle: Handle, create: bool) -> File:
        if create:  # under a name that is just being given up, another file would come to be
            with self._renaming:
                return handle.files.open(handle.path, create=True)
        while True:
            path = handle.path
            try:
                return handle.files.open(path)
            except FileNotFoundError:
                with self._renaming:  # waits for a rename that is under way
                    if handle.path == path:
                        raise

    def rename(self, handle: Handle, path: str) -> None:
        with self._renaming:
            handle.files.rename(handle.path, path)
            handle.path = path

    def detach(self, handle: Handle) -> None:
        with self._lock:
            self._open.pop(handle, None)
            handle.detached = True

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
