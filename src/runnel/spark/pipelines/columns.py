"""The columns of flows against what they are written to, before anything runs.

In: what a project defines, and a session. Out: problems. Spark's own analysis of the graph gives the columns. Of a
server elsewhere it cannot be had: there each query of a Python file is analysed by itself, with the pipeline's own
tables and views in it replaced by their queries, and nothing is said of SQL files and of what reads from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import DecimalType

from runnel.spark.errors import OptionError
from runnel.spark.lake.options import parse_lake_options
from runnel.spark.lake.sink import check_rows
from runnel.spark.pipelines.checks import LAKE_SINK, TOPIC_SINK
from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.file_tables import TableName, resolve
from runnel.spark.pipelines.places import find_flow, own_name
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import frame, inlined
from runnel.spark.pipelines.resolved import ResolvedFlow, resolved_flows
from runnel.spark.pipelines.spec_file import Problem
from runnel.spark.pipelines.sql_files import streaming_definitions
from runnel.spark.sink_options import parse_sink_options

if TYPE_CHECKING:
    from pyspark.pipelines.output import Sink
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.types import DataType, StructType


def check_columns(
    project: Project, noted: Definitions, session: SparkSession, jvm: Any, *, opens_tables: bool
) -> Iterator[Problem]:
    """To be asked where Spark's dry run found nothing: a cycle has no end here. `opens_tables`: whether lake tables
    can be seen from here."""
    sql_tables, _ = streaming_definitions(project)
    streaming = {resolve(project, name) for name in (*noted.table_formats, *(table.name for table in sql_tables))}
    for flow in _written(noted, session, jvm):
        sink, table = noted.sinks.get(flow.target.strip("`")), resolve(project, flow.target)
        try:
            if flow.refusal is not None and (sink is not None or table in streaming):
                raise OptionError(flow.refusal)
            if sink is not None:
                _check_sink(sink, flow.schema, opens_tables)
            elif table in streaming and (there := _schema_there(session, table)) is not None:
                _check_table(table, there, flow.schema)
        except OptionError as error:
            yield Problem(str(error), *find_flow(project, noted, flow.name), own_name(project, noted, flow.name))


def _written(noted: Definitions, session: SparkSession, jvm: Any) -> Iterator[ResolvedFlow]:
    resolved = resolved_flows(jvm, session, noted.graph_id) if jvm is not None else None
    if resolved is not None:
        yield from resolved
        return
    for flow in noted.flows.values():
        schema = _schema(session, inlined(flow.relation, noted.queries())) if flow.relation is not None else None
        if schema is not None:
            yield ResolvedFlow(flow.name, flow.target, schema)


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
    kinds = {field.name.lower(): field.dataType for field in there.fields}
    for field in schema.fields:
        kind = kinds.get(field.name.lower())
        if kind is not None and not _merges(kind, field.dataType):
            raise OptionError(
                f"column '{field.name}' of table {table} is {kind.simpleString()}, and the flow now makes it "
                f"{field.dataType.simpleString()}: cast it, or fill the table anew with --full-refresh {table}"
            )


def _merges(there: DataType, given: DataType) -> bool:
    """As Spark does it; into structs, arrays and maps nobody looks here."""
    if isinstance(there, DecimalType) and isinstance(given, DecimalType):
        return there.scale == given.scale
    return type(there) is type(given)
