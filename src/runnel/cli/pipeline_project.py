"""`runnel pipeline init` and `validate`: a project to begin with, and what is wrong with one."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.extras import plain_words
from runnel.cli.options import bootstrap_options, chosen_bootstrap, json_option
from runnel.cli.outcomes import forgive
from runnel.cli.output import counted, note, print_json
from runnel.cli.pipeline import EXTRA, project_argument, spark_options
from runnel.cli.pipeline_stop import unwinding
from runnel.cli.pipeline_view import problem_documents
from runnel.cli.session import run
from runnel.client.admin import NewTopic, Outcome, create_topics
from runnel.client.errors import ClientError
from runnel.wire.errors import ErrorCode

if TYPE_CHECKING:
    from runnel.client.cluster import Cluster
    from runnel.spark.pipelines import Problem


@click.command()
@click.argument("name")
@bootstrap_options
def init(name: str) -> None:
    """Make a project in the new folder NAME: a topic, cleaned into a table, summed up, and a topic of results."""
    folder = Path(name)
    if folder.exists():
        raise click.ClickException(f"{name} exists already: choose another name, or remove it")
    bootstrap = chosen_bootstrap()
    with plain_words(EXTRA):
        from runnel.spark.pipelines.starter import TOPIC, make_project

        made = make_project(folder, bootstrap)
    for path in made:
        click.echo(f"made {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    command = f"runnel pipeline run {shlex.quote(name)}"
    try:
        click.echo(_topic_line(run(_create(TOPIC))))
        note(f"next: {command}")
    except ClientError as error:
        is_away = error.code in (None, ErrorCode.NETWORK_EXCEPTION)
        note(f"no broker yet: {error.message}" if is_away else error.message)
        note(f"next: runnel topic create {TOPIC} -b {bootstrap} (the topic that it reads), then: {command}")


def _create(topic: str) -> Callable[[Cluster], Awaitable[Outcome]]:
    """The project shall run at once, and a stream does not wait for a topic to come."""

    async def work(cluster: Cluster) -> Outcome:
        (outcome,) = await create_topics(cluster, [NewTopic(topic, -1, -1, {})])
        return forgive(outcome, ErrorCode.TOPIC_ALREADY_EXISTS)

    return work


def _topic_line(outcome: Outcome) -> str:
    if outcome.error is not None:
        raise outcome.error
    return f"topic {outcome.name} is there" if outcome.untouched else f"created topic {outcome.name}"


@click.command()
@project_argument
@spark_options
@click.option("--no-brokers", is_flag=True, help="Do not ask brokers whether topics exist.")
@json_option
def validate(
    project: str,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    no_brokers: bool,
    as_json: bool,
) -> int:
    """Say what is wrong with a project before anything runs. Exit code 1 if something is."""
    try:
        with plain_words(EXTRA), unwinding():
            from runnel.spark.pipelines import validate as find

            problems = find(project, master=master, conf=dict(conf), ask_brokers=not no_brokers)
    except click.ClickException as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": problem_documents(error)})
        return 1
    if as_json:
        print_json({"valid": not problems, "problems": [asdict(problem) for problem in problems]})
    else:
        show_problems(problems)
    return 1 if problems else 0


def show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(f"- {problem}")
    click.echo(counted(len(problems), "problem") if problems else "no problems: it can run")
