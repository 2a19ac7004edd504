"""A batch job for a cluster, as a user writes it: a topic is read, counted and copied into another and into a table.

Run as `python batch_program.py MASTER BOOTSTRAP TOPIC TARGET TABLE`. Out: one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runnel.spark import session

if TYPE_CHECKING:
    import pyarrow as pa


def main() -> None:
    master, bootstrap, topic, target, table = sys.argv[1:]
    spark = session(master, "runnel-batch", **{"spark.executor.memory": "1g", "spark.driver.memory": "1g"})

    def with_processes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The process that runs Python's part of the task belongs to one executor: its grandparent is the JVM."""
        import psutil
        import pyarrow

        executor = next(one.pid for one in psutil.Process().parents() if one.name() == "java")
        for batch in batches:
            pids = [pyarrow.array([pid] * batch.num_rows, pyarrow.int64()) for pid in (os.getpid(), executor)]
            yield pyarrow.record_batch([batch.column("offset"), *pids], names=["offset", "pid", "executor"])

    reader = spark.read.format("runnel").option("kafka.bootstrap.servers", bootstrap).option("minPartitions", "8")
    rows = reader.option("subscribe", topic).load()
    total, offsets = rows.selectExpr("count(*)", "sum(offset)").collect()[0]
    ran = (
        rows.mapInArrow(with_processes, "offset long, pid long, executor long").select("executor").distinct().collect()
    )
    rows.select("key", "value").write.format("runnel").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", target
    ).mode("append").save()
    lake = rows.select("key", "value", "topic", "partition", "offset", "timestamp").write.format("runnel-lake")
    lake.mode("append").save(table)
    print(
        json.dumps({"total": total, "offsets": offsets, "executors": sorted(row.executor for row in ran)}), flush=True
    )
    spark.stop()


if __name__ == "__main__":
    main()
