"""What Spark's analysis makes of a graph: the columns of every flow, in Python or SQL, behind whatever it reads.

In: a graph that resolves, and the JVM of ours that holds it: Spark Connect tells nobody of this, so a server elsewhere
cannot be asked. Out: flows with their schemas. Nothing runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

from runnel.spark.pipelines.messages import shortened

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

STREAM_CHECK = "spark.sql.streaming.unsupportedOperationCheck"


@dataclass(frozen=True, slots=True)
class ResolvedFlow:
    """`target`: a sink's name, or a table's, as Spark reads it. `refusal`: what Spark would say of it when it begins as
    a stream."""

    name: str
    target: str
    schema: StructType
    refusal: str | None = None


def resolved_flows(jvm: Any, session: SparkSession, graph_id: str) -> list[ResolvedFlow] | None:
    """Without those that change data (auto CDC), whose schema is not that of the rows in the table. None where this
    Spark is built otherwise than the one that we know."""
    client = session.client
    service = jvm.org.apache.spark.sql.connect.service
    spark_session = getattr(getattr(jvm.org.apache.spark.sql.classic, "SparkSession$"), "MODULE$")
    try:
        manager = getattr(getattr(service, "SparkConnectService$"), "MODULE$").sessionManager()
        key = service.SessionKey(client._user_id or "", client._session_id)
        holder = manager.getIsolatedSessionIfPresent(key).get()
        registered = holder.dataflowGraphRegistry().getDataflowGraph(graph_id).get()
        spark_session.setActiveSession(holder.session())
        try:
            checks = session.conf.get(STREAM_CHECK) == "true"
            return list(_flows(jvm, registered.toDataflowGraph().resolve(True).resolvedFlows(), checks))
        finally:
            spark_session.clearActiveSession()
    except (Py4JError, TypeError):  # the latter: a name that is no class there cannot be called
        return None


def _flows(jvm: Any, found: Any, checks: bool) -> Iterator[ResolvedFlow]:
    for index in range(found.size()):
        flow = found.apply(index)
        kind = flow.getClass().getSimpleName()
        if not kind.startswith("AutoCdc"):
            schema = StructType.fromJson(json.loads(flow.schema().json()))
            refusal = _refusal(jvm, flow) if checks and kind == "StreamingFlow" else None
            target = flow.destinationIdentifier().quotedString()
            yield ResolvedFlow(flow.identifier().unquotedString(), target, schema, refusal)


def _refusal(jvm: Any, flow: Any) -> str | None:
    """Sums without a watermark and the like, which Spark's dry run lets pass."""
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        checker.checkForStreaming(flow.df().queryExecution().analyzed(), append)
    except Py4JJavaError as error:
        return shortened(str(error.java_exception.getMessage()))
    return None
