"""Which topics a query reads, from the query itself: Spark Connect's relation, a tree of protobuf messages.

In: relations. Out: the `runnel` sources in them with their options, and relations whose sources read something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runnel.spark.pipelines.sql_files import streamed_names

FORMAT = "runnel"
READ, SQL = "spark.connect.Read", "spark.connect.SQL"


@dataclass(frozen=True, slots=True)
class Source:
    """One `format("runnel")` in a query."""

    options: Mapping[str, str]
    is_streaming: bool


def frame(session: Any, relation: Any) -> Any:
    """A DataFrame of a relation that is there already."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class Ready(LogicalPlan):
        def __init__(self) -> None:
            super().__init__(None)

        def plan(self, session: Any) -> Any:
            return relation

    return DataFrame(Ready(), session)


def find_sources(relation: Any) -> Iterator[Source]:
    for read in found(relation, READ):
        if read.data_source.format.lower() == FORMAT:
            yield Source(dict(read.data_source.options), read.is_streaming)


def tables_read(relation: Any) -> set[str]:
    """The names of tables and views in a query, as they are written."""
    return {read.named_table.unparsed_identifier for read in found(relation, READ) if read.HasField("named_table")}


def tables_streamed(relation: Any) -> set[str]:
    """Those that are read as a stream, also by the text of an SQL query."""
    named = {
        read.named_table.unparsed_identifier
        for read in found(relation, READ)
        if read.HasField("named_table") and read.is_streaming
    }
    return named.union(*(streamed_names(sql.query) for sql in found(relation, SQL)))


def inlined(relation: Any, views: Mapping[str, Any]) -> Any:
    """A copy in which the names of the pipeline's views, or tables, are replaced by their queries."""
    copied = type(relation)()
    copied.CopyFrom(relation)
    _inline(copied, views)
    return copied


def _inline(message: Any, views: Mapping[str, Any]) -> None:
    for inner in _messages(message):
        if inner.DESCRIPTOR.full_name == "spark.connect.Relation" and inner.HasField("read"):
            query = views.get(inner.read.named_table.unparsed_identifier)
            if query is not None:
                inner.CopyFrom(inlined(query, views))
        else:
            _inline(inner, views)


def found(message: Any, kind: str) -> Iterator[Any]:
    """All messages of this type, however deep."""
    if message.DESCRIPTOR.full_name == kind:
        yield message
        return
    for inner in _messages(message):
        yield from found(inner, kind)


def _messages(message: Any) -> Iterator[Any]:
    """The messages that are fields of this one, single, repeated or values of a map."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                yield from value.values()
        elif hasattr(value, "ListFields"):
            yield value
        else:
            yield from value
