"""The file layer: everything that storage asks of an operating system, as two small protocols.

`File` is one open file, `Files` is the tree. `OsFiles` is the real one, `MemoryFiles` keeps nothing (`--memory`)
with the same meaning, and `runnel.testing.faults` wraps either to break it. A `File` closes itself when its last
holder lets go: a reader that is still using an evicted or deleted file is never cut off.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from runnel.storage.errors import DataDirInUse

Buffer: TypeAlias = bytes | bytearray | memoryview
StrPath: TypeAlias = str | Path

TEMPORARY_SUFFIX = ".tmp"
READ_NOW = getattr(os, "RWF_NOWAIT", 0)


class File(Protocol):
    """One open file that grows at its end."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all of them at the end. OSError may leave a part of the bytes behind: truncate."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file. Safe from any thread."""

    def resident(self, position: int, length: int) -> bool:
        """Whether reading would (probably) not wait for the disk."""

    def sync(self) -> None:
        """Make the bytes and the size durable. Safe from any thread."""

    def truncate(self, size_bytes: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A held lock on a data directory."""

    def release(self) -> None: ...


class Files(Protocol):
    """A tree of files. Names become durable by `sync_directory` of the folder that holds them."""

    def open(self, path: StrPath, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless `create`."""

    def read_bytes(self, path: StrPath) -> bytes: ...

    def write_bytes(self, path: StrPath, data: bytes) -> File:
        """Replace the content in place, neither atomic nor durable: for files that carry their own checksum."""

    def write_atomic(self, path: StrPath, data: bytes, *, sync: bool = True) -> None:
        """Replace the content so that a crash leaves the old or the new; durable on return if `sync`."""

    def list(self, directory: StrPath) -> list[str]: ...

    def make_directory(self, path: StrPath) -> bool:
        """Make the folder and its parents; whether it is new."""

    def rename(self, source: StrPath, target: StrPath) -> None: ...

    def remove(self, path: StrPath) -> None: ...

    def remove_tree(self, path: StrPath) -> None: ...

    def sync_directory(self, path: StrPath) -> None: ...

    def exists(self, path: StrPath) -> bool: ...

    def size(self, path: StrPath) -> int: ...

    def modified_ms(self, path: StrPath) -> int: ...

    def lock(self, directory: StrPath) -> Lock:
        """Hold the data directory for this process; DataDirInUse names the other."""


class OsFile:
    """A file descriptor in append mode. The descriptor closes with the object's last reference."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def append(self, buffers: Sequence[Buffer]) -> None:
        if len(buffers) == 1:
            data = buffers[0]
            written = os.write(self._descriptor, data)
            if written == len(data):
                return
            self._append_rest([memoryview(data)[written:]])
        else:
            self._append_rest(buffers)

    def _append_rest(self, buffers: Sequence[Buffer]) -> None:
        rest = [memoryview(buffer) for buffer in buffers if len(buffer)]
        while rest:
            written = os.writev(self._descriptor, rest[:1024])
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if written:
                rest[0] = rest[0][written:]

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def resident(self, position: int, length: int) -> bool:
        if not READ_NOW or length <= 0:
            return True
        return self._resident_at(position) and self._resident_at(position + length - 1)

    def _resident_at(self, position: int) -> bool:
        try:
            os.preadv(self._descriptor, [bytearray(1)], position, READ_NOW)
        except BlockingIOError:
            return False
        except OSError as error:
            # Some file systems (tmpfs among them) cannot answer: reading them at once is the best guess.
            return error.errno in (errno.EOPNOTSUPP, errno.EINVAL)
        return True

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class OsLock:
    """An flock on `.lock`; the file's content is our process id, for the message of whoever comes second."""

    def __init__(self, directory: str) -> None:
        self._descriptor = os.open(f"{directory}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = os.pread(self._descriptor, 32, 0).strip()
            os.close(self._descriptor)
            raise DataDirInUse(directory, int(text) if text.isdigit() else None) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFiles:
    """The operating system's files."""

    def open(self, path: StrPath, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def read_bytes(self, path: StrPath) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def write_bytes(self, path: StrPath, data: bytes) -> OsFile:
        file = self.open(path, create=True)
        file.truncate(0)
        file.append((data,))
        return file

    def write_atomic(self, path: StrPath, data: bytes, *, sync: bool = True) -> None:
        write_atomic(self, path, data, sync=sync)

    def list(self, directory: StrPath) -> list[str]:
        return os.listdir(directory)

    def make_directory(self, path: StrPath) -> bool:
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            return False
        except FileNotFoundError:
            os.makedirs(path, 0o755, exist_ok=True)
        return True

    def rename(self, source: StrPath, target: StrPath) -> None:
        os.replace(source, target)

    def remove(self, path: StrPath) -> None:
        os.unlink(path)

    def remove_tree(self, path: StrPath) -> None:
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                self.remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(path)

    def sync_directory(self, path: StrPath) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, path: StrPath) -> bool:
        return os.path.exists(path)

    def size(self, path: StrPath) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: StrPath) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def lock(self, directory: StrPath) -> OsLock:
        return OsLock(str(directory))


def write_atomic(files: Files, path: StrPath, data: bytes, *, sync: bool) -> None:
    """Temporary file, fsync, rename, fsync of the folder: the one way to replace a file's content."""
    temporary = f"{path}{TEMPORARY_SUFFIX}"
    try:
        file = files.write_bytes(temporary, data)
        if sync:
            file.sync()
        file.close()
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(temporary)
        raise
    files.rename(temporary, path)
    if sync:
        files.sync_directory(os.path.dirname(str(path)) or ".")


class MemoryContent:
    """The bytes behind a name in `MemoryFiles`; open files share it, as file descriptors share an inode."""

    __slots__ = ("data", "lock", "modified_ms")

    def __init__(self) -> None:
        self.data = bytearray()
        self.modified_ms = 0
        # A memoryview held by a reading thread would make a concurrent append fail (BufferError).
        self.lock = threading.Lock()


class MemoryFile:
    __slots__ = ("_content",)

    def __init__(self, content: MemoryContent) -> None:
        self._content = content

    def append(self, buffers: Sequence[Buffer]) -> None:
        content = self._content
        with content.lock:
            for buffer in buffers:
                content.data += buffer
            content.modified_ms = time.time_ns() // 1_000_000

    def read(self, position: int, length: int) -> bytes:
        content = self._content
        with content.lock, memoryview(content.data) as view:
            return bytes(view[position : position + length])

    def resident(self, position: int, length: int) -> bool:
        return True

    def sync(self) -> None:
        return None

    def truncate(self, size_bytes: int) -> None:
        content = self._content
        with content.lock:
            missing = size_bytes - len(content.data)
            if missing > 0:
                content.data += bytes(missing)
            else:
                del content.data[size_bytes:]

    def size(self) -> int:
        return len(self._content.data)

    def close(self) -> None:
        return None


class MemoryLock:
    def __init__(self, held: set[str], directory: str) -> None:
        if directory in held:
            raise DataDirInUse(directory, os.getpid())
        held.add(directory)
        self._held = held
        self._directory = directory

    def release(self) -> None:
        self._held.discard(self._directory)


class MemoryFiles:
    """Files that live as long as this object. Folders are a set of names; contents are shared by open files."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, MemoryContent | None]] = {"/": {}}
        self._locks: set[str] = set()
        self._guard = threading.RLock()

    def open(self, path: StrPath, *, create: bool = False) -> File:
        return MemoryFile(self._content(path, create))

    def _content(self, path: StrPath, create: bool) -> MemoryContent:
        with self._guard:
            folder, name = self._entry(path)
            content = folder.get(name)
            if content is None:
                if name in folder:
                    raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
                if not create:
                    raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
                content = folder[name] = self.make_content()
            return content

    def make_content(self) -> MemoryContent:
        return MemoryContent()

    def _entry(self, path: StrPath) -> tuple[dict[str, MemoryContent | None], str]:
        parent, name = os.path.split(os.path.abspath(path))
        folder = self._folders.get(parent)
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        return folder, name

    def read_bytes(self, path: StrPath) -> bytes:
        return bytes(self._content(path, False).data)

    def write_bytes(self, path: StrPath, data: bytes) -> File:
        file = self.open(path, create=True)
        file.truncate(0)
        file.append((data,))
        return file

    def write_atomic(self, path: StrPath, data: bytes, *, sync: bool = True) -> None:
        write_atomic(self, path, data, sync=sync)

    def list(self, directory: StrPath) -> list[str]:
        folder = self._folders.get(os.path.abspath(directory))
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(directory))
        return list(folder)

    def make_directory(self, path: StrPath) -> bool:
        whole = os.path.abspath(path)
        with self._guard:
            if whole in self._folders:
                return False
            self.make_directory(os.path.dirname(whole))
            folder, name = self._entry(whole)
            folder[name] = None
            self._folders[whole] = {}
            return True

    def rename(self, source: StrPath, target: StrPath) -> None:
        with self._guard:
            from_folder, from_name = self._entry(source)
            to_folder, to_name = self._entry(target)
            if from_name not in from_folder:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(source))
            content = from_folder.pop(from_name)
            to_folder[to_name] = content
            if content is None:
                self._move_folders(os.path.abspath(source), os.path.abspath(target))

    def _move_folders(self, source: str, target: str) -> None:
        for name in [name for name in self._folders if name == source or name.startswith(source + "/")]:
            self._folders[target + name[len(source) :]] = self._folders.pop(name)

    def remove(self, path: StrPath) -> None:
        with self._guard:
            folder, name = self._entry(path)
            if name not in folder:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            del folder[name]

    def remove_tree(self, path: StrPath) -> None:
        whole = os.path.abspath(path)
        with self._guard:
            self.remove(whole)
            for name in [name for name in self._folders if name == whole or name.startswith(whole + "/")]:
                del self._folders[name]

    def sync_directory(self, path: StrPath) -> None:
        return None

    def exists(self, path: StrPath) -> bool:
        parent, name = os.path.split(os.path.abspath(path))
        return name in self._folders.get(parent, {}) or parent == name == "/"

    def size(self, path: StrPath) -> int:
        return len(self._content(path, False).data)

    def modified_ms(self, path: StrPath) -> int:
        return self._content(path, False).modified_ms

    def lock(self, directory: StrPath) -> Lock:
        return MemoryLock(self._locks, os.path.abspath(directory))
