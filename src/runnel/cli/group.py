"""`runnel group`: the group of verbs, and those that are about whole groups: list, delete, offset-delete."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import click

from runnel.cli import group_describe, group_reset
from runnel.cli.options import GroupName, TopicSelection, bootstrap_options, group_names, json_option, yes_option
from runnel.cli.outcomes import confirm, error_fields, forgive, report, tell
from runnel.cli.output import note, print_json, print_table
from runnel.cli.session import run
from runnel.cli.topic_basics import compile_regex
from runnel.cli.verbs import Verbs
from runnel.client.admin import Outcome
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError, refused
from runnel.client.groups import (
    ListedGroup,
    committed_offsets,
    delete_groups,
    delete_offsets,
    describe_groups,
    group_subject,
    list_groups,
)
from runnel.client.lag import GroupLag, group_lags
from runnel.client.metadata import TopicPartition
from runnel.wire.errors import ErrorCode

STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
TYPES = ("classic", "consumer", "share", "streams")


@click.group(cls=Verbs, short_help="List, describe, reset and delete consumer groups.")
@bootstrap_options
def group() -> None:
    """Consumer groups: who is in them, how far behind they are, and where they go on reading."""


def _chosen(known: Sequence[str], option: str) -> Any:
    """A callback: a list of words, in any case, of those known."""

    def parse(ctx: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
        words = [word.strip().lower() for word in (value or "").split(",") if word.strip()]
        wrong = [word for word in words if word not in map(str.lower, known)]
        if wrong:
            raise click.UsageError(f"'{wrong[0]}' is no {option} of a group; there are {', '.join(known)}", ctx)
        return frozenset(words)

    return parse


@click.command("list")
@click.option(
    "--state", "states", metavar="STATES", callback=_chosen(STATES, "state"), help="Only these, e.g. empty,stable."
)
@click.option("--type", "types", metavar="TYPES", callback=_chosen(TYPES, "type"), help="Only these, e.g. classic.")
@click.option("-r", "--regex", metavar="PATTERN", help="Only names that match this regular expression.")
@click.option("--lag", "with_lag", is_flag=True, help="Also how many members each has, and its lag.")
@json_option
@bootstrap_options
def list_verb(states: frozenset[str], types: frozenset[str], regex: str | None, with_lag: bool, as_json: bool) -> None:
    """List groups, also those without a living member."""
    pattern = compile_regex(regex)

    async def work(cluster: Cluster) -> tuple[list[ListedGroup], dict[str, GroupLag | ClientError]]:
        groups = [each for each in await list_groups(cluster) if _matches(each, states, types, pattern)]
        lags = await group_lags(cluster, [each.group_id for each in groups]) if with_lag else {}
        return groups, lags

    groups, lags = run(work)
    if as_json:
        print_json([_listed_document(each, lags) for each in groups])
    elif not groups:
        note("no groups" + (" match" if states or types or pattern else "; a consumer with a group id makes one"))
    else:
        extra = ["members", "lag"] if with_lag else []
        rows = [(each.group_id, each.type, each.state, each.coordinator_id, *_extra(each, lags)) for each in groups]
        print_table(["group", "type", "state", "coordinator", *extra], rows)


def _matches(
    listed: ListedGroup, states: Collection[str], types: Collection[str], pattern: re.Pattern[str] | None
) -> bool:
    return (
        (not states or listed.state.lower() in states)
        and (not types or listed.type in types)
        and (pattern is None or pattern.search(listed.group_id) is not None)
    )


def _extra(listed: ListedGroup, lags: dict[str, GroupLag | ClientError]) -> tuple[object, ...]:
    found = lags.get(listed.group_id)
    if found is None:
        return ()
    return ("-", "-") if isinstance(found, ClientError) else (len(found.view.members), found.total)


def _listed_document(listed: ListedGroup, lags: dict[str, GroupLag | ClientError]) -> dict[str, Any]:
    document = {
        "group": listed.group_id,
        "type": listed.type,
        "protocol_type": listed.protocol_type,
        "state": listed.state,
        "coordinator": listed.coordinator_id,
    }
    found = lags.get(listed.group_id)
    if isinstance(found, GroupLag):
        document |= {"members": len(found.view.members), "total_lag": found.total}
    return document


@click.command("delete")
@group_names
@click.option("-r", "--regex", metavar="PATTERN", help="Delete every group whose name matches from start to end.")
@click.option("--if-exists", is_flag=True, help="Be content with a group that is not there.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@yes_option
@json_option
@bootstrap_options
def delete_verb(
    groups: tuple[str, ...], regex: str | None, if_exists: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Delete groups with all their committed offsets. A group with living members is refused."""
    pattern = compile_regex(regex)
    if not groups and pattern is None:
        raise click.UsageError("name the groups to delete, or give --regex")

    async def choose(cluster: Cluster) -> list[str]:
        listed = [each.group_id for each in await list_groups(cluster)] if pattern else []
        return list(dict.fromkeys([*groups, *(name for name in listed if pattern and pattern.fullmatch(name))]))

    names = run(choose)
    if not names:
        note("no group matches")
        return 0
    if not dry_run:
        confirm(f"Delete {', '.join(names)} and all committed offsets?", yes)
    outcomes = run(lambda cluster: _would_delete(cluster, names) if dry_run else delete_groups(cluster, names))
    if if_exists:
        outcomes = [forgive(outcome, ErrorCode.GROUP_ID_NOT_FOUND) for outcome in outcomes]
    done = "would delete {name}" if dry_run else "deleted {name}"
    return report(outcomes, done, as_json=as_json, untouched="{name} does not exist", kind="group")


