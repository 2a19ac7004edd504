"""A project's catalog for somebody who only looks: a copy, so that a run may have it, or begin, at the same time.

In: a project and Spark's settings. Out: settings that name the copy, for as long as it is needed. Derby, which keeps
the catalog, takes one process at a time. A copy in which no file changed is what a crash leaves, and Derby opens that.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runnel.spark.pipelines.own_catalog import is_made
from runnel.spark.pipelines.project import (
    CATALOG_KIND,
    JAVA_OPTIONS,
    METASTORE,
    RESOURCES,
    WAREHOUSE,
    Project,
    derby_log_option,
    derby_url,
)
from runnel.spark.pipelines.spec_file import Problem, ProjectError

COPIES_MAX = 50
SETTLED_S = 0.1
"""A file that was written this short ago may change again without a change of its time."""


@contextmanager
def copied_catalog(project: Project, settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    if not project.is_own_catalog(settings):
        yield dict(settings)
        return
    with tempfile.TemporaryDirectory(prefix="runnel-catalog-") as name:
        folder = Path(name)
        # For a database that is made there: its folder goes with it, and so does Hive's.
        changed = {WAREHOUSE: str(folder / "tables"), RESOURCES: str(folder / "resources")}
        if is_made(project.metastore):
            _copy(project.metastore, folder / "metastore")
            changed |= {METASTORE: derby_url(folder / "metastore"), JAVA_OPTIONS: _options(project, settings, folder)}
        else:
            changed |= {CATALOG_KIND: "in-memory"}  # nothing has run: there are no tables
        yield {**settings, **changed}


def _options(project: Project, settings: Mapping[str, str], folder: Path) -> str:
    """The user's own stay as they are."""
    return settings[JAVA_OPTIONS].replace(derby_log_option(project.notes), derby_log_option(folder))


def _copy(source: Path, target: Path) -> None:
    for _ in range(COPIES_MAX):
        now_ns = time.time_ns()
        try:
            before = _stamps(source)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.lck"))
            is_whole = _stamps(source) == before
        except (FileNotFoundError, shutil.Error):  # one was removed on the way
            is_whole = False
        if is_whole and now_ns - max((written_ns for written_ns, _ in before.values()), default=0) > SETTLED_S * 1e9:
            return
        shutil.rmtree(target, ignore_errors=True)
        time.sleep(SETTLED_S)
    raise ProjectError([Problem(f"the catalog in {source} changes all the time: try again when less is going on")])


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """When each file was written last, and its size."""
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lck"}
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}
