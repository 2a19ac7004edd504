"""What is wrong with a project, found before anything runs: Spark's dry run, and the checks that it lacks.

In: a project and a session. Out: problems, each with its file, line and flow as far as they are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.pipelines.spark_connect_pipeline import start_run

from runnel.spark.pipelines.checks import (
    LAKE_SINK,
    TOPIC_SINK,
    Brokers,
    at_sink,
    check_sinks,
    check_sources,
)
from runnel.spark.pipelines.columns import check_columns
from runnel.spark.pipelines.definitions import Definitions, read_definitions
from runnel.spark.pipelines.file_tables import check_tables
from runnel.spark.pipelines.messages import condition, flow_event, plain_message
from runnel.spark.pipelines.places import find_flow, own_name
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.spec_file import Problem

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

# How Spark writes names of tables and flows into its messages: 'catalog.database.table', or each part in backticks, or
# catalog.database.table.
_NAMES = re.compile(r"(?<=')[\w.-]+(?=')|`[^`]+`(?:\.`[^`]+`)*|\b\w+\.\w+\.\w+\b")
WRITE_ONLY = ("memory",)
"""A format of Spark's own that nothing can be read from."""


def find_problems(
    project: Project,
    session: SparkSession,
    jvm: Any,
    *,
    ask_brokers: bool,
    opens_tables: bool,
    has_database: bool = True,
) -> list[Problem]:
    """By file and line: Spark resolves flows side by side, and tells of them in any order. `jvm`: that of the session,
    None where it is elsewhere. `has_database`: whether the one of the spec is there, and not still to be made."""
    brokers = Brokers() if ask_brokers else None
    with read_definitions(project, session, has_database=has_database) as noted:
        problems = _all_problems(project, session, noted, brokers) or list(
            check_columns(project, noted, session, jvm, opens_tables=opens_tables)
        )
    return sorted(problems, key=lambda problem: (problem.file or "", problem.line or 0))


def _all_problems(
    project: Project, session: SparkSession, noted: Definitions, brokers: Brokers | None
) -> list[Problem]:
    problems = [*noted.problems, *static_settings(project, session)]
    problems += _of_others(problems, check_sources(noted, brokers))
    problems += [*check_sinks(project, noted, brokers), *check_formats(project, noted, session)]
    if not noted.problems:  # else whatever needs what is not there would only be a consequence
        problems += check_tables(project, noted, session)
        problems += _of_others(problems, dry_run(project, session, noted))
    return problems


def _of_others(known: list[Problem], problems: Iterable[Problem]) -> list[Problem]:
    """Of a flow the first problem only: the next are mostly its consequences."""
    flows = {problem.flow for problem in known if problem.flow}
    return [problem for problem in problems if problem.flow not in flows]


def dry_run(project: Project, session: SparkSession, noted: Definitions) -> Iterator[Problem]:
    """One problem for each flow that does not resolve; or the one that stopped it all, a cycle or a table too many."""
    found = False
    spark: Any = session
    try:
        for result in start_run(spark, noted.graph_id, (), False, (), True, project.storage):
            if "pipeline_event_result" not in result:
                continue
            event = flow_event(result["pipeline_event_result"].event.message)
            if event is not None and event.status == "FAILED":
                found = True
                yield _flow_problem(project, noted, event.flow, event.error or "")
    except PySparkException as error:
        if not found:
            yield graph_problem(project, noted, plain_message(error))


def graph_problem(project: Project, noted: Definitions, message: str) -> Problem:
    """Where the first table is that the message names, if the project defines one of them."""
    for name in _NAMES.findall(message):
        file, line = find_flow(project, noted, name.replace("`", ""))
        if file is not None:
            return Problem(message, file, line)
    return Problem(message)


def _flow_problem(project: Project, noted: Definitions, name: str, message: str) -> Problem:
    return Problem(message, *find_flow(project, noted, name), own_name(project, noted, name))


def check_formats(project: Project, noted: Definitions, session: SparkSession) -> Iterator[Problem]:
    """A sink's format is looked for only when it is written to; reading from it asks the same question."""
    for sink in noted.sinks.values():
        if sink.format in (TOPIC_SINK, LAKE_SINK, *WRITE_ONLY):
            continue
        try:
            _ = session.read.format(sink.format).load().schema
        except PySparkException as error:
            if condition(str(error)).startswith("DATA_SOURCE_NOT_FOUND"):
                yield at_sink(project, sink, f"there is no format '{sink.format}' (ours are runnel and runnel-lake)")


def static_settings(project: Project, session: SparkSession) -> Iterator[Problem]:
    """Spark sets the spec's configuration for each flow, and then fails where that is not possible any more."""
    for name, value in project.spec.configuration.items():
        try:
            session.conf.set(name, value)
        except IllegalArgumentException:  # a value that makes no sense, which the dry run tells
            continue
        except PySparkException as error:
            if condition(str(error)) not in ("CANNOT_MODIFY_STATIC_CONFIG", "CANNOT_MODIFY_CONFIG"):
                raise
            cure = f"remove it here and give it as --conf {name}={value}"
            message = f"configuration: {name} can be set only when Spark starts: {cure}"
            yield Problem(message, project.spec_path.name)
