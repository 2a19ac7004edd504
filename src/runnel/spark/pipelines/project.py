"""A pipeline project on disk: its spec file, read by Spark's own loader, and where its storage is.

In: a folder or a `spark-pipeline.yml`. Out: a `Project`, or ProjectError with every problem that was found. Nothing
here starts a JVM.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import yaml

if TYPE_CHECKING:
    from pyspark.pipelines.cli import PipelineSpec

SPEC_FILE_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
SPEC_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
DEFINITION_SUFFIXES = (".py", ".sql")
TABLES_FOLDER = "tables"
NOTES_FOLDER = "_runnel"
"""Under the storage: what `runnel pipeline` writes there. Spark's own folders are named otherwise."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must be mended before the pipeline can run."""

    message: str
    file: str | None = None
    line: int | None = None
    flow: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ": ".join(part for part in (place, f"flow {self.flow}" if self.flow else None, self.message) if part)


class ProjectError(ValueError):
    """The project cannot be loaded; `problems` says why."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class Project:
    spec_path: Path
    spec: PipelineSpec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def folder(self) -> Path:
        return self.spec_path.parent

    @property
    def local_storage(self) -> Path | None:
        """The storage as a folder of this machine, or None where it is elsewhere (s3a, hdfs)."""
        return local_folder(self.spec.storage)

    @property
    def notes(self) -> Path:
        """Where state and metrics go: under the storage, or beside the spec where the storage is elsewhere."""
        return (self.local_storage or self.folder) / NOTES_FOLDER

    def settings(self) -> dict[str, str]:
        """Spark's settings for this project: those of the spec over ours, which keep tables under the storage.

        Spark's default catalog forgets its tables with the process, and the next run then fails on their files.
        """
        metastore = self.notes / "metastore"
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": f"{self.spec.storage.rstrip('/')}/{TABLES_FOLDER}",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
            "spark.driver.defaultJavaOptions": f'"-Dderby.stream.error.file={self.notes / "derby.log"}"',
            **self.spec.configuration,
        }

    def definitions(self) -> list[Path]:
        """The files that the spec's globs name, each once."""
        found = (path for library in self.spec.libraries for path in sorted(self.folder.glob(library.include)))
        return [path for path in dict.fromkeys(found) if path.is_file() and "__pycache__" not in path.parts]

    def relative(self, path: str | Path) -> str:
        """A file as the user knows it."""
        absolute = Path(path)
        return str(absolute.relative_to(self.folder)) if absolute.is_relative_to(self.folder) else str(path)


def local_folder(uri: str) -> Path | None:
    parts = urlparse(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def find_spec(place: str | Path) -> Path:
    """The spec file of a folder (or of a folder above it, as Spark looks for it), or the file that is named."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import find_pipeline_spec

    path = Path(place).resolve()
    if path.is_file():
        return path
    if not path.is_dir():
        raise ProjectError([Problem(f"{place}: there is no such folder (`runnel pipeline init NAME` makes a project)")])
    try:
        return find_pipeline_spec(path)
    except PySparkException as error:
        if "MULTIPLE" in (error.getCondition() or ""):
            reason = f"{place}: there are both {' and '.join(SPEC_FILE_NAMES)}: remove one"
        else:
            reason = f"{place}: there is no {SPEC_FILE_NAMES[0]} here or above (`runnel pipeline init NAME` makes one)"
        raise ProjectError([Problem(reason)]) from error


def find_projects(folder: Path, depth_max: int) -> Iterator[Path]:
    """The spec files in a folder and below, not looking into projects, hidden folders and the like."""
    found = [folder / name for name in SPEC_FILE_NAMES if (folder / name).is_file()]
    yield from found[:1]
    if found or depth_max == 0:
        return
    for below in sorted(folder.iterdir()):
        if below.is_dir() and not below.is_symlink() and not below.name.startswith((".", "_")):
            yield from find_projects(below, depth_max - 1)


def load_project(place: str | Path) -> Project:
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import load_pipeline_spec

    path = find_spec(place)
    problems = list(_spec_problems(path))
    if problems:
        raise ProjectError(problems)
    try:
        project = Project(path, load_pipeline_spec(path))
    except PySparkException as error:
        raise ProjectError([Problem(_plain(error), path.name)]) from error
    problems = list(_file_problems(project))
    if problems:
        raise ProjectError(problems)
    return project


def _spec_problems(path: Path) -> Iterator[Problem]:
    """What Spark's loader would stop at one by one, or with a traceback."""
    try:
        document = yaml.compose(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        yield Problem("the file is not UTF-8 text", path.name)
        return
    except yaml.YAMLError as error:
        yield Problem(f"this is not YAML: {_yaml_reason(error)}", path.name, _yaml_line(error))
        return
    if not isinstance(document, yaml.MappingNode):
        yield Problem("the file must be a mapping with name, storage and libraries", path.name)
        return
    seen = {}
    for key, value in document.value:
        line = key.start_mark.line + 1
        seen[key.value] = value
        if key.value not in SPEC_FIELDS:
            yield Problem(f"unknown field '{key.value}': {_nearest(key.value)}", path.name, line)
        elif key.value == "storage":
            yield from _storage_problems(path, value.value, line)
        elif key.value == "libraries":
            yield from _library_problems(path, value, line)
    for name in ("name", "storage"):
        if name not in seen:
            yield Problem(f"the field '{name}' is missing", path.name)
    if "libraries" not in seen:
        yield Problem("the field 'libraries' is missing: it says where the definitions are", path.name)


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, SPEC_FIELDS, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(SPEC_FIELDS)}"


def _storage_problems(path: Path, storage: object, line: int) -> Iterator[Problem]:
    if not isinstance(storage, str) or not urlparse(storage).scheme or not urlparse(storage).path.startswith("/"):
        example = (path.parent / "pipeline-storage").as_uri()
        yield Problem(f"storage '{storage}' must be an absolute URI: write e.g. {example}", path.name, line)


def _library_problems(path: Path, node: yaml.Node, line: int) -> Iterator[Problem]:
    entries = yaml.SafeLoader("").construct_object(node, deep=True)
    if not isinstance(entries, list) or not entries:
        yield Problem("libraries must be a list, e.g. `- glob: {include: transformations/**}`", path.name, line)
        return
    for entry in entries:
        glob = entry.get("glob") if isinstance(entry, dict) else None
        if not isinstance(glob, dict) or not isinstance(glob.get("include"), str):
            yield Problem(f"in libraries, {entry!r} must be `glob: {{include: transformations/**}}`", path.name, line)


def _file_problems(project: Project) -> Iterator[Problem]:
    for library in project.spec.libraries:
        if not any(path.is_file() for path in project.folder.glob(library.include)):
            yield Problem(f"libraries: no file matches '{library.include}'", project.spec_path.name)
    for path in project.definitions():
        if path.suffix not in DEFINITION_SUFFIXES:
            yield Problem("definitions are .py and .sql files: move this one out of libraries", project.relative(path))


def _yaml_reason(error: yaml.YAMLError) -> str:
    return (getattr(error, "problem", None) or getattr(error, "context", None) or str(error)).strip()


def _yaml_line(error: yaml.YAMLError) -> int | None:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark is not None else None


def _plain(error: Exception) -> str:
    """Spark's message without the name of its condition."""
    text = str(error)
    return text.partition("] ")[2] or text if text.startswith("[") else text
