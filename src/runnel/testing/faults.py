"""Files that fail: for tests of everything that must survive a broken disk, a full one, or a power cut.

`VolatileFiles` is a file system in memory that knows what was fsynced: `power_loss` gives back what a disk could hold
afterwards. `FaultyFiles` wraps any `Files` and fails or tears chosen operations, or stops the world after the Nth.

    files = FaultyFiles(VolatileFiles())
    files.fail("write", nth=3, error=errno.ENOSPC, torn_bytes=10)
    ...
    survivors = files.power_loss(Random(seed))
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Literal, TypeAlias

from runnel.storage.files import (
    Buffer,
    File,
    Files,
    Lock,
    MemoryContent,
    MemoryFile,
    MemoryFiles,
    StrPath,
    write_atomic,
)

PAGE_BYTES = 512
"""The unit that a disk writes or loses; small, so that small tests tear too."""

Operation: TypeAlias = Literal["write", "sync", "truncate", "open", "rename", "remove", "sync_directory", "read"]
CHANGES: frozenset[Operation] = frozenset({"write", "sync", "truncate", "rename", "remove", "sync_directory"})


class PowerLoss(Exception):
    """The machine stopped before this operation. Not an OSError: nothing under test may catch and survive it."""


class Survival(Enum):
    """What of the unsynced changes a power loss leaves behind."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    SOME = "some"


class VolatileContent(MemoryContent):
    """A file's bytes, and those of them that an fsync has made durable."""

    __slots__ = ("durable",)

    def __init__(self, durable: bytes = b"") -> None:
        super().__init__()
        self.data += durable
        self.durable = durable

    def survivor(self, survival: Survival, random: Random) -> bytes:
        if survival is Survival.NOTHING:
            return self.durable
        if survival is Survival.EVERYTHING:
            return bytes(self.data)
        return self._torn(random) if random.random() < 0.8 else self.durable

    def _torn(self, random: Random) -> bytes:
        """The new size or less, where pages that were not fsynced hold the new bytes or zeros."""
        kept = len(self.durable) if self.data.startswith(self.durable) else 0
        size = random.randint(kept, len(self.data))
        torn = bytearray(self.data[:size])
        for start in range(kept, size, PAGE_BYTES):
            if random.random() < 0.3:
                end = min(start + PAGE_BYTES, size)
                torn[start:end] = bytes(end - start)
        return bytes(torn)


class VolatileFile(MemoryFile):
    __slots__ = ()

    def sync(self) -> None:
        content = self._content
        if isinstance(content, VolatileContent):
            content.durable = bytes(content.data)


class VolatileFiles(MemoryFiles):
    """Memory files with a memory of what is durable: contents by `File.sync`, names by `sync_directory`."""

    def __init__(self) -> None:
        super().__init__()
        self._durable_folders: dict[str, dict[str, MemoryContent | None]] = {"/": {}}
        self._changes: list[tuple[str, Callable[[VolatileFiles], None]]] = []

    def open(self, path: StrPath, *, create: bool = False) -> File:
        is_new = create and not self.exists(path)
        content = self._content(path, create)
        if is_new:
            self._note(path, lambda survivors: survivors.put(path, content))
        return VolatileFile(content)

    def make_content(self) -> MemoryContent:
        return VolatileContent()

    def put(self, path: StrPath, content: MemoryContent | None) -> None:
        folder, name = self._entry(path)
        folder[name] = content
        if content is None:
            self._folders.setdefault(os.path.abspath(path), {})

    def make_directory(self, path: StrPath) -> bool:
        is_new = super().make_directory(path)
        if is_new:
            self._note(path, lambda survivors: survivors.put(path, None))
        return is_new

    def rename(self, source: StrPath, target: StrPath) -> None:
        super().rename(source, target)
        self._note(source, lambda survivors: MemoryFiles.rename(survivors, source, target))

    def remove(self, path: StrPath) -> None:
        super().remove(path)
        self._note(path, lambda survivors: MemoryFiles.remove(survivors, path))

    def _note(self, path: StrPath, change: Callable[[VolatileFiles], None]) -> None:
        self._changes.append((os.path.dirname(os.path.abspath(path)), change))

    def sync_directory(self, path: StrPath) -> None:
        whole = os.path.abspath(path)
        self._durable_folders[whole] = dict(self._folders[whole])
        for name, content in self._folders[whole].items():
            if content is None:
                self._durable_folders.setdefault(f"{whole.rstrip('/')}/{name}", {})
        self._changes = [change for change in self._changes if change[0] != whole]

    def power_loss(self, random: Random, survival: Survival | None = None) -> VolatileFiles:
        """A new file system with what a disk could hold if the power went now."""
        mode = survival or random.choice(list(Survival))
        survivors = VolatileFiles()
        for folder in sorted(self._durable_folders):
            survivors._folders[folder] = dict(self._durable_folders[folder])
        if mode is not Survival.NOTHING:
            kept = len(self._changes) if mode is Survival.EVERYTHING else random.randint(0, len(self._changes))
            for _, change in self._changes[:kept]:
                change(survivors)
        survivors._settle(mode, random)
        return survivors

    def _settle(self, mode: Survival, random: Random) -> None:
        """What survived is durable: contents become independent of the lost world."""
        for path in sorted(self._folders, key=len):
            parent, name = os.path.split(path)
            if name and name not in self._folders.get(parent, {}):
                del self._folders[path]  # the bytes may be there, but no name leads to them
        settled: dict[int, VolatileContent] = {}
        for folder in self._folders.values():
            for name, content in folder.items():
                if isinstance(content, VolatileContent):
                    if id(content) not in settled:
                        settled[id(content)] = VolatileContent(content.survivor(mode, random))
                    folder[name] = settled[id(content)]
        self._durable_folders = {name: dict(folder) for name, folder in self._folders.items()}
        self._changes = []


