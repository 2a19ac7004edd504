"""Owns what surrounds a run: the lock that keeps runs apart, a folder for data, progress on the terminal."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from benchmarks.kafka_jars import cache_dir


class AlreadyRunning(Exception):
    """Another run has this machine."""


@contextlib.contextmanager
def only_run() -> Iterator[None]:
    """Two runs at once would measure each other."""
    path = cache_dir() / "bench.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning("another benchmark is running on this machine") from None
        yield


@contextlib.contextmanager
def data_root(named: Path | None) -> Iterator[Path]:
    """A folder on a real disk: the usual temporary folder may live in memory, where fsync costs nothing."""
    parent = named or cache_dir() / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def progress_display(
    console: Console,
) -> Iterator[tuple[Callable[[str], None], Callable[[], None], Progress]]:
    columns = (SpinnerColumn(), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("starting", total=None)
        plain = not console.is_terminal

        def tell(text: str) -> None:
            progress.update(task, description=text)
            if plain:
                console.print(text, highlight=False)

        yield tell, lambda: progress.advance(task), progress
