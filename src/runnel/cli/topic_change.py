"""`runnel topic alter|add-partitions|trim`: the verbs that change a topic which exists."""

from __future__ import annotations

from typing import Any

import click

from runnel.cli.options import (
    KeyValue,
    PartitionList,
    PositionType,
    TimestampType,
    TopicName,
    bootstrap_options,
    json_option,
    yes_option,
)
from runnel.cli.outcomes import confirm, report
from runnel.cli.output import counted, note, print_json, print_table
from runnel.cli.session import run
from runnel.client import admin
from runnel.client.admin import Outcome
from runnel.client.cluster import Cluster
from runnel.client.configs import ConfigChange, ConfigOperation, alter_configs, topic_resource
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import Position, PositionKind, ResolvedPosition, delete_records, resolve


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TopicName())
@click.option("-c", "-s", "--config", "--set", "sets", multiple=True, type=KeyValue(), help="Set a config.")
@click.option("-d", "--delete", "deletes", multiple=True, metavar="KEY", help="Back to the broker's value.")
@click.option("--append", "appends", multiple=True, type=KeyValue(), help="Add to a list config.")
@click.option("--subtract", "subtracts", multiple=True, type=KeyValue(), help="Take from a list config.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change, and change nothing.")
@json_option
@bootstrap_options
def alter(
    topics: tuple[str, ...],
    sets: tuple[tuple[str, str], ...],
    deletes: tuple[str, ...],
    appends: tuple[tuple[str, str], ...],
    subtracts: tuple[tuple[str, str], ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change configs of topics.

    \b
    runnel topic alter orders -c retention.ms=86400000 -d max.message.bytes
    """
    changes = [
        *(ConfigChange(ConfigOperation.SET, key, value) for key, value in sets),
        *(ConfigChange(ConfigOperation.DELETE, key) for key in deletes),
        *(ConfigChange(ConfigOperation.APPEND, key, value) for key, value in appends),
        *(ConfigChange(ConfigOperation.SUBTRACT, key, value) for key, value in subtracts),
    ]
    if not changes:
        raise click.UsageError("nothing to change: give -c KEY=VALUE, -d KEY, --append or --subtract")

    async def work(cluster: Cluster) -> list[Outcome]:
        done = await alter_configs(cluster, map(topic_resource, topics), changes, validate_only=dry_run)
        return [Outcome(resource.name, error) for resource, error in done.items()]

    return report(run(work), "would alter {name}" if dry_run else "altered {name}", as_json=as_json)


@click.command("add-partitions")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TopicName())
@click.option("-n", "--num", "more", type=click.IntRange(min=1), help="How many to add.")
@click.option("-p", "--partitions", "total", type=click.IntRange(min=1), help="How many there shall be in all.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the request, and add nothing.")
@json_option
@bootstrap_options
def add_partitions(topics: tuple[str, ...], more: int | None, total: int | None, dry_run: bool, as_json: bool) -> int:
    """Add partitions to topics. Records with a key may from then on go to another partition than before."""
    if (more is None) == (total is None):
        raise click.UsageError("give either -n (how many to add) or -p (how many there shall be)")

    async def work(cluster: Cluster) -> list[Outcome]:
        totals: dict[str, int] = {}
        for name in topics:
            view = await cluster.topic(name)
            totals[name] = total if total is not None else len(view.partitions) + (more or 0)
        return await admin.create_partitions(cluster, totals, validate_only=dry_run)

    done = "would add partitions to {name}" if dry_run else "added partitions to {name}"
    return report(run(work), done, as_json=as_json)


@click.command(short_help="Delete the oldest records of a topic.")
@click.argument("name", metavar="TOPIC", type=TopicName())
@click.option("-o", "--before-offset", "before", type=PositionType(), help="An offset, `end`, -N, or @TIME.")
@click.option("--to-timestamp", "timestamp_ms", type=TimestampType(), help="Milliseconds or ISO time (UTC).")
@click.option("-p", "--partitions", type=PartitionList(), help="Only these, e.g. 0,2 or 0-4.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@yes_option
@json_option
@bootstrap_options
def trim(
    name: str,
    before: Position | None,
    timestamp_ms: int | None,
    partitions: tuple[int, ...] | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the oldest records: all before an offset, or all before a time.

    \b
    runnel topic trim orders --before-offset end
    runnel topic trim orders --to-timestamp 2026-01-31T00:00 -p 0,1
    """
    if (before is None) == (timestamp_ms is None):
        raise click.UsageError("give either --before-offset or --to-timestamp")
    position = before or Position(PositionKind.TIMESTAMP, timestamp_ms or 0)
    plan = run(lambda cluster: _plan(cluster, name, partitions, position))
    going = sum(row.offset - row.bounds.start for row in plan.values())
    if not dry_run and going:
        places = counted(len(plan), "partition")
        confirm(f"Delete about {counted(going, 'record')} from {places} of {name}?", yes)
        targets = {target: row.offset for target, row in plan.items()}
        starts = run(lambda cluster: delete_records(cluster, targets))
    else:
        starts = {target: row.bounds.start if not dry_run else row.offset for target, row in plan.items()}
    _show_trim(name, plan, starts, dry_run=dry_run, as_json=as_json)


async def _plan(
    cluster: Cluster, name: str, partitions: tuple[int, ...] | None, position: Position
) -> dict[TopicPartition, ResolvedPosition]:
    view = await cluster.topic(name)
    indexes = partitions or [part.index for part in view.partitions]
    return await resolve(cluster, [TopicPartition(name, index) for index in indexes], position)


def _show_trim(
    name: str,
    plan: dict[TopicPartition, ResolvedPosition],
    starts: dict[TopicPartition, int],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "topic": name,
            "partition": target.partition,
            "old_start_offset": row.bounds.start,
            "new_start_offset": starts[target],
            "end_offset": row.bounds.end,
        }
        for target, row in sorted(plan.items())
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ["partition", "old start", "new start", "end offset"],
        [(row["partition"], row["old_start_offset"], row["new_start_offset"], row["end_offset"]) for row in rows],
    )
    if dry_run:
        note("nothing was deleted (--dry-run)")
