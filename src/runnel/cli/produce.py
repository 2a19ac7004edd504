"""`runnel produce`: records from an argument, a pipe or files into a topic."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from runnel.cli.input_thread import STDIN, InputThread
from runnel.cli.options import TopicName, bootstrap_options, json_option
from runnel.cli.output import counted, note, print_json
from runnel.cli.progress import Progress
from runnel.cli.records_in import (
    InputRecord,
    JsonParser,
    LineParser,
    Splitter,
    parse_header,
    unescape,
)
from runnel.cli.session import run_interruptible
from runnel.client.cluster import Cluster
from runnel.client.errors import ClientError
from runnel.client.metadata import TopicView
from runnel.client.producer import ACKS_ALL, Delivery, Producer, ProducerSettings
from runnel.wire.compression import Compression
from runnel.wire.errors import ErrorCode

ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": 0}


@dataclass(frozen=True, slots=True)
class Order:
    """The whole command line of one `produce`, checked."""

    topic: str
    files: tuple[str, ...]
    single: InputRecord | None
    parser: LineParser | JsonParser
    whole_files: bool
    delimiter: bytes
    partition: int | None
    create: bool
    settings: ProducerSettings


@dataclass(slots=True)
class Tally:
    """What arrived where."""

    progress: Progress
    ranges: dict[int, list[int]] = field(default_factory=dict)

    def add(self, delivery: Delivery) -> None:
        self.progress.add(delivery.record_count, delivery.batch_bytes)
        last = delivery.base_offset + delivery.record_count - 1 if delivery.base_offset >= 0 else -1
        span = self.ranges.setdefault(delivery.target.partition, [delivery.base_offset, last, 0])
        span[1] = max(span[1], last)
        span[2] += delivery.record_count

    def document(self, topic: str) -> dict[str, Any]:
        return {
            "topic": topic,
            "records": self.progress.records,
            "bytes": self.progress.bytes,
            "elapsed_ms": round(self.progress.elapsed_s * 1000),
            "partitions": [
                {
                    "partition": partition,
                    "records": span[2],
                    "base_offset": None if span[0] < 0 else span[0],
                    "last_offset": None if span[1] < 0 else span[1],
                }
                for partition, span in sorted(self.ranges.items())
            ],
        }

    def place(self, topic: str) -> str:
        if len(self.ranges) == 1:
            ((partition, (first, last, _)),) = self.ranges.items()
            offsets = f", offset {first}" if first == last else f", offsets {first} to {last}"
            return f"to {topic}/{partition}{offsets if first >= 0 else ''}"
        return f"to {counted(len(self.ranges), 'partition')} of {topic}" if self.ranges else f"to {topic}"


@click.command()
@click.argument("topic", type=TopicName())
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("-v", "--value", help="Send this one value, and read no input.")
@click.option("-k", "--key", help="The key of every record that brings none.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header on every record.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Lines are KEY, this text, VALUE.")
@click.option("-D", "--delimiter", default="\\n", metavar="TEXT", help="What ends a record.  [default: \\n]")
@click.option(
    "-i",
    "--input",
    "kind",
    type=click.Choice(["lines", "json", "whole"]),
    default="lines",
    help="What the input is: lines, JSON lines, or each file as one record.",
)
@click.option("-Z", "--null", "null", is_flag=True, help="Empty keys and values of lines are null.")
@click.option("--tombstone", is_flag=True, help="Send one null value for the key, and read no input.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option("--repartition", is_flag=True, help="Ignore the partitions that JSON input names.")
@click.option("-z", "--compression", type=click.Choice([codec.name.lower() for codec in Compression]), default="none")
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", help="Who must have a batch.  [default: all]")
@click.option("--idempotent/--no-idempotent", default=True, help="No duplicates by retries, with acks=all.")
@click.option("--linger-ms", type=click.IntRange(min=0), default=5, help="How long a batch waits for more.")
@click.option("--batch-bytes", type=click.IntRange(min=1), default=256 << 10, help="A batch is sent at this size.")
@click.option("--no-create", is_flag=True, help="Fail if the topic does not exist, instead of creating it.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
@json_option
@bootstrap_options
def produce(topic: str, files: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> int:
    """Send records to TOPIC, from stdin or FILEs: one per line, or as JSON lines.

    \b
    echo hello | runnel produce greetings
    runnel produce users -k 42 -v '{"name": "Ada"}' -H source=shell
    runnel produce users -k 42 --tombstone
    runnel produce prices -K : < prices.txt
    runnel consume a --json -e | runnel produce b -i json
    """
    try:
        order = _order(topic, files, options)
    except ClientError as error:
        raise click.UsageError(error.message) from error
    tally = Tally(Progress("produced", quiet=quiet))

    async def work(cluster: Cluster) -> int:
        await _ensure_topic(cluster, order, quiet=quiet)
        try:
            await _send_all(cluster, order, tally)
        finally:
            tally.progress.finish(tally.place(topic))
        return 0

    exit_code = run_interruptible(work)
    if as_json:
        print_json(tally.document(topic))
    return exit_code


def _order(topic: str, files: tuple[str, ...], options: dict[str, Any]) -> Order:
    key = None if options["key"] is None else _bytes(options["key"])
    headers = tuple(parse_header(text) for text in options["headers"])
    separator, delimiter = options["key_separator"], unescape(options["delimiter"])
    if not delimiter or separator == "":
        raise ClientError("a delimiter or separator cannot be empty")
    single = _single(options, key, headers)
    if single is not None and files:
        raise ClientError("give either a value or files")
    parser: LineParser | JsonParser
    if options["kind"] == "json":
        parser = JsonParser(key, headers, keep_partition=not options["repartition"])
    else:
        parser = LineParser(None if separator is None else unescape(separator), key, headers, options["null"])
    settings = ProducerSettings(
        acks=ACKS[options["acks"]],
        compression=int(Compression[options["compression"].upper()]),
        idempotent=options["idempotent"],
        linger_ms=0 if single is not None else options["linger_ms"],
        batch_bytes=options["batch_bytes"],
    )
    return Order(
        topic=topic,
        files=files or (STDIN,),
        single=single,
        parser=parser,
        whole_files=options["kind"] == "whole",
        delimiter=delimiter,
        partition=options["partition"],
        create=not options["no_create"],
        settings=settings,
    )


def _single(
    options: dict[str, Any], key: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> InputRecord | None:
    """The one record of `-v VALUE` or `-k KEY --tombstone`."""
    value, tombstone = options["value"], options["tombstone"]
    if tombstone and (key is None or value is not None):
        raise ClientError("--tombstone needs a key (-k), and no value")
    if tombstone or (value == "" and options["null"]):
        return InputRecord(None, key, headers)
    return None if value is None else InputRecord(_bytes(value), key, headers)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


async def _ensure_topic(cluster: Cluster, order: Order, *, quiet: bool) -> TopicView:
    try:
        return await cluster.topic(order.topic)
    except ClientError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not order.create:
            raise
    view = await cluster.topic(order.topic, create=True)
    if not quiet:
        note(f"topic {order.topic} did not exist: the broker created it")
    return view


async def _send_all(cluster: Cluster, order: Order, tally: Tally) -> None:
    async with Producer(cluster, order.settings, tally.add) as producer:
        try:
            async for record in _records(order):
                partition = order.partition if record.partition is None else record.partition
                await producer.send(
                    order.topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
            await producer.flush()
        except (asyncio.CancelledError, ClientError, OSError):
            # Ctrl-C, even in the last flush, or a bad line: what was read before it was meant to be sent.
            await producer.flush()
            raise


async def _records(order: Order) -> AsyncIterator[InputRecord]:
    if order.single is not None:
        yield order.single
        return
    if STDIN in order.files and sys.stdin.isatty():
        note("reading from the terminal: one record per line, Ctrl-D ends")
    splitter = Splitter(order.delimiter)
    number = 0
    held: list[bytes] = []
    async for chunk in InputThread(order.files).chunks():
        if order.whole_files:
            held.append(chunk.data)
            pieces: Sequence[bytes] = () if chunk.data else (b"".join(held),)
            held = [] if not chunk.data else held
        else:
            pieces = splitter.feed(chunk.data) if chunk.data else splitter.finish()
        for piece in pieces:
            number += 1
            yield _whole(order, piece) if order.whole_files else order.parser.parse(piece, number)


def _whole(order: Order, content: bytes) -> InputRecord:
    return InputRecord(content, order.parser.key, order.parser.headers)
