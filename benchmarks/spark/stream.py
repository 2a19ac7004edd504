"""Streams over a topic that is full already (AvailableNow): to nowhere, and to another topic."""

from __future__ import annotations

from functools import partial

from benchmarks.spark.bench import OURS, THEIRS, SparkBench, Turn
from benchmarks.spark.filling import topic_of
from benchmarks.spark.sizes import Sizes
from benchmarks.spark.turns import Case, take_turns

TITLE = "Streaming"


def to_nowhere(bench: SparkBench, connector: str, topic: str, trigger_records: int) -> Turn:
    options = {"maxOffsetsPerTrigger": str(trigger_records)}
    return bench.timed(
        lambda: bench.drain(
            bench.read_stream(connector, topic, options).load().writeStream.format("noop"), bench.sizes.records
        )
    )


def to_topic(bench: SparkBench, connector: str, topic: str, trigger_records: int) -> Turn:
    options = {"maxOffsetsPerTrigger": str(trigger_records)}
    with bench.fresh_topic() as target:
        turn = bench.timed(
            lambda: bench.drain(
                bench.to_topic(
                    connector, bench.read_stream(connector, topic, options).load().select("key", "value"), target
                ),
                bench.sizes.records,
            )
        )
        bench.expect(target, bench.sizes.records)
    return turn


def run(bench: SparkBench) -> None:
    records = bench.sizes.records
    topic = topic_of(bench, records)
    largest = max(bench.sizes.trigger_records)
    cases = [(f"to noop, {size:,} records per trigger", to_nowhere, size) for size in bench.sizes.trigger_records]
    for name, work, size in [*cases, (f"topic to topic, {largest:,} records per trigger", to_topic, largest)]:
        theirs, ours = partial(work, bench, THEIRS, topic, size), partial(work, bench, OURS, topic, size)
        take_turns(bench, TITLE, Case(name, records, theirs, {"": ours}), bench.sizes.turns)


def lines(sizes: Sizes) -> int:
    return len(sizes.trigger_records) + 1
