"""Owns what a workload is handed: a session with both connectors, the broker, a clock, topics, and where figures go."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import RunningBroker
from benchmarks.results import Results
from benchmarks.spark.cpu import CpuMeter
from benchmarks.spark.sizes import Sizes
from benchmarks.topics import Topics

OURS, THEIRS = "runnel", "kafka"
PARTITIONS = 2
TOPIC_CONFIG = {
    "acks.all.flush": "false",  # acks=all means what it means on one Kafka broker: the disk is not what is measured
    "segment.bytes": str(16 << 20),  # sealed segments are there also where records are few, for direct reads
}
QUERY_S_MAX = 600


class Turn(NamedTuple):
    """What one run of one connector took."""

    wall_s: float
    spark_cpu_s: float
    broker_cpu_s: float


class WrongResult(Exception):
    """A query did not bring what went in."""


@dataclass(slots=True)
class SparkBench:
    """One run of the suite. `tell` shows what is being done now; `done` is called after each line of a table."""

    spark: Any
    broker: RunningBroker
    cpu: CpuMeter
    folder: Path
    sizes: Sizes
    results: Results
    tell: Callable[[str], None]
    done: Callable[[], None]
    filled: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def data_dir(self) -> str:
        return str(self.folder / "data")

    @property
    def topics(self) -> Topics:
        return Topics(self.broker.bootstrap)

    def timed(self, work: Callable[[], object]) -> Turn:
        spark_s, broker_s = self.cpu.seconds(), self.broker.cpu_seconds()
        began_s = time.perf_counter()
        work()
        wall_s = time.perf_counter() - began_s
        return Turn(wall_s, self.cpu.seconds() - spark_s, self.broker.cpu_seconds() - broker_s)

    def new_name(self, what: str) -> str:
        return f"{what}-{next(self._numbers)}"

    @contextlib.contextmanager
    def fresh_topic(self) -> Iterator[str]:
        """A new topic, deleted afterwards."""
        name = self.new_name("topic")
        self.topics.create(name, PARTITIONS, TOPIC_CONFIG)
        try:
            yield name
        finally:
            self.topics.delete(name)

    @contextlib.contextmanager
    def fresh_folder(self) -> Iterator[Path]:
        """A name for a folder that is not there yet, and will not be there afterwards."""
        path = self.folder / self.new_name("folder")
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def expect(self, topic: str, records: int) -> None:
        found = self.topics.record_count(topic, PARTITIONS)
        if found != records:
            raise WrongResult(f"{found} records arrived instead of {records}")

    # Queries ----------------------------------------------------------------------------------------------------

    def read(self, connector: str, topic: str, options: dict[str, str] | None = None) -> Any:
        """A reader of the whole topic, on which `schema` and `load` are still to be called."""
        return self._from(self.spark.read, connector, topic, options)

    def read_stream(self, connector: str, topic: str, options: dict[str, str] | None = None) -> Any:
        return self._from(self.spark.readStream, connector, topic, {"startingOffsets": "earliest", **(options or {})})

    def _from(self, reader: Any, connector: str, topic: str, options: dict[str, str] | None) -> Any:
        reader = reader.format(connector).option("kafka.bootstrap.servers", self.broker.bootstrap)
        return reader.option("subscribe", topic).options(**(options or {}))

    def write(self, connector: str, frame: Any, topic: str, options: dict[str, str] | None = None) -> None:
        writer = frame.write.format(connector).option("kafka.bootstrap.servers", self.broker.bootstrap)
        writer.options(**(options or {})).option("topic", topic).mode("append").save()

    def to_topic(self, connector: str, frame: Any, topic: str) -> Any:
        """The writer of a stream into a topic."""
        writer = frame.writeStream.format(connector).option("kafka.bootstrap.servers", self.broker.bootstrap)
        return writer.option("topic", topic)

    def drain(self, writer: Any, records: int) -> None:
        """Run a stream over all that is there now, and see that it was all of it."""
        with self.fresh_folder() as checkpoint:
            query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
            try:
                if not query.awaitTermination(QUERY_S_MAX):
                    raise WrongResult(f"the stream has not ended within {QUERY_S_MAX} s")
                read = sum(progress.numInputRows for progress in query.recentProgress)
            finally:
                query.stop()
        if read != records:
            raise WrongResult(f"the stream read {read} records instead of {records}")


def to_noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()
