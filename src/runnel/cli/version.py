"""`runnel version`."""

from __future__ import annotations

import platform

import click

import runnel
from runnel.cli.options import json_option
from runnel.cli.output import print_json


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version of Runnel and of the Python below it."""
    ours, python = runnel.__version__, platform.python_version()
    if as_json:
        print_json({"runnel": ours, "python": python, "platform": platform.platform(terse=True)})
    else:
        click.echo(f"runnel {ours} (Python {python})")
