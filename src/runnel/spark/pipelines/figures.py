"""How each flow fares, in figures: rows per second, batch time, how far behind its topics, how much state.

In: Spark's streaming progress and the events of a run. Out: `FlowProgress`, one per micro-batch or change of status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from runnel.spark.errors import OptionError
from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.messages import FlowEvent
from runnel.spark.progress import partitions_behind_latest


class Figures(StreamingQueryListener):
    """Puts together what the listener and the events of a run tell; every change goes to `report`.

    Spark 4.3 says of every stream whose query has ended that it has COMPLETED, and up to seconds later that it has
    FAILED. So a stream has completed when its query is known to have ended without an error, or at the end of the run.
    """

    def __init__(self, report: Callable[[FlowProgress], None]) -> None:
        self.flows: dict[str, FlowProgress] = {}
        self._report = report
        self._lock = threading.Lock()  # Spark calls a listener from a thread of its own
        self._queries: dict[str, str] = {}  # the run id of a query -> its flow
        self._believed: set[str] = set()  # flows that have completed when Spark says so
        self._doubted: set[str] = set()  # flows of which Spark has said so, but which may have failed

    def end(self) -> None:
        """Nothing more will come: what was doubted until now is true."""
        with self._lock:
            for flow in sorted(self._doubted):
                self._complete(flow)

    def note_event(self, event: FlowEvent) -> None:
        flow = short_name(event.flow)
        with self._lock:
            if event.status == "PLANNING":  # Spark says that of flows which are no streams
                self._believed.add(flow)
            if event.status != "COMPLETED":
                self._doubted.discard(flow)
                # The reason of a failure stays while Spark tries again.
                self._change(flow, lambda last: replace(last, status=event.status, error=event.error or last.error))
            elif flow in self._believed:
                self._complete(flow)
            else:
                self._doubted.add(flow)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: Mapping[str, Any] = event.progress
        if progress["name"]:
            flow = short_name(str(progress["name"]))
            with self._lock:
                self._queries[str(progress["runId"])] = flow
                self._change(flow, lambda last: _advanced(last, progress))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """The run's own events tell that."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing to count."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Comes before or after the run's own event. It has no name: a query without a batch is not known."""
        with self._lock:
            flow = self._queries.get(str(event.runId))
            if flow is None or event.exception is not None:
                return
            self._believed.add(flow)
            if flow in self._doubted:
                self._complete(flow)

    def _complete(self, flow: str) -> None:
        self._doubted.discard(flow)
        self._change(flow, lambda last: replace(last, status="COMPLETED", error=None))

    def _change(self, flow: str, change: Callable[[FlowProgress], FlowProgress]) -> None:
        last = self.flows.get(flow) or FlowProgress(flow, "QUEUED")
        self.flows[flow] = changed = replace(change(last), timestamp_ms=time.time_ns() // 1_000_000)
        self._report(changed)


def short_name(name: str) -> str:
    """As the project names the flow: without Spark's default catalog and database."""
    return name.removeprefix("spark_catalog.").removeprefix("default.")


def _advanced(last: FlowProgress, progress: Mapping[str, Any]) -> FlowProgress:
    rows = int(progress["numInputRows"] or 0)
    state = progress["stateOperators"] or []
    # A batch without rows only closes windows: how fast the flow is was told by the last one that had some.
    rate, batch_ms = (
        (_finite(progress["processedRowsPerSecond"]), progress["batchDuration"])
        if rows or not last.rows
        else (last.rows_per_second, last.batch_ms)
    )
    return replace(
        last,
        status=last.status if last.status in ("COMPLETED", "FAILED") else "RUNNING",
        batch_id=progress["batchId"],
        rows=last.rows + rows,
        batches=last.batches + 1,
        rows_per_second=rate,
        batch_ms=batch_ms,
        lag=_lag(progress["sources"] or []),
        state_rows=sum(operator["numRowsTotal"] for operator in state) if state else None,
        state_bytes=sum(operator["memoryUsedBytes"] for operator in state) if state else None,
    )


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    behind = [lag for source in sources if (lag := _source_lag(source)) is not None]
    return sum(behind) if behind else None


def _source_lag(source: Mapping[str, Any]) -> int | None:
    """A source that is no topic (a table, files) has offsets of another shape."""
    try:
        behind = partitions_behind_latest(source)
    except (OptionError, ValueError, AttributeError):
        return None
    return sum(behind.values()) if behind else None


def _finite(rate: float | None) -> float | None:
    return rate if rate is not None and isfinite(rate) else None
