"""The sink's two halves that Spark calls: `write` on executors, `commit` and `abort` on the driver.

In: Arrow batches. Out: a commit message per task. Records are visible as soon as they arrive: a task that fails after
it has written, and is run again by Spark, writes its rows again (at least once).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from runnel.client.metadata import TopicPartition
from runnel.spark.settling import settle
from runnel.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task wrote: by partition, how many records and the offset after the last."""

    arrived: dict[TopicPartition, tuple[int, int]]


def _write(options: SinkOptions, iterator: Iterator[pa.RecordBatch]) -> Written:
    # Imported here, on the executor: numba takes longer to import than all that the driver does for a small query.
    from runnel.spark.writing.task import write_task

    written = Written(write_task(options, iterator))
    settle("writing")
    return written


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """The records are there already. A transactional sink will end its transaction here."""
        settle("committing")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing that can be undone: see the module's docstring."""
