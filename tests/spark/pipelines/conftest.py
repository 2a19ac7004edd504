"""One JVM with a Connect door for all tests of pipelines, and projects written for one test.

Projects share its catalog, so tables of different tests have different names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runnel.spark.pipelines import Engine, PipelineSession

HEAP = "1g"
# A flow that fails fails at once; else Spark tries twice more, with pauses.
SETTINGS = {"spark.sql.pipelines.maxFlowRetryAttempts": "0"}
SPEC = "name: {name}\nstorage: {storage}\nlibraries:\n  - glob:\n      include: transformations/**\n"


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    from runnel.spark.pipelines import start_engine

    folder = tmp_path_factory.mktemp("pipelines")
    settings = {
        "spark.driver.memory": HEAP,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
    }
    with start_engine("local[2]", settings, app_name="runnel-tests", log=folder / "spark.log") as started:
        yield started


@pytest.fixture
def open_project(engine: Engine) -> Iterator[Callable[..., PipelineSession]]:
    """A session for a project on the shared JVM."""
    from runnel.spark.pipelines import PipelineSession

    opened: list[PipelineSession] = []

    def open_it(project: str | Path, **conf: str) -> PipelineSession:
        opened.append(PipelineSession(project, engine=engine, conf={**SETTINGS, **conf}))
        return opened[-1]

    yield open_it
    for session in opened:
        session.close()


@pytest.fixture
def write_project(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """A project of these files, by their names under transformations/."""

    def write(files: Mapping[str, str]) -> Path:
        folder = tmp_path / "project"
        (folder / "transformations").mkdir(parents=True)
        (folder / "spark-pipeline.yml").write_text(SPEC.format(name="project", storage=(folder / "storage").as_uri()))
        for name, text in files.items():
            (folder / "transformations" / name).write_text(text)
        return folder

    return write
