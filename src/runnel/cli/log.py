"""`runnel log`: the group; its verbs live in `log_dump` and `log_verify`, and are loaded when they are called."""

from __future__ import annotations

import click

from runnel.cli.verbs import LazyVerbs

VERBS = {
    "dump": ("runnel.cli.log_dump:dump", "Show what is in segments, indexes, checkpoints and snapshots."),
    "verify": ("runnel.cli.log_verify:verify", "Check every batch, index and checkpoint; tell and mend damage."),
}


@click.group(cls=LazyVerbs, table=VERBS)
def log() -> None:
    """Data directories on disk, of Runnel or of Apache Kafka; no broker is needed."""
