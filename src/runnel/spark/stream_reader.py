"""A streaming query over topics: where each trigger ends, what it reads, and how far it has come.

In: options; the offsets of Spark's checkpoint as `{"topic":{"0":123}}`, the shape of Spark's Kafka connector, so that a
query can move from one to the other. Out: tasks. One object lives on the driver for the length of a query's run; copies
of it go to the executors, which only `read`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from runnel.spark.brokers.cluster import Cluster
from runnel.spark.brokers.commits import GroupCommits
from runnel.spark.planning.changes import compare
from runnel.spark.planning.first_batch import first_ends, first_starts
from runnel.spark.planning.limits import Delay, rate_limited
from runnel.spark.planning.offsets import OffsetReader
from runnel.spark.planning.tasks import plan_tasks
from runnel.spark.positions import Nested, Offsets, from_nested, to_nested
from runnel.spark.reading.ranges import Missing
from runnel.spark.reading.task import ReadTask, read_plan, read_task
from runnel.spark.row_schema import arrow_schema
from runnel.spark.source_options import SourceOptions, stream_start

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._starting = stream_start(options)
        self._schema = schema
        self._plan = read_plan(options)
        self._missing = Missing(options.fail_on_data_loss)
        least = options.offsets_per_trigger_min
        self._delay = None if least is None else Delay(least, options.trigger_delay_max_ms)
        self._offset_reader: OffsetReader | None = None
        self._commits: GroupCommits | None = None
        self._initial: Offsets | None = None
        self._latest: Offsets | None = None
        self._available: Offsets | None = None
        self._only_what_is_there = False
        self._topic_ids: dict[str, uuid.UUID] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What executors need: no connections."""
        return {**self.__dict__, "_offset_reader": None, "_commits": None}

    # Offsets ----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Nested:
        """Spark asks twice: to find the end of the first batch, and again, when that is noted, for its start."""
        if self._initial is None:
            self._initial = self._offsets().resolve(self._starting, starting=True)
            self._note_topics()
        return to_nested(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark knows one limit at a time; where both are given, `latestOffset` looks after the lower one."""
        if self._options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._only_what_is_there = True

    def latestOffset(self, start: Nested, limit: ReadLimit) -> Nested:
        starts = from_nested(start)
        ends = self._choose_ends(starts, limit)
        # Spark asks for the next offsets when all before `start` is done: the earliest moment to tell lag tools. All
        # that a trigger asks has been asked by now; where that failed, a commit would only hold up the failure.
        self._start_commit(starts)
        if ends == starts:
            self._finish_commit()  # nothing else is to be done now, and this may be the last that Spark asks
        return to_nested(ends)

    def _choose_ends(self, starts: Offsets, limit: ReadLimit) -> Offsets:
        is_first = self._is_first(starts)
        ends = self._find_latest(starts)
        if is_first:
            ends = first_ends(self._starting, starts, ends)
        if isinstance(limit, ReadAllAvailable):
            return ends
        added = ends.keys() - starts.keys()
        known = {**starts, **self._offsets().earliest(added)} if added else starts
        if self._delay and not self._only_what_is_there and self._delay.waits(known, ends, time.monotonic() * 1000):
            return starts
        return rate_limited(limit.max_rows, known, ends) if isinstance(limit, ReadMaxRows) else ends

    def _is_first(self, starts: Offsets) -> bool:
        """Whether the first batch of the query is to be planned, or, without a question for its end, run again."""
        return self._latest is None and starts == self._initial

    def reportLatestOffset(self) -> Nested | None:
        return to_nested(self._latest) if self._latest else None

    def _find_latest(self, starts: Offsets) -> Offsets:
        """The ends as they are now; with Trigger.AvailableNow, as they were when first asked for."""
        if self._available is not None:
            return self._available
        self._latest = self._offsets().latest(starts)
        self._note_topics()
        if self._only_what_is_there:
            self._available = self._latest
        return self._latest

    # Reading ----------------------------------------------------------------------------------------------------

    def partitions(self, start: Nested, end: Nested) -> Sequence[InputPartition]:
        starts, ends, offsets = from_nested(start), from_nested(end), self._offsets()
        if not offsets.cluster.view.topics:
            offsets.partitions()  # the first trigger after a restart may be one that was planned before it
        if self._is_first(starts):
            starts = first_starts(self._starting, starts, ends)
        starts = compare(starts, ends, offsets.earliest, self._missing)
        self._compare_topics(ends)
        ranges = offsets.ranges(starts, ends)
        tasks = plan_tasks(ranges, self._options.partitions_min, self._options.records_per_partition_max, whole=True)
        return [ReadTask(task) for task in tasks]

    def _note_topics(self) -> None:
        """While there is nothing to read, too: a topic may be made anew before the first record comes."""
        for name, topic in self._offsets().cluster.view.topics.items():
            if topic.error_code == 0:
                self._topic_ids.setdefault(name, topic.topic_id)

    def _compare_topics(self, ends: Offsets) -> None:
        """Offsets alone do not tell a topic from a new one of its name that has grown as long."""
        topics = self._offsets().cluster.view.topics
        for name in sorted({target.topic for target in ends} & topics.keys()):
            topic_id = topics[name].topic_id
            if self._topic_ids.setdefault(name, topic_id) != topic_id:
                self._missing.report("PARTITION_OFFSET_CHANGED", f"Topic {name} was deleted and created anew.")
                self._topic_ids[name] = topic_id

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ReadTask):
            return iter(())
        return read_task(self._plan, partition.ranges, arrow_schema(self._schema))

    # Progress ---------------------------------------------------------------------------------------------------

    def commit(self, end: Nested) -> None:
        """Spark calls this when it has planned the next trigger: by then the commit of `latestOffset` has arrived."""
        self._start_commit(from_nested(end))
        self._finish_commit()

    def _start_commit(self, offsets: Offsets) -> None:
        if self._options.group_id is None:
            return
        if self._commits is None:
            self._commits = GroupCommits(self._offsets().cluster, self._options.group_id)
        self._commits.start(offsets)

    def _finish_commit(self) -> None:
        if self._commits is not None:
            self._commits.finish()

    def stop(self) -> None:
        if self._offset_reader is not None:
            self._finish_commit()
            self._offset_reader.cluster.close()

    def _offsets(self) -> OffsetReader:
        """What answers questions about offsets; none can be asked while a commit is to be answered."""
        if self._offset_reader is None:
            self._offset_reader = OffsetReader(Cluster(self._options.brokers), self._options)
        self._finish_commit()
        return self._offset_reader
