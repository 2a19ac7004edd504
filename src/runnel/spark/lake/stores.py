"""Where the files of a table are, and how that store is opened: on the driver and on executors alike.

In: a folder, or a URL with the settings of its store, in the words of the library that keeps the table (pyiceberg for
Iceberg, delta-rs for the others). Out: a file system of Arrow's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pyarrow.fs


@dataclass(frozen=True, slots=True)
class Store:
    root: str
    settings: Mapping[str, str] = field(default_factory=dict)
    is_icebergs: bool = False

    def open(self) -> tuple[pyarrow.fs.FileSystem, str]:
        """The file system, and where in it the table is."""
        if "://" not in self.root:
            return pyarrow.fs.LocalFileSystem(), self.root
        return self._open_icebergs() if self.is_icebergs else self._open_deltas()

    def _open_icebergs(self) -> tuple[pyarrow.fs.FileSystem, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        scheme, host, path = PyArrowFileIO.parse_location(self.root)
        return PyArrowFileIO(dict(self.settings)).fs_by_scheme(scheme, host), path

    def _open_deltas(self) -> tuple[pyarrow.fs.FileSystem, str]:
        """By the bucket, so that names are those that the store lists."""
        from deltalake.fs import DeltaStorageHandler

        url = urlsplit(self.root)
        handler = DeltaStorageHandler(f"{url.scheme}://{url.netloc}", dict(self.settings))
        return pyarrow.fs.PyFileSystem(handler), url.path.strip("/")


def folder_of(url: str) -> str:
    """A folder of this machine without its scheme; other URLs as they are."""
    return url.removeprefix("file://")
