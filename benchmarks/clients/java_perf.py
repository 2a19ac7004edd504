"""Owns running Kafka's own ProducerPerformance and ConsumerPerformance and reading the figures they print."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from string import ascii_uppercase

from benchmarks.clients.rdkafka import ClientFailed
from benchmarks.kafka_jars import cache_dir, java_executable, kafka_libs

RUN_TIMEOUT_S = 300
PAYLOADS = 1000
# kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh, and what kafka-run-class.sh adds to them.
JVM = (
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SENT = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec")
STEADY = re.compile(r"^(\d+) steady state records sent, ([\d.]+) records/sec")


class JavaPerf:
    """Kafka's perf tools, on the same jars as the peer broker."""

    def __init__(self) -> None:
        self._java = java_executable()
        self._classpath = f"{kafka_libs()}/*"

    def produce(self, bootstrap: str, topic: str, *, count: int, size_bytes: int, settings: dict[str, str]) -> float:
        """Records per second once the client's JVM is warm (its first quarter is left out of the figure)."""
        lines = self._run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--num-records", str(count), "--throughput", "-1"),
            *("--payload-file", str(_payload_file(size_bytes)), "--warmup-records", str(count // 4)),
            *("--command-property", *(f"{name}={value}" for name, value in settings.items())),
        )
        sent = [match for line in lines if (match := SENT.match(line))]
        steady = [match for line in lines if (match := STEADY.match(line))]
        if not sent or int(sent[-1].group(1)) != count:
            raise ClientFailed("ProducerPerformance did not send every record:\n" + "\n".join(lines[-10:]))
        return float((steady or sent)[-1].group(2))

    def consume(self, bootstrap: str, topic: str, *, count: int) -> float:
        """Records per second while fetching, which leaves out the time to join the group."""
        lines = self._run(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--num-records", str(count), "--hide-header", "--timeout", "15000"),
        )
        rows = [line.split(", ") for line in lines if line.count(", ") == 9]
        if not rows or int(rows[-1][4]) != count:
            raise ClientFailed("ConsumerPerformance did not get every record:\n" + "\n".join(lines[-10:]))
        return float(rows[-1][9])

    def _run(self, main_class: str, *arguments: str) -> list[str]:
        command = [self._java, *JVM, "-cp", self._classpath, main_class, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ClientFailed(f"{main_class} did not finish within {RUN_TIMEOUT_S} s") from None
        lines = (done.stdout + done.stderr).splitlines()
        if done.returncode != 0:
            raise ClientFailed(f"{main_class} exited with {done.returncode}:\n" + "\n".join(lines[-10:]))
        return lines


def _payload_file(size_bytes: int) -> Path:
    """Lines of letters to pick records from: the tool's own way spends most of a core on random bytes."""
    path = cache_dir() / "bench" / f"payloads-{size_bytes}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        letters = random.Random(size_bytes)
        lines = ("".join(letters.choices(ascii_uppercase, k=size_bytes)) for _ in range(PAYLOADS))
        path.write_text("\n".join(lines))
    return path
