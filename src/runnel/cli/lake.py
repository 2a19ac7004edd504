"""`runnel lake`: look after lake tables, and prove that one equals its topic.

In: where the table is. Out: tables of figures; exit code 1 where the proof fails.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from runnel.cli.extras import plain_words
from runnel.cli.options import bootstrap_options, chosen_bootstrap, chosen_timeout_s, json_option
from runnel.cli.output import counted, human_bytes, print_json, print_table
from runnel.cli.progress import Progress
from runnel.cli.verbs import Verbs

if TYPE_CHECKING:
    from runnel.spark.lake.options import Destination
    from runnel.spark.lake.tables import LakeTable
    from runnel.spark.lake.verify import Proof, Verdict

EXAMPLES_SHOWN = 5
LIBRARIES = ("_internal", "pyiceberg", "sqlalchemy")
"""Whose errors tell of the table, its catalog or its store; the first are delta-rs'."""
DAYS_MAX = 365 * 1000
"""More than any table is old, and less than there are dates."""


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """PATH and what else it takes to open a table; what is wrong with that is told in plain words."""

    @functools.wraps(command)
    def worded(*arguments: Any, **options: Any) -> Any:
        # Libraries of tables have ValueErrors for addresses, catalogs and files that they cannot make sense of, and
        # a table may name files that are not there, or in a store that lets nobody in.
        try:
            with plain_words("lake", ValueError, OSError):
                return command(*arguments, **options)
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in LIBRARIES:
                raise
            raise click.ClickException(f"{options['path']}: {str(error).partition(chr(10))[0]}") from error

    decorators = [
        click.argument("path"),
        click.option("--format", "table_format", type=click.Choice(["delta", "iceberg", "parquet"]), default="delta"),
        click.option("--table", default="", help="Iceberg: namespace.table; else made from the path."),
        click.option("--catalog", multiple=True, metavar="NAME=VALUE", help="Iceberg: a property of its catalog."),
        click.option("--storage", multiple=True, metavar="NAME=VALUE", help="Delta, Parquet: an option of its store."),
    ]
    for decorator in reversed(decorators):
        worded = decorator(worded)
    return worded


@click.group(cls=Verbs)
def lake() -> None:
    """Lake tables: figures, compaction, expiry, and the proof that a table equals its topic."""


