"""`runnel group reset` (as kafka-consumer-groups has it) and `runnel group seek` (as rpk has it).

Both make a plan, show it, and commit it for a group that has no living member. `reset` shows unless told to
`--execute`; `seek` executes unless told to `--dry-run`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import click

from runnel.cli.group_plan import GroupPlan, Selection, Wish, plan_group, read_offsets_file
from runnel.cli.options import (
    Decorated,
    DurationType,
    GroupName,
    TimestampType,
    TopicName,
    TopicSelection,
    bootstrap_options,
    group_names,
    json_option,
    yes_option,
)
from runnel.cli.outcomes import EXIT_FAILED, complain, confirm, error_fields
from runnel.cli.output import counted, note, print_json, print_table
from runnel.cli.session import run
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.groups import (
    CLASSIC,
    CONSUMER,
    commit_offsets,
    committed_offsets,
    group_subject,
    list_groups,
)
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import Position, PositionKind, parse_timestamp_ms
from runnel.client.resets import Current, Given, Rule, Shift

_DIGITS_TO_MS: dict[int, Callable[[int], int]] = {
    10: lambda seconds: seconds * 1000,
    13: lambda milliseconds: milliseconds,
    19: lambda nanoseconds: nanoseconds // 1_000_000,
}

# The verbs ------------------------------------------------------------------------------------------------


def _rule_options(function: Decorated) -> Decorated:
    for option in reversed(
        (
            click.option("--to-earliest", is_flag=True, help="To the first record that is still there."),
            click.option("--to-latest", is_flag=True, help="To the end: skip what is there."),
            click.option("--to-offset", type=click.IntRange(min=0), metavar="OFFSET", help="To this offset."),
            click.option("--to-datetime", type=TimestampType(), help="To the first record since (ISO, UTC; or ms)."),
            click.option("--by-duration", type=DurationType(), help="To the first record of the last e.g. 90m, PT1H."),
            click.option("--shift-by", type=int, metavar="N", help="N records on; back, if negative."),
            click.option("--to-current", is_flag=True, help="To what is committed now (with --export: save it)."),
            click.option("--from-file", type=click.File("r"), help="Lines of TOPIC,PARTITION,OFFSET; - is stdin."),
        )
    ):
        function = option(function)
    return function


@click.command(short_help="Set committed offsets; shows first, --execute does it.")
@group_names
@click.option("-a", "--all-groups", is_flag=True, help="Every group.")
@click.option("-t", "--topic", "topics", multiple=True, type=TopicSelection(),
              help="Only this topic; may be repeated.  [default: all that the group has committed]")  # fmt: skip
@click.option("--all-topics", is_flag=True, help="All that the group has committed: the default.")
@_rule_options
@click.option("--dry-run", is_flag=True, help="Only show what would change: the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--export", is_flag=True, help="Print the plan as lines for --from-file.")
@json_option
@bootstrap_options
def reset(
    groups: tuple[str, ...],
    all_groups: bool,
    topics: tuple[Selection, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    **rules: Any,
) -> int:
    """Set where groups go on reading. Shows what would change; --execute changes it.

    A group with living members is refused: stop its consumers first.

    \b
    runnel group reset billing --to-earliest
    runnel group reset billing -t orders:0,1 --to-datetime 2026-01-31T08:00 --execute
    runnel group reset billing --to-current --export > saved.csv
    runnel group reset billing --from-file saved.csv --execute
    """
    if not groups and not all_groups:
        raise click.UsageError("name the groups, or give --all-groups")
    if topics and all_topics:
        raise click.UsageError("--topic and --all-topics exclude each other")
    if sum((dry_run, execute, export)) > 1:
        raise click.UsageError("--dry-run, --execute and --export exclude each other")
    wish = _wish(topics, rules)

    async def work(cluster: Cluster) -> list[GroupPlan | ClientError]:
        listed = await list_groups(cluster) if all_groups else []
        others = [each.group_id for each in listed if each.type in (CLASSIC, CONSUMER)]
        return [await _plan_or_error(cluster, group_id, wish) for group_id in dict.fromkeys([*groups, *others])]

    found = run(work)
    plans = [each for each in found if isinstance(each, GroupPlan)]
    refused = complain(found)
    if not plans:
        return refused
    if export:
        return _export(plans) or refused
    return _finish(plans, execute=execute, hint="add --execute to do it", as_json=as_json) or refused


async def _plan_or_error(cluster: Cluster, group_id: str, wish: Wish) -> GroupPlan | ClientError:
    """One group that is refused does not stop the others."""
    try:
        return await plan_group(cluster, group_id, wish)
    except ClientError as error:
        return error


def _wish(topics: Sequence[Selection], rules: Mapping[str, Any]) -> Wish:
    given = {name: value for name, value in rules.items() if value is not None and value is not False}
    if len(given) != 1:
        raise click.UsageError(
            "say where to, once: --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration, --shift-by, "
            "--to-current or --from-file"
        )
    ((name, value),) = given.items()
    makers: dict[str, Callable[[Any], Rule]] = {
        "to_earliest": lambda _: Position(PositionKind.START),
        "to_latest": lambda _: Position(PositionKind.END),
        "to_offset": lambda offset: Position(PositionKind.OFFSET, offset),
        "to_datetime": lambda time_ms: Position(PositionKind.TIMESTAMP, time_ms),
        "by_duration": lambda ago_ms: Position(PositionKind.TIMESTAMP, max(0, round(time.time() * 1000) - ago_ms)),
        "shift_by": Shift,
        "to_current": lambda _: Current(),
    }
    if name == "from_file":
        return Wish(topics, None, read_offsets_file(value))
    return Wish(topics, makers[name](value))


@click.command(short_help="Set committed offsets at once, as rpk does.")
@click.argument("name", metavar="GROUP", type=GroupName())
@click.option("--to", metavar="start|end|TIME", help="Times: ISO (UTC), or 10, 13 or 19 digits since 1970.")
@click.option("--to-group", metavar="GROUP", type=GroupName(), help="To where that group is.")
@click.option("--to-file", type=click.File("r"), help="Lines of TOPIC PARTITION OFFSET; - is stdin.")
@click.option("-t", "--topics", "topics", metavar="TOPICS", multiple=True, type=TopicName(),
              help="Only these (a,b; may be repeated).  [default: all that the group has committed]")  # fmt: skip
@click.option("--allow-new-topics", is_flag=True, help="Also topics that the group has committed nothing of.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@yes_option
@json_option
@bootstrap_options
def seek(
    name: str,
    to: str | None,
    to_group: str | None,
    to_file: IO[str] | None,
    topics: tuple[str, ...],
    allow_new_topics: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Set where a group goes on reading, at once.

    A group with living members is refused: stop its consumers first.

    \b
    runnel group seek billing --to start
    runnel group seek billing --to 2026-01-31T08:00 --topics orders
    runnel group seek billing --to-group audit
    """
    if sum(choice is not None for choice in (to, to_group, to_file)) != 1:
        raise click.UsageError("say where to, once: --to, --to-group or --to-file")
    selections = [(topic, None) for words in topics for topic in words.split(",") if topic]
    position = None if to is None else seek_position(to)
    file = None if to_file is None else read_offsets_file(to_file)

    async def work(cluster: Cluster) -> list[GroupPlan]:
        rule: Rule | None = position
        if to_group is not None:
            other = await committed_offsets(cluster, to_group)
            if not other:
                raise ClientError(f"{group_subject(to_group)} has committed nothing; `runnel group list` shows who has")
            rule = Given({target: committed.offset for target, committed in other.items()})
        return [await plan_group(cluster, name, Wish(selections, rule, file, allow_new_topics))]

    plans = run(work)
    if not dry_run:
        confirm(f"Set {counted(len(plans[0].rows), 'offset')} of {group_subject(name)}?", yes)
    return _finish(plans, execute=not dry_run, hint="--dry-run", as_json=as_json)


