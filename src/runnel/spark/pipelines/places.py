"""Where a flow or a table is defined, in Python or SQL, and what the project calls it. In: its name as Spark tells it.
Out: file and line; the name."""

from __future__ import annotations

from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.figures import short_name
from runnel.spark.pipelines.file_tables import CATALOG, DATABASE
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.sql_files import find_definition


def find_flow(project: Project, noted: Definitions, name: str) -> tuple[str | None, int | None]:
    flow = noted.flow(name)
    return (flow.file, flow.line) if flow is not None else find_definition(project, name.rpartition(".")[2])


def own_name(project: Project, noted: Definitions, name: str) -> str:
    """As it is written in the file: without the catalog and the database that the project has anyway."""
    flow = noted.flow(name)
    place = f"{project.spec.catalog or CATALOG}.{project.spec.database or DATABASE}."
    return flow.name if flow is not None else short_name(name.removeprefix(place))