@lake.command()
@table_options
@json_option
def info(as_json: bool, **place: Any) -> None:
    """Columns, files and their sizes."""
    table = _open(**place)
    sizes = sorted(table.file_sizes())
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema()]
    total = sum(sizes)
    document = {
        "files": len(sizes),
        "bytes": total,
        "partitioned_by": list(table.partition_columns()),
        "columns": columns,
    }
    if as_json:
        print_json(document)
        return
    median = sizes[len(sizes) // 2] if sizes else 0
    by = ", ".join(table.partition_columns()) or "nothing"
    click.echo(
        f"{counted(len(sizes), 'file')}, {human_bytes(total)} in all, {human_bytes(median)} in the middle; by {by}"
    )
    print_table(("column", "type"), [(column["name"], column["type"]) for column in columns])


@lake.command()
@table_options
@click.option(
    "--target-bytes",
    type=click.IntRange(min=1),
    default=128 << 20,
    show_default=True,
    help="How large a file should be.",
)
@json_option
def compact(target_bytes: int, as_json: bool, **place: Any) -> None:
    """Make few large files of many small ones. Writers may go on."""
    done = _open(**place).compact(target_bytes)
    if as_json:
        print_json({"files_before": done.files_before, "files_after": done.files_after})
    else:
        click.echo(f"{counted(done.files_before, 'file')} before, {done.files_after} now")


@lake.command()
@table_options
@click.option(
    "--days", type=click.IntRange(0, DAYS_MAX), help="Delete rows whose event date is older than this many days."
)
@click.option(
    "--unused-hours",
    type=click.FloatRange(0, 24 * DAYS_MAX),
    help="Remove files that no version of the last hours needs.",
)
@json_option
def expire(days: int | None, unused_hours: float | None, as_json: bool, **place: Any) -> None:
    """Delete old rows, and files that nobody needs any more."""
    if days is None and unused_hours is None:
        raise click.UsageError("say what is old: --days for rows, --unused-hours for files")
    table = _open(**place)
    rows = files = 0
    if days is not None:
        if "event_date" not in table.schema().names:
            raise click.UsageError("the table has no event_date: its rows have no age")
        today = datetime.datetime.now(datetime.UTC).date()
        rows = table.expire_rows((today - datetime.timedelta(days=days)).isoformat())
    if unused_hours is not None:
        files = table.remove_old_files(unused_hours)
    if as_json:
        print_json({"rows_deleted": rows, "files_removed": files})
    else:
        click.echo(f"{counted(rows, 'row')} deleted, {counted(files, 'file')} removed")


@lake.command()
@table_options
@click.option("--topic", required=True, help="The topic that the table was made from.")
@click.option(
    "--offsets", help='Up to where, e.g. {"orders":{"0":1200}}; -1 is the end. Without it: up to what the table has.'
)
@click.option("--dead-letters", help="Path of the dead-letter table, if bad rows went there.")
@click.option("--compacted", is_flag=True, help="The topic is compacted: it may have dropped rows of the table.")
@click.option(
    "--upserted", is_flag=True, help="The table has upserts by key: the newest record of each, no tombstones."
)
@click.option(
    "--order-column",
    type=click.Choice(["offset", "timestamp"]),
    default="offset",
    help="With --upserted: orderColumn of the query that filled the table.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    help="As the query that filled the table: whether aborted transactions count.",
)
@json_option
@bootstrap_options
def verify(
    topic: str,
    offsets: str | None,
    dead_letters: str | None,
    compacted: bool,
    upserted: bool,
    order_column: str,
    isolation: str,
    as_json: bool,
    **place: Any,
) -> int:
    """Compare a table with its topic, record by record: gaps, duplicates, checksums. Exit code 1 if they differ."""
    from runnel.spark.kafka_options import INT32_MAX
    from runnel.spark.lake.verify import verify as compare
    from runnel.spark.positions import OFFSETS_EXAMPLE, parse_offsets

    if upserted and (compacted or dead_letters):
        raise click.UsageError("--upserted compares a table of upserts alone: leave --compacted and --dead-letters out")
    destination = _destination(**place)
    until = parse_offsets("--offsets", offsets, OFFSETS_EXAMPLE) if offsets else None
    dead = _dead_letters(destination, dead_letters) if dead_letters else None
    timeout_ms = str(max(1, round(min(chosen_timeout_s() * 1000, INT32_MAX))))
    source = {
        "kafka.bootstrap.servers": chosen_bootstrap(),
        "kafka.default.api.timeout.ms": timeout_ms,
        "kafka.request.timeout.ms": timeout_ms,
        "subscribe": topic,
        "kafka.isolation.level": isolation,
    }
    counting = Progress("compared", quiet=as_json)
    verdict = compare(
        destination,
        dead,
        source,
        until=until,
        is_compacted=compacted,
        is_upserted=upserted,
        order_column=order_column,
        progress=counting.add,
    )
    counting.finish("of both sides")
    if as_json:
        print_json(_document(verdict))
    else:
        _show(verdict)
    return 0 if verdict.holds else 1


def _dead_letters(main: Destination, path: str) -> Destination:
    from dataclasses import replace

    from runnel.spark.lake.options import parse_lake_options

    absolute = parse_lake_options({"path": path}).destination.path
    return replace(main, path=absolute, table=main.table + "__dead_letter")


def _document(verdict: Verdict) -> dict[str, Any]:
    rows = [
        {
            "topic": proof.target.topic,
            "partition": proof.target.partition,
            "from": proof.first,
            "until": proof.until,
            "topic_records": proof.topic_records,
            "table_rows": proof.table_rows,
            "dead_letters": proof.dead_letters,
            "older_than_topic": proof.unchecked,
            "gone_from_topic": proof.gone,
            **{name: getattr(proof, name) for name in ("missing", "duplicated", "unexpected", "different")},
        }
        for proof in verdict.proofs
    ]
    return {"equal": verdict.holds, "content_compared": verdict.compares_content, "partitions": rows}


def _show(verdict: Verdict) -> None:
    columns = ("partition", "offsets", "topic", "table", "dead letters", "older", "result")
    print_table(columns, [_row(proof) for proof in verdict.proofs])
    for proof in verdict.proofs:
        if proof.gone:
            last = proof.until + proof.gone - 1
            click.echo(f"{proof.target}: offsets {proof.until} to {last} left the topic before the table had them")
        for word in ("missing", "duplicated", "unexpected", "different"):
            found: list[int] = getattr(proof, word)
            if found:
                shown = ", ".join(map(str, found[:EXAMPLES_SHOWN]))
                more = f" and {len(found) - EXAMPLES_SHOWN} more" if len(found) > EXAMPLES_SHOWN else ""
                click.echo(f"{proof.target}: {word} offsets {shown}{more}")
    compared = (
        "offsets and contents"
        if verdict.compares_content
        else "offsets (not every table has key and value as bytes or text)"
    )
    click.echo(f"{'equal' if verdict.holds else 'NOT equal'}: {compared} compared")


def _row(proof: Proof) -> tuple[object, ...]:
    span = f"{proof.first}..{proof.until}"
    result = "equal" if proof.holds else "DIFFERS"
    return (
        str(proof.target), span, proof.topic_records, proof.table_rows, proof.dead_letters, proof.unchecked, result
    )  # fmt: skip


def _open(**place: Any) -> LakeTable:
    from runnel.spark.lake.tables import existing_table

    return existing_table(_destination(**place))


def _destination(
    path: str, table_format: str, table: str, catalog: tuple[str, ...], storage: tuple[str, ...]
) -> Destination:
    given = {"path": path, "tableFormat": table_format, **({"table": table} if table else {})}
    for prefix, pairs in (("catalog.", catalog), ("storage.", storage)):
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals:
                raise click.UsageError(f"'{pair}' is not NAME=VALUE")
            given[prefix + name] = value
    from runnel.spark.lake.options import parse_lake_options

    return parse_lake_options(given).destination
