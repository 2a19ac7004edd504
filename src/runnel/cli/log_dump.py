"""`runnel log dump`: what is in the files of a data directory, without a broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from runnel.cli.offline.decoding import DECODERS
from runnel.cli.offline.dumping import NO_END, DumpOptions, dump_file
from runnel.cli.offline.places import DataDir, PartitionDir, PathWrong, files_of, locate, segments
from runnel.cli.options import TopicSelection, json_option
from runnel.cli.output import human_bytes, json_line, note

EXIT_FAILED = 1

Selection = tuple[str, tuple[int, ...] | None]


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--files", metavar="FILE,...", help="The same, as kafka-dump-log has it.")
@click.option("-d", "--deep", "--deep-iteration", "--print-data-log", is_flag=True, help="Every record too.")
@click.option("--decode", type=click.Choice(["auto", "none", *DECODERS]), default="auto", show_default=True,
              help="What records are; auto: by the topic's name.")  # fmt: skip
@click.option("--offsets-decoder", "decoder", flag_value="offsets", hidden=True)
@click.option("--cluster-metadata-decoder", "decoder", flag_value="metadata", hidden=True)
@click.option("--transaction-log-decoder", "decoder", flag_value="transactions", hidden=True)
@click.option("-t", "--topic", "topics", multiple=True, type=TopicSelection(), help="Of a data directory, only this.")
@click.option("-a", "--all", "everything", is_flag=True, help="Of folders also indexes, snapshots and checkpoints.")
@click.option("--from", "first_offset", type=click.IntRange(min=0), default=0, help="Only from this offset on.")
@click.option("--to", "last_offset", type=click.IntRange(min=0), default=NO_END, help="Only up to this offset.")
@click.option("-n", "--num", "count", type=click.IntRange(min=1), help="Only so many lines of each file.")
@json_option
def dump(
    paths: tuple[Path, ...],
    files: str | None,
    deep: bool,
    decode: str,
    decoder: str | None,
    topics: tuple[Selection, ...],
    everything: bool,
    first_offset: int,
    last_offset: int,
    count: int | None,
    as_json: bool,
) -> int:
    """Show what is in files of a data directory: a file, a partition's folder, or the whole of it. Needs no broker.

    \b
    runnel log dump runnel-data/orders-0
    runnel log dump runnel-data/orders-0/00000000000000000000.index
    runnel log dump runnel-data -t __consumer_offsets --deep
    """
    chosen = [*paths, *(Path(name) for name in (files or "").split(",") if name)]
    if not chosen:
        raise click.UsageError("name a data directory, a partition's folder or a file in it")
    options = DumpOptions(deep or decoder is not None, decoder or decode, first_offset, last_offset)
    try:
        found = [path for each in chosen for path in _files(each, topics, everything)]
        damages = sum(_print_file(path, options, count, as_json) for path in found)
    except PathWrong as error:
        raise click.ClickException(str(error)) from error
    if not found:
        note("nothing to show")
    if damages:
        click.echo("Error: there is damage; `runnel log verify` explains", err=True)
    return EXIT_FAILED if damages else 0


def _files(path: Path, topics: Sequence[Selection], everything: bool) -> Iterator[Path]:
    place = locate(path)
    if isinstance(place, Path):
        yield place
    elif isinstance(place, PartitionDir):
        yield from _partition_files(place, everything)
    else:
        yield from _directory_files(place, topics, everything)


def _directory_files(place: DataDir, topics: Sequence[Selection], everything: bool) -> Iterator[Path]:
    wanted = [each for each in place.partitions if not topics or any(selects(one, each) for one in topics)]
    if not wanted and topics:
        raise PathWrong(f"{place.path} has no partition of {', '.join(topic for topic, _ in topics)}")
    if everything and not topics:
        yield from (path for path in files_of(place.path) if path.name != ".lock")
    for each in wanted:
        yield from _partition_files(each, everything)


def _partition_files(place: PartitionDir, everything: bool) -> Iterator[Path]:
    yield from files_of(place.path) if everything else segments(place.path)


def selects(selection: Selection, place: PartitionDir) -> bool:
    topic, partitions = selection
    return topic == place.topic and (partitions is None or place.partition in partitions)


def _print_file(path: Path, options: DumpOptions, count: int | None, as_json: bool) -> int:
    """Print one file; how many damages were met."""
    lines = dump_file(path, options)
    if not as_json:
        click.echo(f"{path}  ({human_bytes(path.stat().st_size)})")
    damages = 0
    output = sys.stdout
    for number, line in enumerate(lines):
        if count is not None and number >= count:
            break
        damages += line.is_damage
        output.write(json_line({"file": str(path), **line.document}) if as_json else line.text)
        output.write("\n")
    return damages
