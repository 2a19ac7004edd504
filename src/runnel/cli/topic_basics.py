"""`runnel topic create|list|describe|delete`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from runnel.cli.options import KeyValue, TopicName, bootstrap_options, json_option, yes_option
from runnel.cli.outcomes import confirm, forgive, outcome_document, report, tell
from runnel.cli.output import counted, human_bytes, note, print_json, print_table
from runnel.cli.session import run
from runnel.client import admin
from runnel.client.admin import NewTopic, Outcome
from runnel.client.cluster import Cluster
from runnel.client.configs import ResourceType, topic_configs
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition, TopicView
from runnel.client.offsets import Bounds, bounds
from runnel.wire.errors import ErrorCode


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TopicName())
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="How many.  [default: the broker's]")
@click.option(
    "-r",
    "--replicas",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Copies.  [default: the broker's]",
)
@click.option("-c", "--config", "configs", multiple=True, type=KeyValue(), help="A topic config; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Be content with a topic that is there already.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the request, and create nothing.")
@json_option
@bootstrap_options
def create(
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create topics.

    \b
    runnel topic create orders
    runnel topic create clicks -p 12 -c retention.ms=3600000 -c compression.type=lz4
    """
    wanted = [NewTopic(name, partitions or -1, replicas or -1, dict(configs)) for name in dict.fromkeys(topics)]

    async def work(cluster: Cluster) -> list[Outcome]:
        return await admin.create_topics(cluster, wanted, validate_only=dry_run)

    outcomes = run(work)
    if if_not_exists:
        outcomes = [forgive(outcome, ErrorCode.TOPIC_ALREADY_EXISTS) for outcome in outcomes]
    if as_json:
        print_json([_created_document(outcome) for outcome in outcomes])
    return tell([(_created_line(outcome, dry_run), outcome.error) for outcome in outcomes], as_json=as_json)


def _created_line(outcome: Outcome, dry_run: bool) -> str:
    if outcome.untouched:
        return f"{outcome.name} exists already"
    verb = "would create" if dry_run else "created"
    if outcome.partitions < 0:
        return f"{verb} {outcome.name}"
    shape = f"{counted(outcome.partitions, 'partition')}, replication factor {outcome.replication_factor}"
    return f"{verb} {outcome.name} ({shape})"


def _created_document(outcome: Outcome) -> dict[str, Any]:
    document = outcome_document(outcome)
    created = outcome.error is None and not outcome.untouched
    document["existed"] = outcome.untouched
    document["topic_id"] = str(outcome.topic_id) if created else None
    document["partitions"] = outcome.partitions if outcome.partitions > 0 else None
    document["replicas"] = outcome.replication_factor if outcome.replication_factor > 0 else None
    return document


@click.command("list")
@click.option("-i", "--internal", is_flag=True, help="Show internal topics too (__consumer_offsets).")
@click.option("-r", "--regex", metavar="PATTERN", help="Only names that match this regular expression.")
@json_option
@bootstrap_options
def list_topics(internal: bool, regex: str | None, as_json: bool) -> None:
    """List topics."""
    pattern = compile_regex(regex)

    async def work(cluster: Cluster) -> list[TopicView]:
        return await _matching(cluster, pattern, internal=internal)

    views = run(work)
    if as_json:
        print_json([_topic_document(view) for view in views])
    elif not views:
        note("no topics; `runnel topic create NAME` makes one")
    else:
        print_table(
            ["topic", "partitions", "replicas"],
            [(view.name, len(view.partitions), view.replication_factor) for view in views],
        )


