"""Why a flow failed, and at which record.

In: what Spark says, the checkpoint, the flow's query. Out: `FlowFailure`: the flow, its file, the offsets of the batch
that failed, and the record itself where that can be found. Spark does not know which row a function failed on; a query
that reads nothing but one topic can be run again on halves of the batch, until a single record is left.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from runnel.client.errors import ClientError
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.errors import OptionError
from runnel.spark.pipelines.checkpoints import FailedBatch, Span, failed_batch
from runnel.spark.pipelines.definitions import Definitions, FlowDefinition
from runnel.spark.pipelines.places import find_flow
from runnel.spark.pipelines.project import Project
from runnel.spark.pipelines.relations import Source, as_batch, frame, inlined, reads_only_topics
from runnel.spark.planning.offsets import OffsetReader
from runnel.spark.positions import Offsets
from runnel.spark.source_options import AtTimestamp, Edge, parse_source_options, stream_start

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

VALUE_SHOWN_CHARACTERS = 200
HALVINGS_MAX = 40
SOURCE_LIMITS = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "subscribe", "subscribepattern")


@dataclass(frozen=True, slots=True)
class FlowFailure:
    """`spans`: the batch that failed. `record`: the first record that fails by itself, with its value."""

    flow: str | None
    message: str
    file: str | None = None
    line: int | None = None
    batch_id: int | None = None
    spans: tuple[Span, ...] = ()
    record: Span | None = None
    value: str | None = None

    def __str__(self) -> str:
        where = [f"{self.file}:{self.line}" if self.file else "", f"flow {self.flow}" if self.flow else ""]
        text = ": ".join(part for part in (*where, self.message) if part)
        if self.record is not None:
            return f"{text} [at {self.record}: {self.value}]"
        return f"{text} [in batch {self.batch_id}: {'; '.join(map(str, self.spans))}]" if self.spans else text

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(project: Project, session: SparkSession, noted: Definitions, flow_name: str, message: str) -> FlowFailure:
    flow = noted.flow(flow_name)
    failure = FlowFailure(flow_name, message, *find_flow(project, noted, flow_name))
    storage = project.local_storage
    batch = failed_batch(storage, flow_name.rpartition(".")[2]) if storage is not None else None
    if batch is None:
        return failure
    starts = {**_first_offsets(noted.sources_of(flow_name)), **batch.starts}
    spans = tuple(_spans(batch, starts))
    failure = replace(failure, batch_id=batch.batch_id, spans=spans)
    query = _repeatable(flow, noted)
    return failure if query is None else _with_record(failure, Repeater(session, *query))


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


def _repeatable(flow: FlowDefinition | None, noted: Definitions) -> tuple[Any, Mapping[str, str]] | None:
    """The query and the options of its only source, where it depends on nothing else."""
    if flow is None or flow.relation is None:
        return None
    relation = inlined(flow.relation, noted.views())
    sources = noted.sources_of(flow.name)
    if not reads_only_topics(relation) or len(sources) != 1 or not sources[0].is_streaming:
        return None
    return relation, sources[0].options


class Repeater:
    """Runs a flow's query on some of its records, as a batch, and throws the result away."""

    def __init__(self, session: SparkSession, relation: Any, options: Mapping[str, str]) -> None:
        self._session = session
        self._relation = relation
        self._options = {name: text for name, text in options.items() if name.lower() not in SOURCE_LIMITS}

    def error(self, span: Span) -> PySparkException | None:
        try:
            frame(self._session, as_batch(self._relation, lambda _: self._only(span))).write.format("noop").mode(
                "overwrite"
            ).save()
        except PySparkException as error:
            return error
        return None

    def value(self, span: Span) -> str:
        """The record's value as text."""
        records = self._session.read.format("runnel").options(**self._only(span)).schema("value binary").load()
        row = records.head()
        raw = bytes(row[0]) if row is not None and row[0] is not None else b""
        return raw[:VALUE_SHOWN_CHARACTERS].decode(errors="backslashreplace")

    def _only(self, span: Span) -> dict[str, str]:
        topic, partition = span.target
        return {
            **self._options,
            "assign": json.dumps({topic: [partition]}),
            "startingOffsets": json.dumps({topic: {str(partition): span.first}}),
            "endingOffsets": json.dumps({topic: {str(partition): span.until}}),
        }


def _with_record(failure: FlowFailure, repeater: Repeater) -> FlowFailure:
    with _unlogged():
        for span in failure.spans:
            found = first_failing(repeater, span) if span.first is not None else None
            if found is not None:
                return replace(failure, record=found, value=repeater.value(found))
    return failure


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """PySpark prints each failed query as JSON; here they are expected to fail."""
    logger = logging.getLogger("DataFrameQueryContextLogger")
    logger.disabled, before = True, logger.disabled
    try:
        yield
    finally:
        logger.disabled = before


def first_failing(repeater: Repeater, span: Span) -> Span | None:
    """The first record of the span that fails by itself; None where none does, as when the fault is in their sum.

    What fails on no record at all fails for another reason: batches may not do all that streams do, brokers go away.
    """
    if span.first is None or repeater.error(replace(span, until=span.first)) is not None:
        return None
    if repeater.error(span) is None:
        return None
    first, until = span.first, span.until
    for _ in range(HALVINGS_MAX):
        if until - first == 1:
            break
        middle = (first + until) // 2
        if repeater.error(Span(span.target, first, middle)) is not None:
            until = middle
        else:
            first = middle
    found = Span(span.target, first, until)
    return found if repeater.error(found) is not None else None
