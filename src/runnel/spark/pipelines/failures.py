"""Why a flow failed, and at which record.

In: what Spark says, the checkpoint, the flow's query. Out: `FlowFailure`: the flow, its file, the offsets of the batch
that failed, and the record itself where that can be found. Spark does not know which row a function failed on; the
query is run again on parts of what it read (`failed_rows.py`): of its topic, or of the pipeline's tables.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from runnel.client.errors import ClientError
from runnel.client.metadata import TopicPartition
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.errors import OptionError
from runnel.spark.pipelines.checkpoints import FailedBatch, Span, failed_batch
from runnel.spark.pipelines.definitions import Definitions
from runnel.spark.pipelines.failed_rows import OutOfTime, Search, TableRows, TopicRecords, first_failing, search
from runnel.spark.pipelines.figures import short_name
from runnel.spark.pipelines.places import find_flow
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.queries import Queries, Query, read_queries
from runnel.spark.pipelines.relations import Source
from runnel.spark.planning.offsets import OffsetReader
from runnel.spark.positions import Offsets
from runnel.spark.source_options import AtTimestamp, Edge, parse_source_options, stream_start

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.connect.session import SparkSession

VALUE_SHOWN_CHARACTERS = 200
POSITION = ("topic", "partition", "offset")
log = logging.getLogger("runnel.spark")


@dataclass(frozen=True, slots=True)
class FlowFailure:
    """`spans`: the batch that failed. `record`: the first record that fails by itself, with its value. `table`: where
    it is a row of one of the pipeline's tables, whose columns are the value then."""

    flow: str | None
    message: str
    file: str | None = None
    line: int | None = None
    batch_id: int | None = None
    spans: tuple[Span, ...] = ()
    record: Span | None = None
    value: str | None = None
    table: str | None = None

    def __str__(self) -> str:
        where = [f"{self.file}:{self.line}" if self.file else "", f"flow {self.flow}" if self.flow else ""]
        text = ": ".join(part for part in (*where, self.message) if part)
        found = [str(self.record)] if self.record is not None else []
        found += [f"a row of {self.table}"] if self.table is not None else []
        if found:
            return f"{text} [at {', '.join(found)}: {self.value}]"
        return f"{text} [in batch {self.batch_id}: {'; '.join(map(str, self.spans))}]" if self.spans else text

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(project: Project, session: SparkSession, noted: Definitions, flow_name: str, message: str) -> FlowFailure:
    """Never raises: whatever goes wrong here, the flow's own failure is the one to tell."""
    failure = FlowFailure(flow_name, message, *find_flow(project, noted, flow_name))
    try:
        queries = read_queries(project, noted)
        query = queries.of_flow(flow_name)
        batch = None if query is not None and not query.is_stream else _failed_batch(project, flow_name)
        if batch is not None:
            starts = {**_first_offsets(query.sources if query else []), **batch.starts}
            failure = replace(failure, batch_id=batch.batch_id, spans=tuple(_spans(batch, starts)))
        if query is not None:
            failure = _with_row(failure, session, queries, query, batch)
    except OutOfTime:
        log.info("flow %s: the row that fails was not found in time", flow_name)
    except Exception:
        log.info("flow %s: the row that fails was not found", flow_name, exc_info=True)
    return failure


def _failed_batch(project: Project, flow_name: str) -> FailedBatch | None:
    storage = project.local_storage
    return failed_batch(storage, flow_name.rpartition(".")[2]) if storage is not None else None


def _spans(batch: FailedBatch, starts: Offsets) -> Iterator[Span]:
    for target, until in sorted(batch.ends.items()):
        first = starts.get(target)
        if first is None or first < until:
            yield Span(target, first, until)


def _first_offsets(sources: list[Source]) -> Offsets:
    """Where the flow began to read, as far as that can still be asked: `latest` was another offset then."""
    found: Offsets = {}
    for source in sources:
        try:
            options = parse_source_options(source.options)
            begin = stream_start(options)
            if begin == Edge(-1) or isinstance(begin, AtTimestamp):
                continue
            with Cluster(replace(options.brokers, patience_s=0.0)) as cluster:  # it may be gone, which is why we ask
                found.update(OffsetReader(cluster, options).resolve(begin, starting=True))
        except (OptionError, ClientError):
            continue
    return found


def _with_row(
    failure: FlowFailure, session: SparkSession, queries: Queries, query: Query, batch: FailedBatch | None
) -> FlowFailure:
    """With the record or the row that fails, where the query reads one topic alone, or tables of the pipeline alone."""
    topics = query.sources
    if query.is_stream and batch is None:
        return failure
    if len(topics) == 1 and topics[0].is_streaming and not query.tables:
        with search(session, queries, query) as searching:
            return _with_record(failure, searching, topics[0])
    if query.tables and not topics:
        with search(session, queries, query) as searching:
            return _with_table_row(failure, searching, queries, query, batch)
    return failure


def _with_record(failure: FlowFailure, searching: Search, topic: Source) -> FlowFailure:
    for span in failure.spans:
        records = TopicRecords(searching, span.target, topic.options)
        found = None if span.first is None else first_failing(records.fails, span.first, span.until)
        if found is not None:
            return replace(failure, record=Span(span.target, found, found + 1), value=_shown(records.value(found)))
    return failure


def _with_table_row(
    failure: FlowFailure, searching: Search, queries: Queries, query: Query, batch: FailedBatch | None
) -> FlowFailure:
    """A stream's row is one of its batch; what is no stream reads all rows each time."""
    for table in sorted(query.tables):
        try:
            rows = TableRows(searching, table, None if batch is None else batch.files)
        except PySparkException:  # a table that is none yet, or none of files
            continue
        found = first_failing(rows.fails, 0, rows.count)
        rows.end()
        row = None if found is None else rows.row(found)
        if row is not None:
            record = _position(row, queries.topic_of(table))
            return replace(failure, record=record, value=_columns(row, record), table=short_name(str(table)))
    return failure


def _position(row: Row, topic: str | None) -> Span | None:
    """Where a row comes from, if its columns tell; `topic`: the one that the table is filled from."""
    cells = {name.lower(): cell for name, cell in row.asDict().items()}
    named, partition, offset = (cells.get(name) for name in POSITION)
    if "topic" in cells:
        topic = named if isinstance(named, str) else None
    if topic is None or not isinstance(partition, int) or not isinstance(offset, int):
        return None
    return Span(TopicPartition(topic, partition), offset, offset + 1)


def _columns(row: Row, record: Span | None) -> str:
    told = POSITION if record is not None else ()
    cells = {name: cell for name, cell in row.asDict().items() if cell is not None and name.lower() not in told}
    return _shown(", ".join(f"{name}={_text(cell)}" for name, cell in cells.items()))


def _shown(value: str | bytes | bytearray) -> str:
    return _text(value[:VALUE_SHOWN_CHARACTERS])


def _text(cell: Any) -> str:
    return cell.decode(errors="backslashreplace") if isinstance(cell, bytes | bytearray) else str(cell)
