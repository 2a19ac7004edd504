"""One Spark task of reading: offset ranges in, Arrow record batches out.

In: a `ReadTask`, made on the driver. Out: RecordBatches of the schema that Spark expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from runnel.client.errors import ClientError
from runnel.spark.brokers.kept import kept_cluster
from runnel.spark.kafka_options import BrokerSettings, FetchSettings
from runnel.spark.reading.ranges import Missing, OffsetRange, Piece
from runnel.spark.settling import settle
from runnel.spark.source_options import SourceOptions
from runnel.wire.errors import Malformed

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MIN = 8192
"""Smaller batches are put together: each costs Spark about as much as a thousand rows."""
MERGED_BYTES_MAX = 16 << 20
"""What is put together stays below this: a column of an Arrow batch holds 2 GiB at most, and memory is dear."""


@dataclass(frozen=True, slots=True)
class ReadTask(InputPartition):
    """What one task reads; no two ranges are of the same partition."""

    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What all tasks of a query have in common."""

    brokers: BrokerSettings
    fetch: FetchSettings
    missing: Missing
    timeout_s: float
    data_dir: str | None


def read_plan(options: SourceOptions) -> ReadPlan:
    missing = Missing(options.fail_on_data_loss)
    return ReadPlan(options.brokers, options.fetch, missing, options.poll_timeout_ms / 1000, options.data_dir)


def read_task(plan: ReadPlan, ranges: tuple[OffsetRange, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Everything of the ranges, in batches that suit Spark."""
    yield from merged(_decoded(_pieces(plan, ranges), schema))
    settle("reading")


def _pieces(plan: ReadPlan, ranges: tuple[OffsetRange, ...]) -> Iterator[Piece]:
    """From files as far as they go, where they can be seen; the rest from brokers."""
    # Imported here, on the executor: numba takes longer to import than all that the driver does for a small query.
    from runnel.spark.reading.fetching import Fetcher
    from runnel.spark.reading.segments import sealed_segments

    segments = sealed_segments(plan.data_dir, plan.fetch)
    if segments is not None:
        rest: list[OffsetRange] = []
        for wanted in ranges:
            following = yield from segments.pieces(wanted)
            rest.append(wanted.part(following, wanted.until))
        ranges = tuple(row for row in rest if row.size > 0)
    if not ranges:
        return
    with kept_cluster(plan.brokers) as cluster:
        yield from Fetcher(cluster, plan.fetch, plan.missing, plan.timeout_s).pieces(ranges)


def _decoded(pieces: Iterable[Piece], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from runnel.spark.decode.columns import record_batch

    for target, chunk, first_offset, until_offset, aborted in pieces:
        try:
            for rows in chunk.rows(target.topic, target.partition, first_offset, until_offset, aborted):
                if rows.count:
                    yield record_batch(rows, schema)
        except Malformed as error:
            raise ClientError(f"partition {target}, from offset {first_offset} on: {error}") from error


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of a decent size. Large ones are handed on as they are."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and size + batch.nbytes > MERGED_BYTES_MAX:
            yield _concatenated(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_MIN or size >= MERGED_BYTES_MAX:
            yield _concatenated(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _concatenated(waiting)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
