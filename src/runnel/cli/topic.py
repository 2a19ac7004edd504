"""`runnel topic`: the group; its verbs live in `topic_basics` and `topic_change`."""

from __future__ import annotations

import click

from runnel.cli import topic_basics, topic_change
from runnel.cli.options import bootstrap_options
from runnel.cli.verbs import Verbs


@click.group(cls=Verbs, short_help="Create, list, describe, change, trim and delete topics.")
@bootstrap_options
def topic() -> None:
    """Create, list, describe, change, trim and delete topics."""


for verb in (
    topic_basics.create,
    topic_basics.list_topics,
    topic_basics.describe,
    topic_basics.delete,
    topic_change.alter,
    topic_change.add_partitions,
    topic_change.trim,
):
    topic.add_command(verb)
