"""Owns running Apache Kafka's own Java classes from tests, or a skip that says what is missing.

The jars come from `benchmarks/kafka_jars.py` (RUNNEL_KAFKA_LIBS, else a cache that Maven fills once).
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))

from benchmarks.kafka_jars import KafkaUnavailable, java_executable, kafka_libs  # noqa: E402

HEAP = "-Xmx256M"  # what kafka-run-class gives a tool


@cache
def _java_and_classpath() -> tuple[str, str] | str:
    """The command and class path, or the reason why there are none (asked once per test run)."""
    try:
        return java_executable(), f"{kafka_libs()}/*"
    except KafkaUnavailable as problem:
        return str(problem)


def java_command(main_class: str, *arguments: str) -> list[str]:
    """The command line that runs one of Kafka's classes; skips the test where there is no Java."""
    found = _java_and_classpath()
    if isinstance(found, str):
        pytest.skip(found)
    java, classpath = found
    return [java, HEAP, "-cp", classpath, main_class, *arguments]


def run_java(
    main_class: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end; the caller judges the return code and the text."""
    command = java_command(main_class, *arguments)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
