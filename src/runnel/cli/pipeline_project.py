"""`runnel pipeline init` and `validate`: a project to begin with, and what is wrong with one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.extras import plain_words
from runnel.cli.options import bootstrap_options, chosen_bootstrap, json_option
from runnel.cli.output import counted, note, print_json
from runnel.cli.pipeline import EXTRA, project_argument, spark_options

if TYPE_CHECKING:
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
        from runnel.spark.pipelines.starter import make_project

        made = make_project(folder, bootstrap)
    for path in made:
        click.echo(f"made {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    command = f"runnel pipeline run {shlex.quote(name)}"
    note(f"next: runnel topic create orders -b {bootstrap} (the topic that it reads), then: {command}")


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
    with plain_words(EXTRA):
        from runnel.spark.pipelines import validate as find

        problems = find(project, master=master, conf=dict(conf), ask_brokers=not no_brokers)
    if as_json:
        print_json({"valid": not problems, "problems": [asdict(problem) for problem in problems]})
    else:
        show_problems(problems)
    return 1 if problems else 0


def show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        click.echo(f"- {problem}")
    click.echo(counted(len(problems), "problem") if problems else "no problems: it can run")
