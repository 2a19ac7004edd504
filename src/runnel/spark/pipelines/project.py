"""A project as Spark's own loader reads it: its definitions, and the settings that it runs with.

In: a folder or a `spark-pipeline.yml`. Out: a `Project`, or ProjectError with every problem that was found. Nothing
here starts a JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.pipelines.cli import PipelineSpec, load_pipeline_spec

from runnel.spark.pipelines.moved import find_move
from runnel.spark.pipelines.spec_file import Place, Problem, ProjectError, find_place

DEFINITION_SUFFIXES = (".py", ".sql")
TABLES_FOLDER = "tables"
CATALOG_KIND = "spark.sql.catalogImplementation"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
WAREHOUSE = "spark.sql.warehouse.dir"
METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
RESOURCES = "spark.hadoop.hive.downloaded.resources.dir"
"""Hive makes this folder and leaves it: in /tmp, one for each JVM, unless it is told where."""


@dataclass(frozen=True)
class Project(Place):
    spec: PipelineSpec

    def settings(self) -> dict[str, str]:
        """Spark's settings for this project: those of the spec over ours, which keep tables under the storage.

        Spark's default catalog forgets its tables with the process, and the next run then fails on their files.
        """
        return {
            CATALOG_KIND: "hive",
            WAREHOUSE: f"{self.storage.rstrip('/')}/{TABLES_FOLDER}",
            METASTORE: self.derby_url,
            RESOURCES: str(self.notes / "resources"),
            JAVA_OPTIONS: derby_log_option(self.notes),
            **self.spec.configuration,
        }

    @property
    def derby_url(self) -> str:
        """Of the catalog that is the project's own."""
        return derby_url(self.metastore)

    @property
    def metastore(self) -> Path:
        return self.notes / "metastore"

    def is_own_catalog(self, settings: Mapping[str, str]) -> bool:
        """Whether these leave the catalog as it is; else who set it knows who may use it, and when."""
        return settings[CATALOG_KIND] == "hive" and settings[METASTORE] == self.derby_url

    def definitions(self) -> list[Path]:
        """The files that the spec's globs name, each once."""
        found = (path for library in self.spec.libraries for path in sorted(self.folder.glob(library.include)))
        return [path for path in dict.fromkeys(found) if path.is_file() and "__pycache__" not in path.parts]


def derby_url(folder: Path) -> str:
    return f"jdbc:derby:;databaseName={folder};create=true"


def derby_log_option(folder: Path) -> str:
    return f'"-Dderby.stream.error.file={folder / "derby.log"}"'


def load_project(place: str | Path) -> Project:
    found = find_place(place)
    try:
        project = Project(found.spec_path, found.name, found.storage, load_pipeline_spec(found.spec_path))
    except PySparkException as error:
        raise ProjectError([Problem(_plain(error), found.spec_path.name)]) from error
    problems = [*find_move(project), *_file_problems(project)]
    if problems:
        raise ProjectError(problems)
    return project


def _file_problems(project: Project) -> Iterator[Problem]:
    for library in project.spec.libraries:
        if not any(path.is_file() for path in project.folder.glob(library.include)):
            yield Problem(f"libraries: no file matches '{library.include}'", project.spec_path.name)
    for path in project.definitions():
        if path.suffix not in DEFINITION_SUFFIXES:
            yield Problem("definitions are .py and .sql files: move this one out of libraries", project.relative(path))


def _plain(error: Exception) -> str:
    """Spark's message without the name of its condition."""
    text = str(error)
    return text.partition("] ")[2] or text if text.startswith("[") else text
