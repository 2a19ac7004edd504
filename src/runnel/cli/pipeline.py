"""`runnel pipeline`: make, check, run and watch Spark Declarative Pipelines projects.

In: a project's folder. Out: tables, lines or JSON. Spark is imported only by the verbs that need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from runnel.cli.verbs import LazyVerbs

EXTRA = "pipelines"
VERBS = {
    "init": ("runnel.cli.pipeline_project:init", "Make a project that runs."),
    "validate": ("runnel.cli.pipeline_project:validate", "Say what is wrong before anything runs."),
    "run": ("runnel.cli.pipeline_run:run", "Process what is there, once or again and again."),
    "status": ("runnel.cli.pipeline_status:status", "How a pipeline fares, or how its last run ended."),
    "stop": ("runnel.cli.pipeline_status:stop", "End a run gracefully."),
    "list": ("runnel.cli.pipeline_status:list_pipelines", "The projects under a folder."),
}

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@click.group(cls=LazyVerbs, table=VERBS, title="Verbs")
def pipeline() -> None:
    """Pipelines from topics to tables, topics and lake tables, on Spark Declarative Pipelines."""


def project_argument(function: Decorated) -> Decorated:
    return click.argument("project", default=".", metavar="[PROJECT]")(function)


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which Spark: one of our own, a cluster's, or a Connect server."""
    from runnel.cli.options import KeyValue

    decorators = [
        click.option(
            "--master",
            "--remote",
            metavar="MASTER",
            help="Spark's master, e.g. spark://head:7077, or a Connect server, sc://host.  [default: local[*]]",
        ),
        click.option("--conf", "conf", multiple=True, type=KeyValue(), help="A Spark setting; may be repeated."),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function
