"""A real standalone cluster from the pip package: one master and two workers, each a JVM of its own on 127.0.0.1."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import psutil

from harness.conditions import wait_until
from harness.process import free_port
from spark.cluster.jvm import START_S, kill_all, start_jvm

WORKERS = 2
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"


class StandaloneCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def start(self) -> StandaloneCluster:
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        self._run("master", MASTER, *where, "--port", str(self._port), ready="I have been elected leader")
        for number in range(WORKERS):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work{number}"))
            self._run(
                f"worker{number}", WORKER, *where, *room, self.address, ready="Successfully registered with master"
            )
        return self

    def _run(self, name: str, main_class: str, *arguments: str, ready: str) -> None:
        self._processes.append(start_jvm(self._folder, name, "spark-class", main_class, *arguments, ready=ready))

    def executors(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in self._processes[1:]:
            below = psutil.Process(process.pid).children(recursive=True)
            found += [one for one in below if _is_executor(one)]
        return found

    def kill_executor(self, chance: random.Random) -> None:
        """The worker starts another one in its place, as the master tells it."""
        victim = chance.choice(wait_until(self.executors, "an executor", START_S))
        victim.kill()
        psutil.wait_procs([victim], timeout=START_S)

    def stop(self) -> None:
        kill_all(self._processes)


def _is_executor(process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and any(EXECUTOR in part for part in process.cmdline())
    except psutil.Error:
        return False
