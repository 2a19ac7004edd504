"""A project's spec file and where its storage is, as far as they can be known without Spark.

In: a folder or a `spark-pipeline.yml`. Out: a `Place`, or ProjectError with every problem of the file and its line.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

SPEC_FILE_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
SPEC_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
PLACE_FIELDS = ("catalog", "database", "schema")
NOTES_FOLDER = "_runnel"
"""Under the storage: what `runnel pipeline` writes there. Spark's own folders are named otherwise."""
# As Hadoop reads a URI: what follows the scheme and the host is the path, and nothing in it is escaped.
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<host>[^/]*))?(?P<path>/.*)", re.DOTALL)
_ESCAPED = re.compile(r"[^\w!$&'()*+,./:;=@~-]", re.ASCII)


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
class Place:
    """Where a project is, and where it keeps things."""

    spec_path: Path
    name: str
    storage: str

    @property
    def folder(self) -> Path:
        return self.spec_path.parent

    @property
    def local_storage(self) -> Path | None:
        """The storage as a folder of this machine, or None where it is elsewhere (s3a, hdfs)."""
        parts = _URI.fullmatch(self.storage)
        return Path(parts["path"]) if parts is not None and parts["scheme"].lower() == "file" else None

    @property
    def notes(self) -> Path:
        """Where state and metrics go: under the storage, or beside the spec where the storage is elsewhere."""
        return (self.local_storage or self.folder) / NOTES_FOLDER

    def relative(self, path: str | Path) -> str:
        """A file as the user knows it."""
        absolute = Path(path)
        return str(absolute.relative_to(self.folder)) if absolute.is_relative_to(self.folder) else str(path)


def find_place(place: str | Path) -> Place:
    """The project of a folder (or of a folder above it, as Spark looks for it), or of a spec file that is named."""
    path = Path(place).resolve()
    if not path.exists():
        raise ProjectError([Problem(f"{place}: there is no such folder (`runnel pipeline init NAME` makes a project)")])
    spec_path = path if path.is_file() else _find_spec(path, place)
    problems = list(_spec_problems(spec_path))
    if problems:
        raise ProjectError(problems)
    document = yaml.safe_load(spec_path.read_text(encoding="utf-8"))
    return Place(spec_path, str(document["name"]), str(document["storage"]))


def storage_uri(folder: Path) -> str:
    """How a spec names this folder: not `as_uri()`, whose escapes Spark takes for parts of the name."""
    return f"file://{folder}"


def escaped_characters(path: str) -> str:
    """Those that Spark 4.3 writes as %20 and the like in the path of its checkpoints, so that these lie elsewhere."""
    found = (character for character in path if character.isascii() or character.isspace())
    return "".join(dict.fromkeys(character for character in found if _ESCAPED.match(character)))


def _find_spec(folder: Path, place: str | Path) -> Path:
    for candidate in (folder, *folder.parents):
        found = [candidate / name for name in SPEC_FILE_NAMES if (candidate / name).is_file()]
        if len(found) == 1:
            return found[0]
        if found:
            raise ProjectError([Problem(f"{place}: there are both {' and '.join(SPEC_FILE_NAMES)}: remove one")])
    reason = f"{place}: there is no {SPEC_FILE_NAMES[0]} here or above (`runnel pipeline init NAME` makes one)"
    raise ProjectError([Problem(reason)])


def find_projects(folder: Path, depth_max: int) -> Iterator[Path]:
    """The spec files in a folder and below, not looking into projects, hidden folders and the like."""
    try:
        found = [folder / name for name in SPEC_FILE_NAMES if (folder / name).is_file()]
        with os.scandir(folder) as entries:
            folders = sorted(folder / entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # of others, or gone this moment
        return
    yield from found[:1]
    for below in folders if not found and depth_max else ():
        if not below.name.startswith((".", "_")):
            yield from find_projects(below, depth_max - 1)


def _spec_problems(path: Path) -> Iterator[Problem]:
    """What Spark's loader would stop at one by one, or with a traceback."""
    try:
        text = path.read_text(encoding="utf-8")
        yaml.safe_load(text)  # tags that mean nothing here, keys that cannot be any
        document = yaml.compose(text)
    except OSError as error:
        yield Problem(f"the file cannot be read: {error.strerror}", path.name)
        return
    except UnicodeDecodeError:
        yield Problem("the file is not UTF-8 text", path.name)
        return
    except (yaml.YAMLError, ValueError) as error:  # the latter for 2026-13-01, which YAML takes for a date
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
        elif key.value == "name" and not (isinstance(value, yaml.ScalarNode) and value.value):
            yield Problem("name must be a text", path.name, line)
        elif key.value in PLACE_FIELDS and not _is_text(value):
            yield Problem(f"{key.value} must be a text: write it in quotes", path.name, line)
        elif key.value == "storage":
            yield from _storage_problems(path, value.value, line)
        elif key.value == "libraries":
            yield from _library_problems(path, value, line)
    for name in ("name", "storage"):
        if name not in seen:
            yield Problem(f"the field '{name}' is missing", path.name)
    if "libraries" not in seen:
        yield Problem("the field 'libraries' is missing: it says where the definitions are", path.name)


def _is_text(node: yaml.Node) -> bool:
    """Or nothing at all, as if the field were not there."""
    return isinstance(node, yaml.ScalarNode) and node.tag in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:null")


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, SPEC_FIELDS, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are {', '.join(SPEC_FIELDS)}"


def _storage_problems(path: Path, storage: object, line: int) -> Iterator[Problem]:
    parts = _URI.fullmatch(storage) if isinstance(storage, str) else None
    if parts is None or (parts["scheme"].lower() == "file" and parts["host"]):
        example = storage_uri(path.parent / "pipeline-storage")
        shown = storage if isinstance(storage, str) else "(no text)"
        yield Problem(f"storage '{shown}' must be an absolute URI: write e.g. {example}", path.name, line)
    elif wrong := escaped_characters(parts["path"]):
        reason = f"storage has '{wrong}' in its path, which Spark escapes for its checkpoints and then loses them"
        yield Problem(f"{reason}: name a folder without", path.name, line)


def _library_problems(path: Path, node: yaml.Node, line: int) -> Iterator[Problem]:
    entries = yaml.SafeLoader("").construct_object(node, deep=True)
    if not isinstance(entries, list) or not entries:
        yield Problem("libraries must be a list, e.g. `- glob: {include: transformations/**}`", path.name, line)
        return
    for entry in entries:
        glob = entry.get("glob") if isinstance(entry, dict) else None
        if not isinstance(glob, dict) or not isinstance(glob.get("include"), str):
            yield Problem(f"in libraries, {entry!r} must be `glob: {{include: transformations/**}}`", path.name, line)


def _yaml_reason(error: Exception) -> str:
    return (getattr(error, "problem", None) or getattr(error, "context", None) or str(error)).strip()


def _yaml_line(error: Exception) -> int | None:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark is not None else None
