"""Modules that a worker of Spark has loaded are frozen once, after its first task: Spark collects after every one."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

SETTLE_TWICE = """
import gc
from runnel.spark.settling import settle
settle("reading")
frozen = gc.get_freeze_count()
assert frozen > 0
later = [[number] for number in range(1000)]
settle("reading")
assert gc.get_freeze_count() == frozen, "again"
settle("writing")
assert gc.get_freeze_count() >= frozen + len(later), "other work brings other modules"
"""
READ_NOTHING = """
import gc
import pyarrow as pa
from runnel.spark.reading.task import read_plan, read_task
from runnel.spark.source_options import parse_source_options
options = parse_source_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "topic"})
batches = read_task(read_plan(options), (), pa.schema([pa.field("value", pa.binary())]))
assert gc.get_freeze_count() == 0
assert list(batches) == []
assert gc.get_freeze_count() > 0
"""


@pytest.mark.parametrize("program", [SETTLE_TWICE, READ_NOTHING], ids=["once per kind of work", "after a task"])
def test_a_process_settles(program: str) -> None:
    """In a process of its own: what is frozen stays so."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
