"""Batch scans of a topic: all columns, values only, a count; each compression; from the broker and from its files."""

from __future__ import annotations

from functools import partial

from benchmarks.spark.bench import OURS, THEIRS, SparkBench, Turn, WrongResult, to_noop
from benchmarks.spark.filling import topic_of
from benchmarks.spark.sizes import Sizes
from benchmarks.spark.turns import COLD_WARM_UPS, Case, take_turns

TITLE = "Batch scan"
DIRECT = ", direct reads"


def scan(bench: SparkBench, connector: str, topic: str, options: dict[str, str]) -> Turn:
    return bench.timed(lambda: to_noop(bench.read(connector, topic, options).load()))


def scan_case(bench: SparkBench, name: str, topic: str, records: int, options: dict[str, str] | None = None) -> Case:
    given = options or {}
    return Case(
        name,
        records,
        partial(scan, bench, THEIRS, topic, given),
        {
            "": partial(scan, bench, OURS, topic, given),
            DIRECT: partial(scan, bench, OURS, topic, {**given, "runnel.data.dir": bench.data_dir}),
        },
    )


def scan_values(bench: SparkBench, connector: str, topic: str) -> Turn:
    reader = bench.read(connector, topic)
    # Theirs takes no schema from the user: the projection is all that one can ask of it.
    return bench.timed(
        lambda: to_noop(reader.schema("value binary").load() if connector == OURS else reader.load().select("value"))
    )


def count(bench: SparkBench, connector: str, topic: str, records: int) -> Turn:
    found: list[int] = []
    turn = bench.timed(lambda: found.append(bench.read(connector, topic).load().count()))
    if found != [records]:
        raise WrongResult(f"{found[0]} records counted instead of {records}")
    return turn


def run(bench: SparkBench) -> None:
    records, long_records = bench.sizes.records, bench.sizes.records_1kib
    for codec in ("none", "lz4", "zstd"):
        topic = topic_of(bench, records, codec=codec)
        case = scan_case(bench, f"100 B, {codec}, all columns", topic, records)
        take_turns(bench, TITLE, case, bench.sizes.turns, warm_ups=COLD_WARM_UPS if codec == "none" else 1)
    plain = topic_of(bench, records)
    values, counting = partial(scan_values, bench), partial(count, bench)
    # Theirs asks for the first and the last offset before each 500 records, unless it is told to take more at a time.
    polls = {"kafka.max.poll.records": "10000"}
    for case in (
        Case(
            "100 B, none, all columns, max.poll.records=10000",
            records,
            partial(scan, bench, THEIRS, plain, polls),
            {"": partial(scan, bench, OURS, plain, polls)},
        ),
        Case("100 B, none, value only", records, partial(values, THEIRS, plain), {"": partial(values, OURS, plain)}),
        Case(
            "100 B, none, count()",
            records,
            partial(counting, THEIRS, plain, records),
            {"": partial(counting, OURS, plain, records)},
        ),
    ):
        take_turns(bench, TITLE, case, bench.sizes.turns)
    long = topic_of(bench, long_records, 1024)
    take_turns(bench, TITLE, scan_case(bench, "1 KiB, none, all columns", long, long_records), bench.sizes.turns)


def lines(_: Sizes) -> int:
    return 7
