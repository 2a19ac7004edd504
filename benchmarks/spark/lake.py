"""From a topic into lake tables: ours to Delta, and both connectors to Parquet by Spark's own writer.

Spark brings no Delta writer; what one can have with its connector and no other jar is its Parquet sink, so that is what
our Delta tables stand beside. zstd in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.spark.bench import OURS, THEIRS, SparkBench, Turn, WrongResult
from benchmarks.spark.filling import topic_of
from benchmarks.spark.sizes import Sizes
from benchmarks.spark.turns import Case, Work, take_turns

TITLE = "Lake tables"
TRIGGERS = 2


def delta_batch(bench: SparkBench, connector: str, topic: str, path: str) -> None:
    frame = bench.read(connector, topic).load()
    frame.write.format("runnel-lake").option("tableFormat", "delta").mode("append").save(path)


def parquet_batch(bench: SparkBench, connector: str, topic: str, path: str) -> None:
    bench.read(connector, topic).load().write.option("compression", "zstd").parquet(path)


def delta_stream(bench: SparkBench, connector: str, topic: str, path: str) -> None:
    writer = _stream(bench, connector, topic).writeStream.format("runnel-lake").option("tableFormat", "delta")
    bench.drain(writer.option("appId", "bench").option("path", path), bench.sizes.lake_records)


def parquet_stream(bench: SparkBench, connector: str, topic: str, path: str) -> None:
    writer = _stream(bench, connector, topic).writeStream.format("parquet").option("compression", "zstd")
    bench.drain(writer.option("path", path), bench.sizes.lake_records)


def _stream(bench: SparkBench, connector: str, topic: str) -> Any:
    options = {"maxOffsetsPerTrigger": str(bench.sizes.lake_records // TRIGGERS)}
    return bench.read_stream(connector, topic, options).load()


def written(bench: SparkBench, write: Callable[[SparkBench, str, str, str], None], connector: str, topic: str) -> Turn:
    with bench.fresh_folder() as folder:
        turn = bench.timed(lambda: write(bench, connector, topic, str(folder)))
        found = bench.spark.read.parquet(str(folder)).count()
        if found != bench.sizes.lake_records:
            raise WrongResult(f"{found} rows in the table instead of {bench.sizes.lake_records}")
    return turn


def run(bench: SparkBench) -> None:
    records = bench.sizes.lake_records
    topic = topic_of(bench, records)
    for name, delta, parquet in (("batch", delta_batch, parquet_batch), ("stream", delta_stream, parquet_stream)):
        theirs: Work = partial(written, bench, parquet, THEIRS, topic)
        ours: dict[str, Work] = {
            ": Delta by runnel-lake (theirs: Spark's Parquet)": partial(written, bench, delta, OURS, topic),
            ": Spark's Parquet": partial(written, bench, parquet, OURS, topic),
        }
        take_turns(bench, TITLE, Case(name, records, theirs, ours), bench.sizes.turns)


def lines(_: Sizes) -> int:
    return 2
