"""The columns of flows against what they are written to, before anything runs.

In: what a project defines, and a session. Out: problems. A flow's query is analysed by itself, with the pipeline's own
tables and views in it replaced by their queries. Where that cannot be, because SQL files define a table that is not
there yet, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from runnel.spark.errors import OptionError
from runnel.spark.lake.options import parse_lake_options
from runnel.spark.lake.sink import check_rows
from runnel.spark.pipelines.checks import LAKE_SINK, TOPIC_SINK
from runnel.spark.pipelines.definitions import Definitions, FlowDefinition
from runnel.spark.pipelines.file_tables import TableName, resolve
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import frame, inlined
from runnel.spark.pipelines.spec_file import Problem
from runnel.spark.sink_options import parse_sink_options

if TYPE_CHECKING:
    from pyspark.pipelines.output import Sink
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.types import StructType


def check_columns(
    project: Project, noted: Definitions, session: SparkSession, *, opens_tables: bool
) -> Iterator[Problem]:
    """To be asked where Spark's dry run found nothing: a cycle has no end here. `opens_tables`: whether lake tables
    can be seen from here."""
    for flow in noted.flows.values():
        try:
            _check(project, noted, session, flow, opens_tables)
        except OptionError as error:
            yield Problem(str(error), flow.file, flow.line, flow.name)


def _check(
    project: Project, noted: Definitions, session: SparkSession, flow: FlowDefinition, opens_tables: bool
) -> None:
    sink = noted.sinks.get(flow.target)
    table = None if sink is not None or flow.name in noted.view_names else resolve(project, flow.target)
    there = None if table is None else _schema_there(session, table)
    if flow.relation is None or (sink is None and there is None):
        return
    schema = _schema(session, inlined(flow.relation, noted.queries()))
    if schema is None:
        return
    if sink is not None:
        _check_sink(sink, schema, opens_tables)
    elif table is not None and there is not None and flow.target in noted.table_formats:
        _check_table(table, there, schema)


def _schema(session: SparkSession, relation: Any) -> StructType | None:
    try:
        schema: StructType = frame(session, relation).schema
    except PySparkException:
        return None
    return schema


def _schema_there(session: SparkSession, table: TableName) -> StructType | None:
    name = ".".join(f"`{part}`" for part in table)
    try:
        return session.table(name).schema if session.catalog.tableExists(name) else None
    except PySparkException:  # what cannot be read is Spark's to complain about
        return None


def _check_sink(sink: Sink, schema: StructType, opens_tables: bool) -> None:
    """What the sink itself would say when the flow begins."""
    if sink.format == TOPIC_SINK:
        parse_sink_options(sink.options, schema)
    elif sink.format == LAKE_SINK and opens_tables:
        try:
            check_rows(parse_lake_options(sink.options), schema)
        except OptionError:
            raise
        except Exception as error:  # whatever a library has for a store or a catalog that does not answer
            raise OptionError(f"sink {sink.name} cannot be opened ({type(error).__name__}: {error})") from error


def _check_table(table: TableName, there: StructType, schema: StructType) -> None:
    """Spark adds columns to a table, and does not change those that it has."""
    kinds = {field.name.lower(): field.dataType.simpleString() for field in there.fields}
    for field in schema.fields:
        kind, given = kinds.get(field.name.lower()), field.dataType.simpleString()
        if kind is not None and kind != given and not (_outer(kind) and _outer(kind) == _outer(given)):
            raise OptionError(
                f"column '{field.name}' of table {table} is {kind}, and the flow now makes it {given}: cast it, or "
                f"fill the table anew with --full-refresh {table}"
            )


def _outer(kind: str) -> str:
    """`struct`, `array` or `map`, whose insides Spark may merge; empty for others."""
    outer, bracket, _ = kind.partition("<")
    return outer if bracket else ""
