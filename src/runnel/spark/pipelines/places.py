"""Where a flow or a table is defined, in Python or SQL. In: its name as Spark tells it. Out: file and line."""

from __future__ import annotations

from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.figures import short_name
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.sql_files import find_definition


def find_flow(project: Project, noted: Definitions, name: str) -> tuple[str | None, int | None]:
    flow = noted.flow(name)
    return (flow.file, flow.line) if flow is not None else find_definition(project, short_name(name))
