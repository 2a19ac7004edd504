"""What a project defines, read by Spark's own registration, file by file, and noted on the way.

In: a project and a Connect session. Out: a dataflow graph on the server, and `Definitions`: which flow is defined
where, which topics it reads, what each sink is; plus the problems of files that do not load.
"""

from __future__ import annotations

import contextlib
import glob
import io
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.sql.connect.proto as protocol
from pyspark.errors import PySparkException
from pyspark.pipelines.cli import LibrariesGlob, PipelineSpec, register_definitions
from pyspark.pipelines.output import Output, Sink, StreamingTable, TemporaryView
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

from runnel.spark.pipelines.engine import connect_mode
from runnel.spark.pipelines.figures import short_name
from runnel.spark.pipelines.messages import plain_message
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import Source, find_sources
from runnel.spark.pipelines.spec_file import Problem, ProjectError

if TYPE_CHECKING:
    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession

_SPARKS_LINES = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: (Loading|Found|Importing|Registering) ")


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    name: str
    target: str
    file: str
    line: int | None
    relation: Any = None
    """Spark Connect's message; None for flows that Spark makes itself (auto CDC)."""
    sources: tuple[Source, ...] = ()


@dataclass
class Definitions:
    graph_id: str
    flows: dict[str, FlowDefinition] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    view_names: set[str] = field(default_factory=set)
    table_formats: dict[str, str | None] = field(default_factory=dict)
    """Of the streaming tables; None is Spark's default."""
    output_names: set[str] = field(default_factory=set)
    """Of Python files; what SQL files define, Spark does not tell."""
    problems: list[Problem] = field(default_factory=list)

    def flow(self, name: str) -> FlowDefinition | None:
        """By its name, or by the name that Spark gives it, `spark_catalog.default.name`."""
        return self.flows.get(name) or self.flows.get(short_name(name)) or self.flows.get(name.rpartition(".")[2])

    def queries(self) -> dict[str, Any]:
        """Those of temporary views, and of tables that one flow fills."""
        targets = [flow.target for flow in self.flows.values()]
        return {
            flow.target: flow.relation
            for flow in self.flows.values()
            if flow.relation is not None and targets.count(flow.target) == 1 and flow.target not in self.sinks
        }


class NotingRegistry(SparkConnectGraphElementRegistry):
    """Spark's registry, which also notes what passes."""

    def __init__(self, session: SparkSession, project: Project, noted: Definitions) -> None:
        super().__init__(session, noted.graph_id)  # type: ignore[arg-type]
        self._project = project
        self._noted = noted

    def register_output(self, output: Output) -> None:
        super().register_output(output)
        self._noted.output_names.add(output.name)
        if isinstance(output, Sink):
            self._noted.sinks[output.name] = output
        elif isinstance(output, TemporaryView):
            self._noted.view_names.add(output.name)
        elif isinstance(output, StreamingTable):
            self._noted.table_formats[output.name] = output.format

    def register_flow(self, flow: Flow) -> None:
        def query() -> DataFrame:
            frame = flow.func()
            plan: Any = getattr(frame, "_plan", None)
            if plan is None:
                raise TypeError(f"{flow.name} must return a DataFrame, not {type(frame).__name__}")
            self._note(flow, plan.plan(self._client))
            return frame

        with self._collecting(flow):
            super().register_flow(replace(flow, func=query))

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        with self._collecting(flow):
            super().register_auto_cdc_flow(flow)
            self._note(flow, None)

    @contextlib.contextmanager
    def _collecting(self, flow: Flow | AutoCdcFlow) -> Iterator[None]:
        """A flow that Spark refuses is a problem, and the next one in the file is looked at all the same."""
        try:
            yield
        except Exception as error:
            place = flow.source_code_location
            problem = _file_problem(self._project, Path(place.filename), error)
            line = problem.line or place.line_number
            self._noted.problems.append(replace(problem, line=line, flow=flow.name or flow.target))

    def _note(self, flow: Flow | AutoCdcFlow, relation: Any) -> None:
        place = flow.source_code_location
        name = flow.name or flow.target
        sources = () if relation is None else tuple(find_sources(relation))
        file = self._project.relative(place.filename)
        self._noted.flows[name] = FlowDefinition(name, flow.target, file, place.line_number, relation, sources)


@contextlib.contextmanager
def read_definitions(project: Project, session: SparkSession, *, has_database: bool = True) -> Iterator[Definitions]:
    """A graph with everything that loads, for as long as it is needed; what does not load is a problem of its file.
    `has_database`: whether the one of the spec is there; else names without one mean Spark's default."""
    spec: Any = session
    graph_id = _create(project, spec, project.spec.database if has_database else None)
    noted = Definitions(graph_id)
    registry = NotingRegistry(session, project, noted)
    with connect_mode(session):
        for path in project.definitions():
            with _collecting(project, path, noted.problems), _without_sparks_lines():
                register_definitions(project.spec_path, registry, _only(project, path), spec, graph_id)
    try:
        yield noted
    finally:
        _drop(session, graph_id)


def _only(project: Project, path: Path) -> PipelineSpec:
    """The spec with one file. Its name is no pattern, and Spark takes an escaped one for a pattern that it forbids."""
    spec = replace(project.spec, libraries=[])
    object.__setattr__(spec, "libraries", [LibrariesGlob(glob.escape(project.relative(path)))])
    return spec


def _create(project: Project, session: Any, database: str | None) -> str:
    try:
        return create_dataflow_graph(
            session,
            default_catalog=project.spec.catalog,
            default_database=database,
            sql_conf=project.spec.configuration,
        )
    except PySparkException as error:  # the spec names a catalog or a database that is not there
        raise ProjectError([Problem(plain_message(error), project.spec_path.name)]) from error


def _drop(session: SparkSession, graph_id: str) -> None:
    """The server keeps a graph until it is told not to."""
    command = protocol.Command()
    command.pipeline_command.drop_dataflow_graph.dataflow_graph_id = graph_id
    with contextlib.suppress(PySparkException):
        session.client.execute_command(command)


@contextlib.contextmanager
def _collecting(project: Project, path: Path, problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        problems.append(_file_problem(project, path, error))
    except SystemExit as error:
        problems.append(Problem(f"the file ends the process (exit {error.code})", project.relative(path)))


def _file_problem(project: Project, path: Path, error: Exception) -> Problem:
    if isinstance(error, SyntaxError) and error.filename:
        return Problem(f"syntax error: {error.msg}", project.relative(error.filename), error.lineno)
    lines = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(path.parent)
    ]
    file, line = (lines[-1].filename, lines[-1].lineno) if lines else (str(path), None)
    message = plain_message(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
    return Problem(message, project.relative(file), line)


@contextlib.contextmanager
def _without_sparks_lines() -> Iterator[None]:
    """Spark prints what it loads; what the project itself prints goes to stderr: stdout may be read by a program."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        rest = [line for line in printed.getvalue().splitlines() if not _SPARKS_LINES.match(line)]
        if rest:
            print("\n".join(rest), file=sys.stderr)