def compile_regex(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise click.UsageError(f"'{text}' is not a regular expression: {error}") from error


async def _matching(cluster: Cluster, pattern: re.Pattern[str] | None, *, internal: bool) -> list[TopicView]:
    view = await cluster.refresh(None)
    return [
        topic_view
        for name, topic_view in sorted(view.topics.items())
        if (internal or not topic_view.internal) and (pattern is None or pattern.search(name))
    ]


def _topic_document(view: TopicView) -> dict[str, Any]:
    return {
        "topic": view.name,
        "topic_id": str(view.topic_id),
        "internal": view.internal,
        "partitions": len(view.partitions),
        "replicas": view.replication_factor,
    }


@click.command(short_help="Show partitions, offsets, sizes and configs.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TopicName())
@click.option("-c", "--configs", "all_configs", is_flag=True, help="Show every config, not only changed ones.")
@json_option
@bootstrap_options
def describe(topics: tuple[str, ...], all_configs: bool, as_json: bool) -> None:
    """Show partitions, leaders, offsets, sizes and configs of topics."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        return [await _describe(cluster, name, all_configs) for name in dict.fromkeys(topics)]

    documents = run(work)
    if as_json:
        print_json(documents)
        return
    for position, document in enumerate(documents):
        if position:
            click.echo()
        _print_description(document)


async def _describe(cluster: Cluster, name: str, all_configs: bool) -> dict[str, Any]:
    view = await cluster.topic(name)
    online = [TopicPartition(name, part.index) for part in view.partitions if not part.is_offline]
    limits = await bounds(cluster, online)
    sizes = await _sizes(cluster, name)
    configs = await topic_configs(cluster, name)
    return {
        **_topic_document(view),
        "partition_details": [
            {
                "partition": part.index,
                "leader": part.leader_id,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline": part.is_offline,
                **_log_document(limits.get(TopicPartition(name, part.index)), sizes.get(part.index)),
            }
            for part in view.partitions
        ],
        "configs": [
            {"name": entry.name, "value": entry.value, "source": entry.source, "sensitive": entry.sensitive}
            for entry in configs
            if all_configs or entry.is_own(ResourceType.TOPIC)
        ],
    }


async def _sizes(cluster: Cluster, name: str) -> dict[int, int]:
    """Bytes on disk; nothing where the broker does not tell (no such API, or not allowed)."""
    try:
        return (await admin.topic_sizes(cluster, [name]))[name]
    except ClientError:
        return {}


def _log_document(limit: Bounds | None, size_bytes: int | None) -> dict[str, Any]:
    return {
        "start_offset": None if limit is None else limit.start,
        "end_offset": None if limit is None else limit.end,
        "size_bytes": size_bytes,
    }


def _print_description(document: dict[str, Any]) -> None:
    details = document["partition_details"]
    shape = f"{counted(document['partitions'], 'partition')}, replication factor {document['replicas']}"
    click.echo(f"{document['topic']}: {shape}, id {document['topic_id']}")
    print_table(
        ["partition", "leader", "epoch", "replicas", "isr", "start offset", "end offset", "size"],
        [
            (
                row["partition"],
                "none" if row["offline"] else row["leader"],
                row["leader_epoch"],
                ",".join(map(str, row["replicas"])),
                ",".join(map(str, row["isr"])),
                "-" if row["start_offset"] is None else row["start_offset"],
                "-" if row["end_offset"] is None else row["end_offset"],
                "-" if row["size_bytes"] is None else human_bytes(row["size_bytes"]),
            )
            for row in details
        ],
    )
    if document["configs"]:
        shown = [
            (row["name"], "(hidden)" if row["sensitive"] else row["value"], row["source"])
            for row in document["configs"]
        ]
        print_table(["config", "value", "source"], shown)


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, type=TopicName())
@click.option("-r", "--regex", metavar="PATTERN", help="Delete every topic whose name matches from start to end.")
@click.option("--if-exists", is_flag=True, help="Be content with a topic that is not there.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@yes_option
@json_option
@bootstrap_options
def delete(topics: tuple[str, ...], regex: str | None, if_exists: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete topics and all their records."""
    pattern = compile_regex(regex)
    if not topics and pattern is None:
        raise click.UsageError("name the topics to delete, or give --regex")

    async def choose(cluster: Cluster) -> tuple[list[str], set[str]]:
        views = await _matching(cluster, None, internal=True)
        known = {view.name for view in views}
        matched = [view.name for view in views if pattern and not view.internal and pattern.fullmatch(view.name)]
        return list(dict.fromkeys([*topics, *matched])), known

    names, known = run(choose)
    if not names:
        note("no topic matches")
        return 0
    if not dry_run:
        confirm(f"Delete {', '.join(names)} and all records?", yes)
    outcomes = _missing(names, known) if dry_run else run(lambda cluster: admin.delete_topics(cluster, names))
    if if_exists:
        outcomes = [forgive(outcome, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for outcome in outcomes]
    done = "would delete {name}" if dry_run else "deleted {name}"
    return report(outcomes, done, as_json=as_json, untouched="{name} does not exist")


def _missing(names: Sequence[str], known: set[str]) -> list[Outcome]:
    """What a deletion would answer, without one."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [Outcome(name, None if name in known else refused(code, f"topic '{name}'")) for name in names]
