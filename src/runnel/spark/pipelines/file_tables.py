"""Streaming tables that are folders of files, and two ways to lose records in them, found before a run.

In: what a project defines, and a session. Out: problems. Spark notes in the table's folder the numbers of the batches
that it has written there, and passes over a batch whose number it finds: it takes it for a repetition. Every flow
counts from 0, so a second flow into the same table, or a table that another pipeline has filled, would silently lose
batches.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from runnel.spark.pipelines.checkpoints import has_checkpoint
from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.figures import short_name
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.spec_file import Problem

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_NAME = r"(?P<name>[\w.`]+)"
_COMMENT = re.compile(r"--[^\n]*")
_SQL_TABLE = re.compile(
    rf"\bCREATE\s+(?:OR\s+REFRESH\s+)?STREAMING\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}(?P<rest>[^;]*)",
    re.IGNORECASE,
)
_SQL_FORMAT = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)
_SQL_QUERY = re.compile(r"\bAS\s+(?:SELECT|WITH|FROM|TABLE|VALUES|\()", re.IGNORECASE)
_SQL_FLOW = re.compile(
    rf"\bCREATE\s+FLOW\s+{_NAME}\s+AS\s+INSERT\s+INTO\s+(?:ONCE\s+)?(?P<target>[\w.`]+)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Flow:
    name: str
    file: str
    line: int | None


def check_tables(
    project: Project, noted: Definitions, session: SparkSession, emptied: Collection[str] | None = ()
) -> Iterator[Problem]:
    """`emptied`: the tables that this run empties before it writes to them; None means all."""
    formats, flows = _defined(project, noted)
    default = session.conf.get("spark.sql.sources.default") or ""
    for table, writers in flows.items():
        if table not in formats or (formats[table] or default).lower() not in FILE_FORMATS:
            continue
        first, *others = writers
        for other in others:
            yield Problem(
                f"table {table} is written by flow {first.name} too: in a table of files Spark keeps one batch of each "
                "number, so records of one of them would be lost; make one flow of both (union), or a table for each",
                other.file,
                other.line,
                other.name,
            )
        if emptied is not None and table not in emptied and _is_someone_elses(project, session, table):
            yield Problem(
                f"table {table} holds rows, and this project has no checkpoint for it: another pipeline filled it, or "
                "the checkpoints were deleted. Spark would pass over the first batches: choose another name, set "
                f"`database` in {project.spec_path.name}, or empty the table with --full-refresh {table}",
                first.file,
                first.line,
                first.name,
            )


def _defined(project: Project, noted: Definitions) -> tuple[dict[str, str | None], dict[str, list[_Flow]]]:
    """The formats of streaming tables, and the flows into each output, by short names."""
    formats = {short_name(name): kind for name, kind in noted.table_formats.items()}
    flows: defaultdict[str, list[_Flow]] = defaultdict(list)
    for flow in noted.flows.values():
        flows[short_name(flow.target)].append(_Flow(flow.name, flow.file, flow.line))
    for path in project.definitions():
        if path.suffix != ".sql":
            continue
        text, file = _COMMENT.sub("", path.read_text(encoding="utf-8")), project.relative(path)
        for found in _SQL_TABLE.finditer(text):
            table = _short(found["name"])
            kind = _SQL_FORMAT.search(found["rest"])
            formats[table] = kind.group(1) if kind else None
            if _SQL_QUERY.search(found["rest"]):
                flows[table].append(_Flow(table, file, _line(text, found)))
        for found in _SQL_FLOW.finditer(text):
            flows[_short(found["target"])].append(_Flow(_short(found["name"]), file, _line(text, found)))
    return formats, flows


def _short(name: str) -> str:
    return short_name(name.replace("`", ""))


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1


def _is_someone_elses(project: Project, session: SparkSession, table: str) -> bool:
    """False also where nobody can tell: the checkpoints are on another machine, or the table cannot be read."""
    if project.local_storage is None or has_checkpoint(project.local_storage, table):
        return False
    place = () if "." in table else (project.spec.catalog, project.spec.database)
    name = ".".join(part for part in (*place, table) if part)
    with suppress(PySparkException):
        return session.catalog.tableExists(name) and not session.table(name).isEmpty()
    return False
