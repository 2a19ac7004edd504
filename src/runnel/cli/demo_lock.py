"""One demo in a folder at a time. In: the folder. Out: ClickException where another demo runs in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """The lock is one on the folder itself: it leaves no file, and ends with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        cure = "end it with Ctrl-C, or name another --folder"
        raise click.ClickException(f"a demo runs in {folder}: {cure}") from error
