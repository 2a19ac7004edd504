"""The queries of a project, of Python files and SQL files alike: what they read, and how to run them again.

In: a project, and what was noted of its Python files. Out: for each flow its query as Spark Connect's relation, the
temporary views behind it, the pipeline's tables and the topics that it reads; copies of it that read batches. SQL is
looked at as text: a column that has the name of a table may be taken for it, a table is never missed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.connect.proto as protocol

from runnel.spark.errors import OptionError
from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.file_tables import TableName, resolve
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import FORMAT, READ, SQL, Source, find_sources, found
from runnel.spark.pipelines.sql_files import NAME, defined_names, readable
from runnel.spark.source_options import SubscribePattern, parse_source_options

_DEFINITION = re.compile(
    rf"\bCREATE\s+(?P<kind>(?:\w+\s+)*?(?:VIEW|TABLE|FLOW))\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{NAME})"
    rf".*?\bAS\s+(?:INSERT\s+INTO\s+(?:TABLE\s+)?(?P<target>{NAME})\s+(?:BY\s+NAME\s+)?)?"
    r"(?P<query>\(?\s*(?:SELECT|WITH|FROM|TABLE|VALUES)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_STREAM = re.compile(rf"\bSTREAM\s*\(\s*(?P<inner>{NAME})\s*\)|\bSTREAM\s+(?P<bare>{NAME})", re.IGNORECASE)
_PARTS_MAX = 3


@dataclass(frozen=True, slots=True)
class Query:
    """Of one flow: its relation, and those of the temporary views that it reads, each behind what it reads itself."""

    relation: Any
    views: Mapping[TableName, Any]
    tables: frozenset[TableName]
    """Of this pipeline, which it reads directly or through the views."""

    @property
    def relations(self) -> list[Any]:
        return [*self.views.values(), self.relation]

    @property
    def sources(self) -> list[Source]:
        return [source for relation in self.relations for source in find_sources(relation)]

    @property
    def is_stream(self) -> bool:
        reads = [read for relation in self.relations for read in found(relation, READ)]
        texts = [sql.query for relation in self.relations for sql in found(relation, SQL)]
        return any(read.is_streaming for read in reads) or any(_STREAM.search(readable(text)) for text in texts)


@dataclass
class Queries:
    project: Project
    by_flow: dict[TableName, Any] = field(default_factory=dict)
    by_target: dict[TableName, list[Any]] = field(default_factory=dict)
    views: set[TableName] = field(default_factory=set)

    def of_flow(self, name: str) -> Query | None:
        relation = self.by_flow.get(resolve(self.project, name))
        if relation is None:
            return None
        views: dict[TableName, Any] = {}
        tables = self._gather(relation, views, set())
        return Query(relation, views, frozenset(tables))

    def topic_of(self, table: TableName) -> str | None:
        """The topic that all rows of a table come from; None where there are several, or nobody knows."""
        topics: set[str] = set()
        left, seen = [table], {table}
        while left:
            relations = self.by_target.get(left.pop())
            if not relations:
                return None
            for relation in relations:
                for source in find_sources(relation):
                    named = _topics(source)
                    if not named:
                        return None
                    topics |= named
                left += self._reads(relation) - seen
                seen |= self._reads(relation)
        return topics.pop() if len(topics) == 1 else None

    def as_batch(self, relation: Any, options: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Any:
        """A copy that reads batches, its tables by their last name alone, and topics with the options that are
        answered."""
        copied = type(relation)()
        copied.CopyFrom(relation)
        for sql in found(copied, SQL):
            sql.query = self._without_streams(sql.query)
        for read in found(copied, READ):
            read.is_streaming = False
            if read.HasField("named_table"):
                name = self._shortened(read.named_table.unparsed_identifier)
                read.named_table.CopyFrom(protocol.Read.NamedTable(unparsed_identifier=name))
            elif read.data_source.format.lower() == FORMAT:
                chosen = options(dict(read.data_source.options))
                read.data_source.options.clear()
                read.data_source.options.update(chosen)
        return copied

    def add(self, flow: str, target: str, relation: Any, is_view: bool) -> None:
        self.by_flow[resolve(self.project, flow)] = relation
        self.by_target.setdefault(resolve(self.project, target), []).append(relation)
        if is_view:
            self.views.add(resolve(self.project, target))

    def _gather(self, relation: Any, views: dict[TableName, Any], seen: set[TableName]) -> set[TableName]:
        """The tables in a query and in its views, which are added behind what they read."""
        tables = set()
        for name in self._reads(relation) - seen:
            seen.add(name)
            if name in self.views:
                (inner,) = self.by_target[name]
                tables |= self._gather(inner, views, seen)
                views[name] = inner
            else:
                tables.add(name)
        return tables

    def _reads(self, relation: Any) -> set[TableName]:
        """The tables and views of the pipeline in a query."""
        names = [read.named_table.unparsed_identifier for read in found(relation, READ)]
        for sql in found(relation, SQL):
            names += re.findall(NAME, readable(sql.query))
        return {known for name in names if (known := self._known(name)[0])}

    def _known(self, name: str) -> tuple[TableName | None, list[str]]:
        """The table that a name begins with, which may be a column's; and the parts that follow."""
        parts = re.findall(r"`[^`]+`|\w+", name)
        for count in range(min(_PARTS_MAX, len(parts)), 0, -1):
            table = resolve(self.project, ".".join(parts[:count]))
            if table in self.by_target:
                return table, parts[count:]
        return None, []

    def _shortened(self, name: str) -> str:
        table, rest = self._known(name)
        return name if table is None else ".".join([quoted(table.table), *rest])

    def _without_streams(self, text: str) -> str:
        """The query over batches. Names with a catalog or a database would not find a temporary view."""
        text = _replaced(_STREAM, text, lambda name: name["inner"] or name["bare"])
        return _replaced(re.compile(NAME), text, lambda name: self._shortened(name[0]) if "." in name[0] else name[0])


def read_queries(project: Project, noted: Definitions) -> Queries:
    queries = Queries(project)
    for name in (*noted.output_names, *defined_names(project)):
        queries.by_target.setdefault(resolve(project, name), [])
    for flow in noted.flows.values():
        if flow.relation is not None:
            queries.add(flow.name, flow.target, flow.relation, flow.target in noted.view_names)
    for path in project.definitions():
        if path.suffix == ".sql":
            _add_sql(queries, path.read_text(encoding="utf-8"))
    return queries


def _add_sql(queries: Queries, text: str) -> None:
    end = -1
    for statement in readable(text).split(";"):
        start, end = end + 1, end + 1 + len(statement)
        made = _DEFINITION.search(statement)
        if made is None:
            continue
        relation = protocol.Relation()
        relation.sql.query = text[start + made.start("query") : end]
        is_view = made["kind"].upper().split()[-2:] == ["TEMPORARY", "VIEW"]
        queries.add(made["name"], made["target"] or made["name"], relation, is_view)


def quoted(name: str) -> str:
    return f"`{name}`"


def _replaced(pattern: re.Pattern[str], text: str, answer: Callable[[re.Match[str]], str]) -> str:
    """What is found outside of comments and texts, replaced."""
    done, pieces = 0, []
    for match in pattern.finditer(readable(text)):
        pieces += [text[done : match.start()], answer(match)]
        done = match.end()
    return "".join([*pieces, text[done:]])


def _topics(source: Source) -> set[str]:
    try:
        strategy = parse_source_options(source.options).strategy
    except OptionError:
        return set()
    return set() if isinstance(strategy, SubscribePattern) else set(str(strategy).split(","))
