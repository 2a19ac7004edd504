"""Owns the two brokers under test: how each is started on an empty folder, observed and stopped.

In: a data folder. Out: a RunningBroker with its address, CPU and memory. One broker runs at a time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import metadata
from pathlib import Path

from benchmarks import processes
from benchmarks.clients import bare_socket
from benchmarks.kafka_jars import java_executable, kafka_libs, kafka_version

READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 180.0
LOG_TAIL_LINES = 20


class BrokerFailed(Exception):
    """A broker did not start, died, or lost records; the message holds the end of its log."""


class Durability(Enum):
    """What an ack promises, made equal on both brokers."""

    WRITTEN = "no fsync on either"
    SYNCED = "fsync before the ack on both"


class RunningBroker:
    """One broker process; a context manager that never leaves it behind."""

    def __init__(self, name: str, command: list[str], bootstrap: str, log_path: Path) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.log_path = log_path
        with log_path.open("ab") as log:
            self.started_at_s = time.perf_counter()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        self.check_alive()
        return processes.cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        self.check_alive()
        return processes.resident_bytes(self.pid)

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise BrokerFailed(f"{self.name} exited with {self._process.returncode}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def wait_until_answering(self) -> None:
        try:
            bare_socket.wait_until_answering(self.bootstrap, READY_TIMEOUT_S, self.check_alive)
        except TimeoutError as problem:
            raise BrokerFailed(f"{self.name}: {problem}\n{self.log_tail()}") from problem
        self.check_alive()

    def wait_for_first_ack(self, topic: str) -> float:
        """Seconds from the start of the process to the first acknowledged record."""
        try:
            bare_socket.first_ack(self.bootstrap, topic, READY_TIMEOUT_S, self.check_alive)
        except TimeoutError as problem:
            raise BrokerFailed(f"{self.name}: {problem}\n{self.log_tail()}") from problem
        elapsed_s = time.perf_counter() - self.started_at_s
        self.check_alive()
        return elapsed_s

    def stop(self) -> float:
        """A clean stop; returns how long it took."""
        began_s = time.perf_counter()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise BrokerFailed(f"{self.name} did not stop within {STOP_TIMEOUT_S:.0f} s") from None
        return time.perf_counter() - began_s

    def kill(self) -> None:
        """End the whole session that this broker leads (its own processes, nobody else's)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> RunningBroker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            try:
                self.stop()
            finally:
                self.kill()


class Peer(ABC):
    """A kind of broker."""

    name: str
    label: str

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Make an empty data folder ready for a first start (untimed)."""

    @abstractmethod
    def start(self, folder: Path, settings: Mapping[str, str] | None = None) -> RunningBroker:
        """Start on a prepared folder, with broker configs other than the defaults."""

    @abstractmethod
    def topic_config(self, durability: Durability, acks: str) -> dict[str, str]:
        """The topic settings that make an ack promise the same on both brokers."""


class Kafka(Peer):
    """Apache Kafka as its distribution starts it: combined roles, default heap and JVM flags."""

    name = "kafka"
    label = "Kafka"
    # kafka-server-start.sh and kafka-run-class.sh, as they set these when the environment says nothing.
    heap = ("-Xmx1G", "-Xms1G")
    jvm = (
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
        "-Dcom.sun.management.jmxremote",
        "-Dcom.sun.management.jmxremote.authenticate=false",
        "-Dcom.sun.management.jmxremote.ssl=false",
    )
    log_config = Path(__file__).with_name("java") / "log4j2.xml"

    def __init__(self) -> None:
        self._java = java_executable()
        self._classpath = f"{kafka_libs()}/*"

    def version(self) -> str:
        return f"Apache Kafka {kafka_version()}"

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._write_properties(folder, free_port(), free_port())
        cluster_id = self._run("kafka.tools.StorageTool", "random-uuid").strip().splitlines()[-1]
        arguments = ("format", "--standalone", "-t", cluster_id, "-c", str(folder / "server.properties"))
        self._run("kafka.tools.StorageTool", *arguments)

    def _write_properties(self, folder: Path, port: int, controller_port: int) -> None:
        # config/server.properties of the distribution, without the lines that repeat the code's own defaults.
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={folder / 'data'}",
            "offsets.topic.replication.factor=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
        ]
        (folder / "server.properties").write_text("\n".join(lines) + "\n")
        (folder / "address").write_text(f"127.0.0.1:{port}")

    def _run(self, *arguments: str) -> str:
        command = [self._java, "-Xmx256M", "-cp", self._classpath, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"{' '.join(arguments[:2])} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, folder: Path, settings: Mapping[str, str] | None = None) -> RunningBroker:
        logging = (
            f"-Xlog:gc*:file={folder / 'gc.log'}:time,tags:filecount=10,filesize=100M",
            f"-Dkafka.logs.dir={folder}",
            f"-Dlog4j2.configurationFile={self.log_config}",
        )
        command = [self._java, *self.heap, *self.jvm, *logging, "-cp", self._classpath]
        command += ["kafka.Kafka", str(folder / "server.properties")]
        command += [part for key, value in (settings or {}).items() for part in ("--override", f"{key}={value}")]
        return RunningBroker(self.label, command, (folder / "address").read_text(), folder / "console.log")

    def topic_config(self, durability: Durability, acks: str) -> dict[str, str]:
        return {"flush.messages": "1"} if durability is Durability.SYNCED else {}


class Runnel(Peer):
    """Runnel as `runnel serve` starts it."""

    name = "runnel"
    label = "Runnel"

    def version(self) -> str:
        return f"Runnel {metadata.version('runnel')}"

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, folder: Path, settings: Mapping[str, str] | None = None) -> RunningBroker:
        address = f"127.0.0.1:{free_port()}"
        runnel = Path(sys.executable).with_name("runnel")
        command = [str(runnel), "serve", "--data-dir", str(folder / "data"), "--listen", address]
        command += [part for key, value in (settings or {}).items() for part in ("--set", f"{key}={value}")]
        return RunningBroker(self.label, command, address, folder / "console.log")

    def topic_config(self, durability: Durability, acks: str) -> dict[str, str]:
        if durability is Durability.WRITTEN:
            return {"acks.all.flush": "false"}
        return {} if acks == "all" else {"flush.messages": "1"}


PEERS: dict[str, type[Peer]] = {"kafka": Kafka, "runnel": Runnel}


def free_port() -> int:
    """A port that nobody has now; both brokers need one before they start, so the probe can knock early."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def scratch_folder(root: Path, name: str) -> Iterator[Path]:
    """A folder for one broker's life, removed after it."""
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
