"""Rows per second and CPU per row: batch scan, stream and sink, through our connector and through Spark's own.

In: how many records. Out: a table. One broker (Runnel), one local Spark on all cores; the connectors take turns, so
that both meet the same neighbours. CPU is that of Spark's JVM with its Python workers, and of the broker.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import processes
from benchmarks.kafka_jars import connector_libs
from benchmarks.peers import Runnel, RunningBroker

RECORDS_DEFAULT = 4_000_000
PARTITIONS = 2
TURNS = 3
HEAP = "2g"
OURS, THEIRS = "runnel", "kafka"


class Turn(NamedTuple):
    wall_s: float
    spark_cpu_s: float
    broker_cpu_s: float


class Bench:
    def __init__(self, spark: Any, broker: RunningBroker, folder: Path, records: int) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.records = records
        self.numbers = 0

    def fill(self, topic: str) -> None:
        """Keys of 8 bytes, values of 100, by our own sink."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
        frame = self.spark.range(self.records).selectExpr(
            "lpad(string(id % 1000000), 8, '0') key",
            "rpad(concat('value ', string(id), ' of the benchmark '), 100, string(id * 7919)) value",
            f"int(id % {PARTITIONS}) partition",
        )
        self.write(OURS, frame, topic)

    def write(self, connector: str, frame: Any, topic: str) -> None:
        writer = frame.write.format(connector).option("kafka.bootstrap.servers", self.broker.bootstrap)
        writer.option("topic", topic).mode("append").save()

    def read(self, connector: str, topic: str, **options: str) -> Any:
        reader = self.spark.read.format(connector).option("kafka.bootstrap.servers", self.broker.bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    # What is measured, each as a function of the connector -------------------------------------------------------

    def count(self, connector: str) -> None:
        if self.read(connector, "bench").count() != self.records:
            raise RuntimeError(f"{connector} does not count {self.records} records")

    def scan(self, connector: str) -> None:
        self.read(connector, "bench").write.format("noop").mode("overwrite").save()

    def direct(self, connector: str) -> None:
        options = {"runnel.data.dir": str(self.folder / "data")} if connector == OURS else {}
        self.read(connector, "bench", **options).write.format("noop").mode("overwrite").save()

    def stream(self, connector: str) -> None:
        reader = self.spark.readStream.format(connector).option("kafka.bootstrap.servers", self.broker.bootstrap)
        reader = reader.option("subscribe", "bench").option("startingOffsets", "earliest")
        frame = reader.option("maxOffsetsPerTrigger", str(max(1, self.records // 4))).load()
        self.numbers += 1
        checkpoint = str(self.folder / f"checkpoint-{self.numbers}")
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    def sink(self, connector: str) -> None:
        frame = self.spark.range(self.records // 4).selectExpr(
            "lpad(string(id % 1000000), 8, '0') key",
            "rpad(concat('value ', string(id), ' of the benchmark '), 100, string(id * 7919)) value",
        )
        self.numbers += 1
        self.write(connector, frame, f"sink-{self.numbers}")


def main(arguments: list[str]) -> None:
    from runnel.spark import session

    records = int(arguments[0]) if arguments else RECORDS_DEFAULT
    jars = ",".join(str(jar) for jar in connector_libs().glob("*.jar"))
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as scratch:
        folder = Path(scratch)
        peer = Runnel()
        peer.prepare(folder)
        with peer.start(folder) as broker:
            broker.wait_until_answering()
            spark = session(**{"spark.driver.memory": HEAP, "spark.jars": jars})
            try:
                run(Bench(spark, broker, folder, records))
            finally:
                spark.stop()


def run(bench: Bench) -> None:
    bench.fill("bench")
    rows = bench.records
    works: list[tuple[str, Callable[[str], None], int]] = [
        ("count", bench.count, rows),
        ("scan to noop", bench.scan, rows),
        ("scan, direct", bench.direct, rows),
        ("stream, 4 triggers", bench.stream, rows),
        ("sink", bench.sink, rows // 4),
    ]
    print(f"{rows} records of 8 + 100 bytes in {PARTITIONS} partitions; best of {TURNS}; CPU in us per row")
    print(f"{'':20}{'':8}{'M rows/s':>10}{'Spark CPU':>11}{'broker CPU':>12}")
    for name, work, count in works:
        turns: dict[str, list[Turn]] = {OURS: [], THEIRS: []}
        for connector in (OURS, THEIRS):
            measured(bench, work, connector)  # the first is for the JVM to warm up
        for _ in range(TURNS):
            for connector in (OURS, THEIRS):
                turns[connector].append(measured(bench, work, connector))
        for connector, taken in turns.items():
            report(name, connector, taken, count)


def measured(bench: Bench, work: Callable[[str], None], connector: str) -> Turn:
    jvm = bench.spark.sparkContext._gateway.proc.pid
    spark_s, broker_s = processes.cpu_seconds(jvm), bench.broker.cpu_seconds()
    began_s = time.perf_counter()
    work(connector)
    wall_s = time.perf_counter() - began_s
    return Turn(wall_s, processes.cpu_seconds(jvm) - spark_s, bench.broker.cpu_seconds() - broker_s)


def report(name: str, connector: str, turns: list[Turn], count: int) -> None:
    best_s = min(turn.wall_s for turn in turns)
    spark_us = statistics.median(turn.spark_cpu_s for turn in turns) / count * 1e6
    broker_us = statistics.median(turn.broker_cpu_s for turn in turns) / count * 1e6
    print(f"{name:20}{connector:8}{count / best_s / 1e6:10.2f}{spark_us:11.2f}{broker_us:12.2f}", flush=True)
