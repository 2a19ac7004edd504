"""A project's own catalog, found as a kill leaves it; and the copy that is looked at. Without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runnel.spark.pipelines.catalog_copy import copied_catalog
from runnel.spark.pipelines.own_catalog import FREE_S, is_made, remove_half_made, wait_until_free
from runnel.spark.pipelines.project import (
    CATALOG_KIND,
    JAVA_OPTIONS,
    METASTORE,
    RESOURCES,
    WAREHOUSE,
    Project,
    load_project,
)
from runnel.spark.pipelines.starter import make_project

HOLD = "import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX); print(1, flush=True)"


@contextmanager
def holding(lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process has the catalog, until it is killed."""
    lock.touch()
    command = [sys.executable, "-c", HOLD + "; sys.stdin.read()", str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield holder
        holder.kill()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    make_project(tmp_path / "shop", "localhost:9092")
    found = load_project(tmp_path / "shop")
    (found.metastore / "seg0").mkdir(parents=True)
    return found


def test_a_catalog_that_was_never_finished_is_none(project: Project) -> None:
    assert not is_made(project.metastore)
    with copied_catalog(project, project.settings()) as settings:
        assert settings[CATALOG_KIND] == "in-memory"
    remove_half_made(project.metastore)
    assert not project.metastore.exists()


def test_a_catalog_is_copied_and_stays(project: Project) -> None:
    (project.metastore / "service.properties").write_text("x")
    own = project.settings()
    wanted = {**own, JAVA_OPTIONS: f"-Dmine=1 {own[JAVA_OPTIONS]}"}
    with copied_catalog(project, wanted) as settings:
        copy = Path(settings[METASTORE].partition("databaseName=")[2].partition(";")[0])
        assert (copy / "service.properties").read_text() == "x"
        assert settings[JAVA_OPTIONS] == f'-Dmine=1 "-Dderby.stream.error.file={copy.parent}/derby.log"'
        assert settings[WAREHOUSE] == f"{copy.parent}/tables", "a database that is made leaves no folder"
        assert settings[RESOURCES] == f"{copy.parent}/resources"
    assert not copy.exists()
    with copied_catalog(project, {**own, JAVA_OPTIONS: "-Dmine=2"}) as settings:
        assert settings[JAVA_OPTIONS] == "-Dmine=2"
    remove_half_made(project.metastore)
    assert is_made(project.metastore)


def test_a_process_that_is_dying_is_waited_for(project: Project) -> None:
    lock = project.metastore / "dbex.lck"
    assert wait_until_free(project.metastore, 0)
    with holding(lock) as holder:
        assert not wait_until_free(project.metastore, 0)
        holder.kill()
        assert wait_until_free(project.metastore, FREE_S)


def test_a_process_that_keeps_the_catalog_is_told_of(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """And Derby's two hundred lines are not."""
    from runnel.spark.pipelines import PipelineSession, ProjectError, running

    monkeypatch.setattr(running, "FREE_S", 0)
    answer = r"another process has this pipeline open, .* `session.close\(\)` there"
    with holding(project.metastore / "dbex.lck"), pytest.raises(ProjectError, match=answer):
        PipelineSession(project)
