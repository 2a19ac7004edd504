"""Spark's own servers from the pip package, each a JVM of its own, until they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyspark

from harness.conditions import wait_until
from runnel.spark.java import java_home

START_S = 180


def start_jvm(folder: Path, name: str, *command: str, ready: str, memory: str = "256m") -> subprocess.Popen[bytes]:
    """Runs a program of Spark's bin folder, with its arguments; answers when its log says `ready`."""
    home = Path(pyspark.__file__).parent
    log = folder / f"{name}.log"
    environ = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / command[0]), *command[1:]],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=folder,
        )
    try:
        wait_until(lambda: _says(process, log, ready), f"{name}: {ready}", START_S)
    except BaseException:
        kill_all([process])
        raise
    return process


def kill_all(processes: list[subprocess.Popen[bytes]]) -> None:
    """Them, and all that they have started."""
    everyone = [psutil.Process(process.pid) for process in processes if process.poll() is None]
    below = [child for one in everyone for child in one.children(recursive=True)]
    for one in [*everyone, *below]:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    for process in processes:
        process.wait()


def _says(process: subprocess.Popen[bytes], log: Path, text: str) -> bool:
    written = log.read_text(errors="replace")
    if process.poll() is not None:
        raise AssertionError(f"it ended with {process.returncode}:\n{written[-4000:]}")
    return text in written
