"""`runnel group describe`: offsets with lag, members, or state; once, or again and again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from runnel.cli.options import bootstrap_options, group_names, json_option
from runnel.cli.outcomes import complain
from runnel.cli.output import counted, iso_time, json_line, note, print_json, print_table
from runnel.cli.session import run, run_interruptible
from runnel.cli.topic_basics import compile_regex
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.groups import GroupMember, GroupView, list_groups
from runnel.client.lag import GroupLag, PartitionLag, group_lags
from runnel.client.metadata import TopicPartition

WATCH_EVERY_S = 2.0
_CLEAR = "\x1b[2J\x1b[H"

Lags = dict[str, GroupLag | ClientError]


@click.command()
@group_names
@click.option("-a", "--all-groups", is_flag=True, help="Every group.")
@click.option("-r", "--regex", metavar="PATTERN", help="Every group whose name matches this regular expression.")
@click.option("--offsets", "view", flag_value="offsets", default=True, help="Offsets and lag per partition.  [default]")
@click.option("--members", "view", flag_value="members", help="Members and what they are assigned.")
@click.option("--state", "view", flag_value="state", help="State, coordinator, assignor, number of members.")
@click.option("-v", "--verbose", is_flag=True, help="With --members: which partitions each has.")
@click.option("-w", "--watch", is_flag=True, help="Again and again, until Ctrl-C.")
@click.option("--every", metavar="SECONDS", type=click.FloatRange(min=0.1), default=WATCH_EVERY_S, show_default=True,
              help="How often, with --watch.")  # fmt: skip
@json_option
@bootstrap_options
def describe(
    groups: tuple[str, ...],
    all_groups: bool,
    regex: str | None,
    view: str,
    verbose: bool,
    watch: bool,
    every: float,
    as_json: bool,
) -> int:
    """How far each group is in each partition, and who reads it; also for groups without a living member.

    \b
    runnel group describe billing
    runnel group describe billing --members -v
    runnel group describe -a --watch
    """
    pattern = compile_regex(regex)
    if not groups and not all_groups and pattern is None:
        raise click.UsageError("name the groups, or give --all-groups or --regex")

    async def look(cluster: Cluster) -> Lags:
        listed = [each.group_id for each in await list_groups(cluster)] if all_groups or pattern else []
        matched = [name for name in listed if pattern is None or pattern.search(name)]
        return await group_lags(cluster, dict.fromkeys([*groups, *matched]))

    def show(lags: Lags) -> int:
        if as_json:
            documents = [_document(found) for found in lags.values() if isinstance(found, GroupLag)]
            click.echo(json_line(documents)) if watch else print_json(documents)
        else:
            _print(lags, view, verbose)
        return complain(lags.values())

    if watch:
        return run_interruptible(lambda cluster: _again_and_again(cluster, look, show, every, as_json))
    return show(run(look))


async def _again_and_again(
    cluster: Cluster,
    look: Callable[[Cluster], Any],
    show: Callable[[Lags], int],
    every_s: float,
    as_json: bool,
) -> int:
    while True:
        lags = await look(cluster)
        if not as_json:
            click.echo(_CLEAR if sys.stdout.isatty() else "", nl=False)
            click.echo(f"{iso_time(int(time.time() * 1000))}  (Ctrl-C ends)")
        show(lags)
        sys.stdout.flush()
        await asyncio.sleep(every_s)


# For people -----------------------------------------------------------------------------------------------


def _print(lags: Lags, view: str, verbose: bool) -> None:
    known = [found for found in lags.values() if isinstance(found, GroupLag)]
    if not lags:
        note("no groups")
    elif view == "state":
        if known:
            _print_states([found.view for found in known])
    else:
        for number, found in enumerate(known):
            if number:
                click.echo()
            click.echo(_headline(found))
            _print_members(found.view, verbose) if view == "members" else _print_offsets(found)


def _headline(found: GroupLag) -> str:
    view = found.view
    assignor = f", assignor {view.assignor}" if view.assignor else ""
    members = counted(len(view.members), "member") if view.members else "no active members"
    return (
        f"{view.group_id}: {view.state}, {view.type}{assignor}, {members}, coordinator {view.coordinator_id}, "
        f"lag {found.total}"
    )


def _print_offsets(found: GroupLag) -> None:
    if not found.rows:
        note(f"group '{found.view.group_id}' has committed nothing and has nothing assigned")
        return
    print_table(
        ["topic", "partition", "current offset", "log end offset", "lag", "consumer id", "host", "client id"],
        [_offset_row(row) for row in found.rows],
    )
    beyond = [str(row.target) for row in found.rows if (row.lag or 0) < 0]
    if beyond:
        note(
            f"{', '.join(beyond)}: the committed offset lies beyond the end (was the topic created anew?); "
            f"`runnel group reset {found.view.group_id} --to-latest` mends it"
        )


def _offset_row(row: PartitionLag) -> tuple[object, ...]:
    owner = row.owner
    return (
        row.target.topic,
        row.target.partition,
        "-" if row.committed is None else row.committed.offset,
        "-" if row.end_offset is None else row.end_offset,
        "-" if row.lag is None else row.lag,
        owner.member_id if owner else "-",
        owner.host if owner else "-",
        owner.client_id if owner else "-",
    )


def _print_members(view: GroupView, verbose: bool) -> None:
    if not view.members:
        note(f"group '{view.group_id}' has no active members")
        return
    next_generation = any(member.epoch is not None for member in view.members)
    columns = ["consumer id", "instance", "host", "client id", "partitions"]
    columns += ["epoch", "target"] if next_generation else []
    columns += ["assignment"] if verbose else []
    rows = []
    for member in view.members:
        row: list[object] = [
            member.member_id, member.instance_id or "-", member.host, member.client_id, len(member.assignment)
        ]  # fmt: skip
        row += [member.epoch, len(member.target or ())] if next_generation else []
        row += [shorthand(member.assignment) or "-"] if verbose else []
        rows.append(row)
    print_table(columns, rows)


def _print_states(views: Sequence[GroupView]) -> None:
    print_table(
        ["group", "coordinator", "assignment strategy", "state", "type", "group epoch", "members"],
        [
            (
                view.group_id,
                view.coordinator_id,
                view.assignor or "-",
                view.state,
                view.type,
                "-" if view.epoch is None else view.epoch,
                len(view.members),
            )
            for view in views
        ],
    )


def shorthand(targets: Sequence[TopicPartition]) -> str:
    """`orders(0,1) clicks(3)`, as kafka-consumer-groups writes assignments."""
    topics: dict[str, list[int]] = {}
    for target in targets:
        topics.setdefault(target.topic, []).append(target.partition)
    return " ".join(f"{topic}({','.join(map(str, sorted(indexes)))})" for topic, indexes in sorted(topics.items()))


# For programs ---------------------------------------------------------------------------------------------


def _document(found: GroupLag) -> dict[str, Any]:
    view = found.view
    return {
        "group": view.group_id,
        "type": view.type,
        "protocol_type": view.protocol_type,
        "state": view.state,
        "assignor": view.assignor or None,
        "coordinator": view.coordinator_id,
        "epoch": view.epoch,
        "assignment_epoch": view.assignment_epoch,
        "total_lag": found.total,
        "members": [_member_document(member) for member in view.members],
        "partitions": [_partition_document(row) for row in found.rows],
    }


def _member_document(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "type": member.type,
        "epoch": member.epoch,
        "assignment": [target._asdict() for target in member.assignment],
        "target": None if member.target is None else [target._asdict() for target in member.target],
        "subscribed_regex": member.subscribed_regex,
    }


def _partition_document(row: PartitionLag) -> dict[str, Any]:
    committed, owner = row.committed, row.owner
    return {
        "topic": row.target.topic,
        "partition": row.target.partition,
        "current_offset": committed.offset if committed else None,
        "log_end_offset": row.end_offset,
        "lag": row.lag,
        "leader_epoch": committed.leader_epoch if committed and committed.leader_epoch >= 0 else None,
        "metadata": committed.metadata if committed else None,
        "member_id": owner.member_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
    }
