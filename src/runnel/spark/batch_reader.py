"""A batch query over topics: one snapshot of offsets when it is planned, then the records between them.

In: options. Out: tasks on the driver, Arrow batches on the executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from runnel.spark.brokers.cluster import Cluster
from runnel.spark.errors import OptionError
from runnel.spark.planning.offsets import OffsetReader
from runnel.spark.planning.tasks import plan_tasks
from runnel.spark.positions import EARLIEST
from runnel.spark.reading.task import ReadTask, read_plan, read_task
from runnel.spark.row_schema import arrow_schema
from runnel.spark.source_options import AtOffsets, Edge, SourceOptions, batch_limits, stands_for

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._limits = batch_limits(options)
        self._schema = schema
        self._plan = read_plan(options)

    def partitions(self) -> Sequence[InputPartition]:
        starting, ending = self._limits
        with Cluster(self._options.brokers) as cluster:
            offsets = OffsetReader(cluster, self._options)
            ends = offsets.resolve(ending, starting=False)
            starts = offsets.resolve(starting, starting=True, ends=ends)
            if starts.keys() != ends.keys():
                raise OptionError("partitions were added or deleted while the query was planned: run it again")
            # What lay before the end may have expired, or records arrived since it was asked for: both mean nothing.
            is_empty = isinstance(starting, Edge) or (isinstance(ending, Edge) and not isinstance(starting, AtOffsets))
            for target, start in starts.items():
                if start > ends[target] and not is_empty:
                    raise OptionError(
                        f"the start of {target} ({start}) lies after its end ({ends[target]}): look at the options "
                        "starting... and ending..., and whether the topic was deleted and created anew"
                    )
            ranges = [
                row._replace(from_earliest=stands_for(starting, row.target, EARLIEST))
                for row in offsets.ranges(starts, ends)
            ]
        tasks = plan_tasks(ranges, self._options.partitions_min, self._options.records_per_partition_max)
        return [ReadTask(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ReadTask):  # Spark's stand-in where there is nothing to read
            return iter(())
        return read_task(self._plan, partition.ranges, arrow_schema(self._schema))
