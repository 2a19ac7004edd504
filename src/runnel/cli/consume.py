"""`runnel consume`: records of topics, from any position on, in any shape."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from runnel.cli.options import PartitionList, PositionType, TopicName, bootstrap_options
from runnel.cli.output import counted, note
from runnel.cli.progress import Progress
from runnel.cli.records_out import ENCODINGS, OutputFormat, compile_format, json_record
from runnel.cli.session import reader_is_gone, run_interruptible
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Position,
    PositionKind,
    ResolvedPosition,
    resolve,
)
from runnel.client.reader import Chunk, Reader, ReaderSettings
from runnel.wire.batch import Record

Printer = Callable[[TopicPartition, Record], bytes]
END = Position(PositionKind.END)
FORMAT_HELP = (
    "%t topic, %p partition, %o offset, %k key, %v value, %h headers, %T time, %d time in ms, "
    "%K and %V sizes, %% a percent sign, \\n \\t \\xHH."
)


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TopicName())
@click.option(
    "-o",
    "--offset",
    "start",
    type=PositionType(),
    default="start",
    help="Where to begin: start, end, N, -N (the last N of each partition), @TIME.  [default: start]",
)
@click.option("--until", type=PositionType(), help="Where to stop, in the same words; the record there is not read.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at what is the end now: short for --until end.")
@click.option("-n", "--num", "limit", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-p", "--partitions", type=PartitionList(), help="Only these, e.g. 0,2 or 0-4.  [default: all]")
@click.option("-f", "--format", "template", help=FORMAT_HELP)
@click.option("-K", "--key-separator", metavar="TEXT", help="Print KEY, this text, VALUE.")
@click.option("-D", "--delimiter", default="\\n", metavar="TEXT", help="What ends a record.  [default: \\n]")
@click.option(
    "--encoding",
    type=click.Choice(ENCODINGS),
    default="text",
    help="How keys, values and header values are printed.",
)
@click.option("--null", "null_text", default="", metavar="TEXT", help="How a null is printed.  [default: nothing]")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON lines (field names: docs/cli.md).")
@click.option("--read-committed", is_flag=True, help="Leave out aborted and open transactions.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no notes and no summary.")
@bootstrap_options
def consume(
    topics: tuple[str, ...],
    start: Position,
    until: Position | None,
    exit_at_end: bool,
    limit: int | None,
    partitions: tuple[int, ...] | None,
    read_committed: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Read records, and go on until Ctrl-C, -e, -n or --until.

    \b
    runnel consume greetings
    runnel consume orders -o -10 -e -f '%p %o %T %k: %v\\n'
    runnel consume orders -o @2026-01-31T08:00 --until @2026-01-31T09:00 --json
    runnel consume orders -p 0 -o 42 -n 1 --encoding hex
    """
    if exit_at_end and until is not None:
        raise click.UsageError("-e and --until exclude each other")
    try:
        printer = _printer(options)
    except ClientError as error:
        raise click.UsageError(error.message) from error
    isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
    stop_at = END if exit_at_end else until

    async def work(cluster: Cluster) -> int:
        targets = await _targets(cluster, topics, partitions)
        places = await resolve(cluster, targets, start, isolation=isolation)
        ends: dict[TopicPartition, int] | None = None
        if stop_at is not None:
            resolved = await resolve(cluster, targets, stop_at, isolation=isolation)
            ends = {target: _end_of(stop_at, row) for target, row in resolved.items()}
        if not quiet:
            _mention_moved(places)
        run = Consumption(printer, limit, ends, quiet=quiet)
        await run.read(cluster, {target: row.offset for target, row in places.items()}, isolation)
        return 0

    return run_interruptible(work)


def _printer(options: dict[str, Any]) -> Printer:
    if options["as_json"]:
        if options["template"] is not None or options["key_separator"] is not None:
            raise ClientError("--json excludes -f and -K")
        encoding: str = options["encoding"]
        return lambda target, record: json_record(target, record, encoding)
    template = options["template"]
    if template is None:
        escaped = (options["key_separator"] or "").replace("%", "%%")
        keyed = "" if options["key_separator"] is None else f"%k{escaped}"
        template = f"{keyed}%v{options['delimiter'].replace('%', '%%')}"
    return compile_format(template, OutputFormat(options["encoding"], options["null_text"].encode()))


async def _targets(
    cluster: Cluster, topics: tuple[str, ...], partitions: tuple[int, ...] | None
) -> list[TopicPartition]:
    targets: list[TopicPartition] = []
    for name in dict.fromkeys(topics):
        view = await cluster.topic(name)
        indexes = partitions or [partition.index for partition in view.partitions]
        targets += [TopicPartition(name, index) for index in indexes]
    return targets


def _end_of(position: Position, row: ResolvedPosition) -> int:
    """An offset beyond the end is waited for; everything else lies within the log."""
    return row.asked_offset if position.kind is PositionKind.OFFSET else row.offset


def _mention_moved(places: Mapping[TopicPartition, ResolvedPosition]) -> None:
    for target, row in places.items():
        if row.offset != row.asked_offset:
            limits = f"it holds {row.bounds.start} to {row.bounds.end}"
            note(f"{target} does not have offset {row.asked_offset} ({limits}): reading from {row.offset}")


class Consumption:
    """One run: prints, counts, and knows when it is over."""

    def __init__(
        self, printer: Printer, limit: int | None, ends: Mapping[TopicPartition, int] | None, *, quiet: bool
    ) -> None:
        self._print = printer
        self._limit = limit
        self._ends = ends
        self._quiet = quiet
        self._progress = Progress("consumed", quiet=quiet, hidden=sys.stdout.isatty())

    async def read(self, cluster: Cluster, positions: dict[TopicPartition, int], isolation: int) -> None:
        ends = self._ends or {}
        wanted = {target: offset for target, offset in positions.items() if self._ends is None or offset < ends[target]}
        summary = f"from {counted(len(positions), 'partition')}"
        try:
            await self._read(Reader(cluster, wanted, ReaderSettings(isolation=isolation), self._jumped))
        except BaseException as error:
            if not reader_is_gone(error):
                self._progress.finish(summary)
            raise
        self._progress.finish(summary)

    async def _read(self, reader: Reader) -> None:
        async with reader:
            async for chunk in reader.chunks():
                if not self._take(chunk, reader):
                    break

    def _take(self, chunk: Chunk, reader: Reader) -> bool:
        """Print a chunk; False when the limit is reached."""
        records = chunk.records
        if self._ends is not None and chunk.next_offset >= self._ends[chunk.target]:
            records = [record for record in records if record.offset < self._ends[chunk.target]]
            reader.stop(chunk.target)
        if self._limit is not None:
            records = records[: self._limit - self._progress.records]
        output = b"".join([self._print(chunk.target, record) for record in records])
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
        size_bytes = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        self._progress.add(len(records), size_bytes)
        return self._limit is None or self._progress.records < self._limit

    def _jumped(self, target: TopicPartition, position: int, start: int) -> None:
        if not self._quiet:
            note(f"{target}: offsets {position} to {start - 1} are gone (retention, trim): going on at {start}")
