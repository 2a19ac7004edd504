"""A Spark driver that streams a topic into lake tables and into another topic, in a process that tests can kill.

Run as `python driver_program.py '<Plan as JSON>'`. It starts a query for each sink and starts again those that fail, as
a supervisor would. Out on stdout: `ready`, `restarted <sink>: <why>` and, where the plan is to finish, `done` when all
that is in the topic went through. Killed it is by SIGKILL only.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException

from runnel.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC_SINK = "topic"
WATCH_S = 1
RESTARTS_MAX = 200
STARTS_MAX = 20
LAKE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Plan:
    bootstrap: str
    topic: str
    target: str
    folder: str
    sinks: tuple[str, ...]
    per_trigger: int
    master: str = "local[2,4]"
    finish: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def path(self, sink: str) -> str:
        return f"{self.folder}/{sink}"

    def checkpoint(self, sink: str) -> str:
        return f"{self.folder}/checkpoint-{sink}"


def source(spark: SparkSession, plan: Plan, sink: str) -> DataFrame:
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", plan.bootstrap)
    reader = reader.option("subscribe", plan.topic).option("startingOffsets", "earliest")
    reader = reader.option("maxOffsetsPerTrigger", str(plan.per_trigger)).option("minPartitions", "2")
    return reader.option("kafka.group.id", f"faults-{sink}").load()


def start(spark: SparkSession, plan: Plan, sink: str) -> Any:
    frame = source(spark, plan, sink)
    if sink == TOPIC_SINK:
        rows = frame.selectExpr("concat(partition, ':', offset) key", "value")
        writer = rows.writeStream.format("runnel").option("kafka.bootstrap.servers", plan.bootstrap)
        writer = writer.option("topic", plan.target)
    else:
        writer = frame.select(*LAKE_COLUMNS).writeStream.format("runnel-lake").option("tableFormat", sink)
        writer = writer.option("path", plan.path(sink))
    trigger: dict[str, Any] = {"availableNow": True} if plan.finish else {"processingTime": "0 seconds"}
    named = writer.queryName(sink).option("checkpointLocation", plan.checkpoint(sink))
    return named.trigger(**trigger).start()


def started(spark: SparkSession, plan: Plan, sink: str) -> Any:
    """The query when it is at work, or has failed: Spark gives each Python process ten seconds to come up, which
    several at once may miss on a busy machine."""
    query = start_at_last(spark, plan, sink)
    with contextlib.suppress(StreamingQueryException):
        while query.isActive and query.lastProgress is None and not query.status["message"].startswith("Waiting"):
            query.awaitTermination(WATCH_S)
    return query


def start_at_last(spark: SparkSession, plan: Plan, sink: str) -> Any:
    """Spark asks a Python process for the schema before there is a query, and that one may be killed, or late, too."""
    for _ in range(STARTS_MAX - 1):
        try:
            return start(spark, plan, sink)
        except (PySparkException, Py4JJavaError) as failure:
            complain(f"restarted {sink}: not started", failure)
    return start(spark, plan, sink)


def complain(what: str, failure: Exception | None) -> None:
    say(f"{what}: {str(failure).splitlines()[0] if failure else 'ended'}")
    print(failure, file=sys.stderr, flush=True)


def say(text: str) -> None:
    print(text, flush=True)


def supervise(spark: SparkSession, plan: Plan) -> None:
    running = {sink: started(spark, plan, sink) for sink in plan.sinks}
    say("ready")
    restarts = 0
    while running:
        with contextlib.suppress(StreamingQueryException):  # looked at below
            next(iter(running.values())).awaitTermination(WATCH_S)
        for sink, query in list(running.items()):
            if query.isActive:
                continue
            failure = query.exception()
            if failure is None and plan.finish:
                del running[sink]
                continue
            restarts += 1
            if restarts > RESTARTS_MAX:
                raise RuntimeError(f"{sink} failed {RESTARTS_MAX} times; the last time: {failure}")
            complain(f"restarted {sink}", failure)
            running[sink] = started(spark, plan, sink)
    say("done")


def main() -> None:
    given = json.loads(sys.argv[1])
    plan = Plan(**{**given, "sinks": tuple(given["sinks"])})
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": f"{plan.folder}/spark",
        "spark.sql.warehouse.dir": f"{plan.folder}/warehouse",
    }
    spark = session(plan.master, "runnel-faults", **settings)
    supervise(spark, plan)
    spark.stop()


if __name__ == "__main__":
    main()
