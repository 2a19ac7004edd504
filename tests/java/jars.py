"""Java and Kafka's jars for these tests: found once, compiled once, or a plain reason to skip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks.kafka_jars import KafkaUnavailable, java_executable, kafka_libs

# A short-lived JVM is faster with one compiler; the heap is small because the machine is shared.
JVM_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
RUN_SECONDS = 300.0


class Java(NamedTuple):
    """What is needed to run a class of Kafka's, or one of ours."""

    executable: str
    libs: Path

    def run(self, main_class: str, *arguments: str, stdin: str = "", classes: Path | None = None) -> Finished:
        classpath = f"{self.libs}/*" if classes is None else f"{classes}:{self.libs}/*"
        command = [self.executable, *JVM_FLAGS, "-cp", classpath, main_class, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        return Finished(done.returncode, done.stdout, done.stderr)

    def compile(self, source: Path, target: Path) -> None:
        compiler = shutil.which("javac")
        if compiler is None:
            pytest.skip("no javac found: a Java development kit is needed to compile the test's client")
        command = [compiler, "-cp", f"{self.libs}/*", "-d", str(target), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{source.name} does not compile:\n{done.stderr}")


class Finished(NamedTuple):
    """How a Java process ended."""

    code: int
    stdout: str
    stderr: str

    def check(self) -> str:
        """Its stdout, if it ended well."""
        if self.code != 0:
            raise AssertionError(f"exit code {self.code}\nstdout: {self.stdout}\nstderr: {self.stderr}")
        return self.stdout


def find_java() -> Java:
    """Skips, with the reason, where Java or the jars are missing."""
    try:
        return Java(java_executable(), kafka_libs(fetch=False))
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