async def _would_delete(cluster: Cluster, names: Sequence[str]) -> list[Outcome]:
    """What a deletion would answer, without one."""
    outcomes = []
    for name, view in (await describe_groups(cluster, names)).items():
        if isinstance(view, ClientError):
            outcomes.append(Outcome(name, view))
        else:
            busy = None if view.is_idle else refused(ErrorCode.NON_EMPTY_GROUP, group_subject(name))
            outcomes.append(Outcome(name, busy))
    return outcomes


@click.command("offset-delete", short_help="Forget committed offsets of some topics.")
@click.argument("name", metavar="GROUP", type=GroupName())
@click.option(
    "-t",
    "--topic",
    "topics",
    required=True,
    multiple=True,
    type=TopicSelection(),
    help="Of which topics; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@yes_option
@json_option
@bootstrap_options
def offset_delete(
    name: str,
    topics: tuple[tuple[str, tuple[int, ...] | None], ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Forget the committed offsets of topics that the group no longer reads."""

    async def choose(cluster: Cluster) -> list[TopicPartition]:
        (view,) = (await describe_groups(cluster, [name])).values()
        if isinstance(view, ClientError):
            raise view
        kept = sorted(await committed_offsets(cluster, name))
        return [target for target in kept if any(_selects(each, target) for each in topics)]

    targets = run(choose)
    if not targets:
        raise click.ClickException(
            f"{group_subject(name)} keeps no offset of {', '.join(topic for topic, _ in topics)}"
        )
    if not dry_run:
        confirm(f"Forget the offsets of {', '.join(map(str, targets))}?", yes)
    errors: dict[TopicPartition, ClientError | None] = dict.fromkeys(targets)
    if not dry_run:
        errors = run(lambda cluster: delete_offsets(cluster, name, targets))
    if as_json:
        print_json(
            [{"group": name, **target._asdict(), **error_fields(error)} for target, error in sorted(errors.items())]
        )
    done = "would forget" if dry_run else "forgot"
    return tell([(f"{done} {target}", error) for target, error in errors.items()], as_json=as_json)


def _selects(selection: tuple[str, tuple[int, ...] | None], target: TopicPartition) -> bool:
    topic, partitions = selection
    return topic == target.topic and (partitions is None or target.partition in partitions)


for verb in (
    list_verb,
    group_describe.describe,
    group_reset.seek,
    group_reset.reset,
    delete_verb,
    offset_delete,
):
    group.add_command(verb)