def seek_position(text: str) -> Position:
    """rpk's words. A bare number is a time, so a short one (an offset, perhaps) is refused rather than guessed."""
    word = text.strip().lower()
    if word in ("start", "end"):
        return Position(PositionKind(word))
    if word.isascii() and word.isdigit():
        if len(word) not in _DIGITS_TO_MS:
            raise click.UsageError(
                f"'{text}' is neither start, end nor a time (10, 13 or 19 digits); "
                f"`runnel group reset GROUP --to-offset {text}` sets an offset"
            )
        return Position(PositionKind.TIMESTAMP, _DIGITS_TO_MS[len(word)](int(word)))
    try:
        return Position(PositionKind.TIMESTAMP, parse_timestamp_ms(text.removeprefix("@")))
    except ClientError as error:
        raise click.UsageError(f"{error.message}; or write start or end") from error


# Doing and showing ----------------------------------------------------------------------------------------


def _finish(plans: Sequence[GroupPlan], *, execute: bool, hint: str, as_json: bool) -> int:
    outcomes: dict[str, dict[TopicPartition, ClientError | None]] = {}
    if execute:
        outcomes = run(lambda cluster: _commit(cluster, plans))
    if as_json:
        print_json([row for plan in plans for row in _documents(plan, outcomes.get(plan.group_id), execute)])
    else:
        print_table(
            ["group", "topic", "partition", "old offset", "new offset", "start offset", "end offset", "lag"],
            [row for plan in plans for row in _rows(plan)],
        )
    for plan in plans:
        _print_notes(plan)
    if complain(error for each in outcomes.values() for error in each.values()):
        return EXIT_FAILED
    total = counted(sum(len(plan.rows) for plan in plans), "offset")
    note(f"set {total}" if execute else f"nothing was changed ({hint})")
    return 0


