"""What Spark's analysis makes of a graph: the columns of every flow, in Python or SQL, behind whatever it reads.

In: a graph that resolves, and the JVM of ours that holds it: Spark Connect tells nobody of this, so a server elsewhere
cannot be asked. Out: flows with their schemas. Nothing runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


@dataclass(frozen=True, slots=True)
class ResolvedFlow:
    """`target`: a sink's name, or a table's, as Spark reads it."""

    name: str
    target: str
    schema: StructType


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
            return list(_flows(registered.toDataflowGraph().resolve(True).resolvedFlows()))
        finally:
            spark_session.clearActiveSession()
    except (Py4JError, TypeError):  # the latter: a name that is no class there cannot be called
        return None


def _flows(found: Any) -> Iterator[ResolvedFlow]:
    for index in range(found.size()):
        flow = found.apply(index)
        if not flow.getClass().getSimpleName().startswith("AutoCdc"):
            schema = StructType.fromJson(json.loads(flow.schema().json()))
            yield ResolvedFlow(flow.identifier().unquotedString(), flow.destinationIdentifier().quotedString(), schema)
