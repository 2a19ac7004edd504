"""Streaming tables that are folders of files, and how records would be lost in them, found before a run.

In: what a project defines, and a session. Out: problems. Spark notes in the table's folder the numbers of the batches
that it has written there, and passes over a batch whose number it finds: it takes it for a repetition. Every flow
counts from 0. So batches are lost without a word where a second flow writes to a table, or a flow that has no
checkpoint writes to a table that has rows: another pipeline's, one whose flow was renamed or its checkpoint deleted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pyspark.errors import PySparkException

from runnel.spark.pipelines.checkpoints import CHECKPOINTS_FOLDER
from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.spec_file import Problem
from runnel.spark.pipelines.sql_files import streaming_definitions

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

FILE_FORMATS = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
CATALOG, DATABASE = "spark_catalog", "default"
"""Spark's own. In another catalog, tables are what that makes of them."""
_PARTS = re.compile(r"`([^`]+)`|(\w+)")


class TableName(NamedTuple):
    """In small letters, as Spark compares them."""

    catalog: str
    database: str
    table: str

    def __str__(self) -> str:
        parts = [f"`{part}`" if re.search(r"\W", part) else part for part in self]
        return ".".join(parts[2:] if self[:2] == (CATALOG, DATABASE) else parts)


@dataclass(frozen=True, slots=True)
class _Flow:
    name: str
    file: str
    line: int | None
    is_auto_cdc: bool


def check_tables(
    project: Project,
    noted: Definitions,
    session: SparkSession,
    emptied: Collection[str] | None = (),
    chosen: Collection[str] = (),
) -> Iterator[Problem]:
    """`emptied`: the tables that this run empties before it writes to them; None means all. `chosen`: those that it
    writes to at all, if not to all of them."""
    flows = _flows_by_table(project, noted, session)
    if chosen:
        written = {resolve(project, name) for name in chosen}
        flows = {table: found for table, found in flows.items() if table in written}
    kept = {} if emptied is None else dict(flows)
    for name in emptied or ():
        kept.pop(resolve(project, name), None)
    begun = _checkpoints(project, session) if kept else set()
    for table, (first, *others) in flows.items():
        for flow in (first, *others):
            if flow.is_auto_cdc:
                yield _without_merge(table, flow)
        for other in others:
            yield Problem(
                f"table {table} is written by flow {first.name} too: in a table of files Spark keeps one batch of each "
                "number, so records of one of them would be lost; make one flow of both (union), or a table for each",
                other.file,
                other.line,
                other.name,
            )
        own = (*table, resolve(project, first.name).table)
        if not others and table in kept and own not in begun and _has_rows(session, table):
            yield Problem(
                f"table {table} holds rows, and flow {first.name} has no checkpoint: another pipeline filled it, "
                "or the flow was renamed, or its checkpoint deleted. Spark would pass over its first batches: choose "
                f"another name, set `database` in {project.spec_path.name}, or empty it with --full-refresh {table}",
                first.file,
                first.line,
                first.name,
            )


def _without_merge(table: TableName, flow: _Flow) -> Problem:
    message = (
        f"auto CDC changes rows of table {table}, and those of a table of files cannot be changed: give it a format "
        "that takes MERGE, with its jars, or use a sink: runnel-lake with writeMode upsert"
    )
    return Problem(message, flow.file, flow.line, flow.name)


def _flows_by_table(project: Project, noted: Definitions, session: SparkSession) -> dict[TableName, list[_Flow]]:
    """Of tables of files only."""
    sql_tables, sql_flows = streaming_definitions(project)
    formats = {resolve(project, name): kind for name, kind in noted.table_formats.items()}
    formats.update((resolve(project, table.name), table.table_format) for table in sql_tables)
    flows: defaultdict[TableName, list[_Flow]] = defaultdict(list)
    for flow in noted.flows.values():
        flows[resolve(project, flow.target)].append(_Flow(flow.name, flow.file, flow.line, flow.relation is None))
    for sql_flow in sql_flows:
        found = _Flow(sql_flow.name, sql_flow.file, sql_flow.line, sql_flow.is_auto_cdc)
        flows[resolve(project, sql_flow.target)].append(found)
    default = _default_format(session)
    return {
        table: flows[table]
        for table, kind in formats.items()
        if flows[table] and table.catalog == CATALOG and (kind or default).lower() in FILE_FORMATS
    }


def _default_format(session: SparkSession) -> str:
    """Empty where the session's catalog has been replaced, and makes its own tables."""
    if session.conf.get(f"spark.sql.catalog.{CATALOG}", "builtin") != "builtin":
        return ""
    return session.conf.get("spark.sql.sources.default") or ""


def resolve(project: Project, name: str) -> TableName:
    """As Spark does, with the project's catalog and database where a name has none."""
    parts = [quoted or plain for quoted, plain in _PARTS.findall(name)]
    place = [project.spec.catalog or CATALOG, project.spec.database or DATABASE]
    catalog, database, table = (part.lower() for part in [*place[: 3 - len(parts)], *parts][:3])
    return TableName(catalog, database, table)


def _checkpoints(project: Project, session: SparkSession) -> set[tuple[str, ...]]:
    """(catalog, database, table, flow) of all that have begun. Spark looks: the storage may be on its machine only."""
    storage = re.sub(r"([\[\]{}*?\\])", r"\\\1", project.storage.rstrip("/"))
    found: list[str] = []
    with suppress(PySparkException):  # there are none, which Spark has an error for
        found = session.read.text(f"{storage}/{CHECKPOINTS_FOLDER}/*/*/*/*/*/metadata").inputFiles()
    return {tuple(part.lower() for part in unquote(path).split("/")[-6:-2]) for path in found}


def _has_rows(session: SparkSession, table: TableName) -> bool:
    name = ".".join(f"`{part}`" for part in table)
    with suppress(PySparkException):  # what cannot be read is Spark's to complain about
        return session.catalog.tableExists(name) and not session.table(name).isEmpty()
    return False
