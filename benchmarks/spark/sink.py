"""Writing to a topic: a cached DataFrame, and a stream of files. Each connector on its defaults, and both alike."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.spark.bench import OURS, THEIRS, SparkBench, Turn
from benchmarks.spark.filling import rows
from benchmarks.spark.sizes import Sizes
from benchmarks.spark.turns import Case, take_turns

TITLE = "Sink"
FILES = 4
LARGE_BATCHES = {"kafka.batch.size": "900000", "kafka.linger.ms": "50"}  # what ours does by itself
CASES: tuple[tuple[str, dict[str, str]], ...] = (
    ("batch, 100 B, defaults of each", {}),
    ("batch, 100 B, batch.size=900000 on both", LARGE_BATCHES),
    ("batch, 100 B, lz4, batch.size=900000 on both", {**LARGE_BATCHES, "kafka.compression.type": "lz4"}),
)


def write(bench: SparkBench, connector: str, frame: Any, records: int, options: dict[str, str]) -> Turn:
    with bench.fresh_topic() as topic:
        turn = bench.timed(lambda: bench.write(connector, frame, topic, options))
        bench.expect(topic, records)
    return turn


def write_stream(bench: SparkBench, connector: str, folder: str, records: int) -> Turn:
    with bench.fresh_topic() as topic:
        files = bench.spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", "1")
        turn = bench.timed(
            lambda: bench.drain(bench.to_topic(connector, files.parquet(folder), topic), records),
        )
        bench.expect(topic, records)
    return turn


def run(bench: SparkBench) -> None:
    records, long_records = bench.sizes.sink_records, bench.sizes.sink_records_1kib
    frame = _cached(bench, records, 100)
    for name, options in CASES:
        _batch(bench, name, frame, records, options)
    with bench.fresh_folder() as folder:
        frame.repartition(FILES).write.parquet(str(folder))
        frame.unpersist()
        work = partial(write_stream, bench)
        theirs, ours = (partial(work, connector, str(folder), records) for connector in (THEIRS, OURS))
        name = f"stream, 100 B, {records // FILES:,} records per trigger"
        take_turns(bench, TITLE, Case(name, records, theirs, {"": ours}), bench.sizes.turns)
    long_frame = _cached(bench, long_records, 1024)
    _batch(bench, "batch, 1 KiB, defaults of each", long_frame, long_records, {})
    long_frame.unpersist()


def _batch(bench: SparkBench, name: str, frame: Any, records: int, options: dict[str, str]) -> None:
    theirs, ours = (partial(write, bench, connector, frame, records, options) for connector in (THEIRS, OURS))
    take_turns(bench, TITLE, Case(name, records, theirs, {"": ours}), bench.sizes.turns)


def _cached(bench: SparkBench, records: int, value_bytes: int) -> Any:
    bench.tell(f"caching {records} rows of {value_bytes} bytes")
    frame = rows(bench, records, value_bytes).select("key", "value").cache()
    frame.count()
    return frame


def lines(_: Sizes) -> int:
    return len(CASES) + 2
