"""A small Apache Kafka process for tests that put it beside Runnel; skips where there is no Java or no Kafka.

In: a folder and settings by Kafka's names. Out: a `RunningBroker` that answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.kafka_jars import KafkaUnavailable
from benchmarks.peers import Kafka, RunningBroker, free_port

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class SmallKafka(Kafka):
    """Settings of the test's own, a small heap, and no Eligible Leader Replicas: Runnel does not have them, and they
    change what Kafka shows and takes for min.insync.replicas."""

    heap = ("-Xmx384M", "-XX:TieredStopAtLevel=1")

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._settings = settings

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._write_properties(folder, free_port(), free_port())
        properties = folder / "server.properties"
        with properties.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in self._settings.items())
        arguments = ("--standalone", "-t", CLUSTER_ID, "-c", str(properties))
        self._run("kafka.tools.StorageTool", "format", "--feature", "eligible.leader.replicas.version=0", *arguments)


@contextmanager
def running_small_kafka(folder: Path, settings: Mapping[str, str]) -> Iterator[RunningBroker]:
    try:
        kafka = SmallKafka(settings)
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    kafka.prepare(folder)
    with kafka.start(folder) as broker:
        broker.wait_until_answering()
        yield broker