@dataclass(slots=True)
class Fault:
    operation: Operation
    countdown: int
    error: int
    torn_bytes: int | None
    times: int
    path_contains: str

    def strikes(self, operation: Operation, path: str) -> bool:
        if operation != self.operation or self.times == 0 or self.path_contains not in path:
            return False
        self.countdown -= 1
        if self.countdown > 0:
            return False
        self.times -= 1
        return True


FOREVER = -1


class FaultyFiles:
    """Passes everything to `inner`, except what it was told to break."""

    def __init__(self, inner: Files | None = None) -> None:
        self.inner: Files = VolatileFiles() if inner is None else inner
        self.operations = 0
        """Changes that were let through, for `stop_after`."""
        self._stop_after: int | None = None
        self._faults: list[Fault] = []

    def fail(
        self,
        operation: Operation,
        *,
        nth: int = 1,
        error: int = errno.EIO,
        torn_bytes: int | None = None,
        times: int = 1,
        path_contains: str = "",
    ) -> None:
        """The `nth` such operation from now fails, and `times` in all. A failing write leaves `torn_bytes` behind."""
        self._faults.append(Fault(operation, nth, error, torn_bytes, times, path_contains))

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()
        self._stop_after = None

    def stop_after(self, operations: int) -> None:
        """Raise PowerLoss instead of the change after that many; nothing works from then on."""
        self._stop_after = operations

    def power_loss(self, random: Random, survival: Survival | None = None) -> VolatileFiles:
        if not isinstance(self.inner, VolatileFiles):
            raise TypeError("only VolatileFiles know what a power loss leaves")
        return self.inner.power_loss(random, survival)

    def check(self, operation: Operation, path: StrPath) -> Fault | None:
        """Count the operation; the fault that strikes it, if any. A torn write is the caller's to leave behind."""
        if operation in CHANGES:
            if self._stop_after is not None and self.operations >= self._stop_after:
                raise PowerLoss(f"before operation {self.operations + 1}: {operation} {path}")
            self.operations += 1
        for fault in self._faults:
            if fault.strikes(operation, str(path)):
                if fault.torn_bytes is not None and operation == "write":
                    return fault
                raise OSError(fault.error, os.strerror(fault.error), str(path))
        return None

    def open(self, path: StrPath, *, create: bool = False) -> File:
        self.check("open", path)
        return FaultyFile(self, self.inner.open(path, create=create), str(path))

    def read_bytes(self, path: StrPath) -> bytes:
        self.check("read", path)
        return self.inner.read_bytes(path)

    def write_bytes(self, path: StrPath, data: bytes) -> File:
        file = self.open(path, create=True)
        file.truncate(0)
        file.append((data,))
        return file

    def write_atomic(self, path: StrPath, data: bytes, *, sync: bool = True) -> None:
        write_atomic(self, path, data, sync=sync)

    def list(self, directory: StrPath) -> list[str]:
        return self.inner.list(directory)

    def make_directory(self, path: StrPath) -> bool:
        return self.inner.make_directory(path)

    def rename(self, source: StrPath, target: StrPath) -> None:
        self.check("rename", source)
        self.inner.rename(source, target)

    def remove(self, path: StrPath) -> None:
        self.check("remove", path)
        self.inner.remove(path)

    def remove_tree(self, path: StrPath) -> None:
        self.check("remove", path)
        self.inner.remove_tree(path)

    def sync_directory(self, path: StrPath) -> None:
        self.check("sync_directory", path)
        self.inner.sync_directory(path)

    def exists(self, path: StrPath) -> bool:
        return self.inner.exists(path)

    def size(self, path: StrPath) -> int:
        return self.inner.size(path)

    def modified_ms(self, path: StrPath) -> int:
        return self.inner.modified_ms(path)

    def lock(self, directory: StrPath) -> Lock:
        return self.inner.lock(directory)


class FaultyFile:
    """One open file of `FaultyFiles`."""

    __slots__ = ("_files", "_inner", "_path")

    def __init__(self, files: FaultyFiles, inner: File, path: str) -> None:
        self._files = files
        self._inner = inner
        self._path = path

    def append(self, buffers: Sequence[Buffer]) -> None:
        fault = self._files.check("write", self._path)
        if fault is not None:
            self._inner.append((b"".join(buffers)[: fault.torn_bytes],))
            raise OSError(fault.error, os.strerror(fault.error), self._path)
        self._inner.append(buffers)

    def read(self, position: int, length: int) -> bytes:
        self._files.check("read", self._path)
        return self._inner.read(position, length)

    def resident(self, position: int, length: int) -> bool:
        return self._inner.resident(position, length)

    def sync(self) -> None:
        self._files.check("sync", self._path)
        self._inner.sync()

    def truncate(self, size_bytes: int) -> None:
        self._files.check("truncate", self._path)
        self._inner.truncate(size_bytes)

    def size(self) -> int:
        return self._inner.size()

    def close(self) -> None:
        self._inner.close()
