"""`runnel log`: the group; its verbs live in `log_dump` and `log_verify`."""

from __future__ import annotations

import click

from runnel.cli import log_dump, log_verify
from runnel.cli.verbs import Verbs


@click.group(cls=Verbs, short_help="Look into data directories, check and repair them, without a broker.")
def log() -> None:
    """Data directories on disk, of Runnel or of Apache Kafka; no broker is needed."""


for verb in (log_dump.dump, log_verify.verify):
    log.add_command(verb)
