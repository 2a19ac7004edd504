"""What SQL files define, as far as Spark does not tell: it takes them whole, and answers nothing.

In: a project. Out: streaming tables and flows, with their places. Comments and texts are blanked before anything is
looked for; names come as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from runnel.spark.pipelines.project import Project

_PART = r"(?:`[^`]+`|\w+)"
NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_UNREAD = re.compile(r"/\*.*?\*/|--[^\n]*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_TABLE = re.compile(
    r"\bCREATE\s+(?:OR\s+REFRESH\s+)?STREAMING\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?P<name>{NAME})(?P<rest>[^;]*)",
    re.IGNORECASE,
)
_QUERY = re.compile(r"\bAS\s+\(?\s*(?:SELECT|WITH|FROM|TABLE|VALUES)\b", re.IGNORECASE)
_FORMAT = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)
_FLOW = re.compile(
    rf"\bCREATE\s+FLOW\s+(?P<name>{NAME})\s+(?:COMMENT\s+)?AS\s+(?:INSERT|(?P<changes>AUTO\s+CDC))\s+INTO\s+"
    rf"(?:TABLE\s+)?(?P<target>{NAME})",
    re.IGNORECASE,
)
_CHANGES = re.compile(r"\bFLOW\s+AUTO\s+CDC\b", re.IGNORECASE)
_REFRESHED = re.compile(
    rf"\bCREATE\s+(?:\w+\s+)*?(?:STREAMING\s+TABLE|MATERIALIZED\s+VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{NAME})",
    re.IGNORECASE,
)
_STREAMED = re.compile(rf"\bSTREAM\b\s*\(?\s*({NAME})", re.IGNORECASE)
_DEFINED = re.compile(
    rf"\bCREATE\s+(?:\w+\s+)*?(?:VIEW|TABLE|FLOW)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{NAME})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class SqlTable:
    name: str
    table_format: str | None
    """None: Spark's default."""


@dataclass(frozen=True, slots=True)
class SqlFlow:
    name: str
    target: str
    file: str
    line: int
    is_auto_cdc: bool


def streaming_definitions(project: Project) -> tuple[list[SqlTable], list[SqlFlow]]:
    tables: list[SqlTable] = []
    flows: list[SqlFlow] = []
    for file, text in _texts(project):
        for found in _TABLE.finditer(text):
            query = _QUERY.search(found["rest"])
            kind = _FORMAT.search(found["rest"], 0, query.start() if query else len(found["rest"]))
            tables.append(SqlTable(found["name"], kind.group(1) if kind else None))
            changes = _CHANGES.search(found["rest"]) is not None
            if query or changes:
                flows.append(SqlFlow(found["name"], found["name"], file, _line(text, found), changes))
        for found in _FLOW.finditer(text):
            changes = found["changes"] is not None
            flows.append(SqlFlow(found["name"], found["target"], file, _line(text, found), changes))
    return tables, flows


def defined_names(project: Project) -> Iterator[str]:
    """Of tables, views and flows."""
    for _, text in _texts(project):
        yield from (found["name"] for found in _DEFINED.finditer(text))


def refreshed_names(project: Project) -> Iterator[str]:
    """Of what keeps rows: streaming tables and materialized views."""
    for _, text in _texts(project):
        yield from (found["name"] for found in _REFRESHED.finditer(text))


def streamed_by(project: Project) -> Iterator[tuple[str, list[str]]]:
    """Each table and view, and what its query reads as a stream."""
    for _, text in _texts(project):
        for statement in text.split(";"):
            found = _FLOW.search(statement)
            target = found["target"] if found else (found := _DEFINED.search(statement)) and found["name"]
            if target:
                yield target, streamed_names(statement)


def streamed_names(query: str) -> list[str]:
    return _STREAMED.findall(readable(query))


def find_definition(project: Project, name: str) -> tuple[str | None, int | None]:
    """File and line of whatever an SQL file defines by this name."""
    for file, text in _texts(project):
        for found in _DEFINED.finditer(text):
            if _last_part(found["name"]) == name.lower():
                return file, _line(text, found)
    return None, None


def _last_part(name: str) -> str:
    *_, last = (found.group() for found in re.finditer(_PART, name))
    return last.strip("`").lower()


def _texts(project: Project) -> Iterator[tuple[str, str]]:
    for path in project.definitions():
        if path.suffix == ".sql":
            yield project.relative(path), readable(path.read_text(encoding="utf-8"))


def readable(text: str) -> str:
    """With blanks for comments and texts, so that all else stays where it was."""
    return _UNREAD.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group())


def _line(text: str, found: re.Match[str]) -> int:
    return text.count("\n", 0, found.start()) + 1