async def _commit(cluster: Cluster, plans: Sequence[GroupPlan]) -> dict[str, dict[TopicPartition, ClientError | None]]:
    return {
        plan.group_id: await commit_offsets(
            cluster, plan.group_id, {target: row.new for target, row in plan.rows.items()}
        )
        for plan in plans
    }


def _print_notes(plan: GroupPlan) -> None:
    if not plan.exists:
        note(f"{group_subject(plan.group_id)} does not exist yet: a committed offset makes it")
    for target in plan.gone:
        note(f"{target}: committed once, but the partition is gone; left as it is")
    for target, row in plan.rows.items():
        if row.asked != row.new:
            limits = f"{row.bounds.start} to {row.bounds.end}"
            note(f"{target}: offset {row.asked} lies outside of what the partition has ({limits}); {row.new} is taken")


def _rows(plan: GroupPlan) -> list[tuple[object, ...]]:
    return [
        (
            plan.group_id,
            target.topic,
            target.partition,
            "-" if row.old is None else row.old,
            row.new,
            row.bounds.start,
            row.bounds.end,
            row.bounds.end - row.new,
        )
        for target, row in plan.rows.items()
    ]


def _documents(
    plan: GroupPlan, outcome: Mapping[TopicPartition, ClientError | None] | None, executed: bool
) -> list[dict[str, Any]]:
    return [
        {
            "group": plan.group_id,
            "topic": target.topic,
            "partition": target.partition,
            "old_offset": row.old,
            "new_offset": row.new,
            "start_offset": row.bounds.start,
            "end_offset": row.bounds.end,
            "executed": executed,
            **error_fields((outcome or {}).get(target)),
        }
        for target, row in plan.rows.items()
    ]


def _export(plans: Sequence[GroupPlan]) -> int:
    """kafka-consumer-groups' form: the group only where there are several."""
    for plan in plans:
        prefix = f"{plan.group_id}," if len(plans) > 1 else ""
        for target, row in plan.rows.items():
            click.echo(f"{prefix}{target.topic},{target.partition},{row.new}")
    return 0
