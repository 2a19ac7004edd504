"""What the user of a notebook sees of a session: no noise of work that went well, and cells that can be interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.conditions import wait_until
from runnel.spark import notebook, session
from runnel.spark.worker_daemon import quieten
from spark.records import numbered, produce

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

RECORDS = 40_000  # more than fits between a worker and Spark


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=1)


PROGRAM = """
import os, sys
from runnel.spark import session

spark = session("local[2]")
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
orders = spark.read.format("runnel").options(**options).load()
print(len(orders.head(1)))
rows = spark.range(1).selectExpr("'v' value", "string(null) topic")
try:
    rows.write.format("runnel").options(**options).mode("append").save()
except Exception as error:
    print("a null topic" in str(error))

def tell(batches):
    os.write(2, b"end of what workers say|")
    yield from batches

spark.range(1).repartition(1).mapInArrow(tell, "id long").collect()
spark._jvm.org.slf4j.LoggerFactory.getLogger("org.apache.spark.util.Utils").error("another error")
"""


@pytest.mark.slow
def test_work_that_went_well_and_errors_that_are_raised_print_nothing(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """Spark's own daemon prints a BrokenPipeError wherever rows are left over, and Spark a failed write four times."""
    produce(bootstrap, topic, numbered(RECORDS))
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["1", "True"]
    # Workers share a pipe: what is behind their last words was said at the end, where Spark kills them.
    said, _, rest = done.stderr.partition("end of what workers say|")
    lines = [line for line in said.splitlines() if "incubator modules" not in line]
    assert lines == []
    assert "ERROR Utils: another error" in rest


def test_an_interrupted_cell_ends_its_jobs_and_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    query = stream.option("checkpointLocation", str(tmp_path)).start()
    try:
        outcome: list[str] = []
        cell = threading.Thread(target=_work, args=(spark, outcome))
        tracker: Any = spark.sparkContext.statusTracker()
        cell.start()
        wait_until(lambda: tracker.getJobIdsForGroup("cell"), "a job of the cell")
        notebook.after_interrupt()
        cell.join()
        assert outcome == ["cancelled"]
        before = query.lastProgress
        wait_until(lambda: query.lastProgress != before, "another batch of the stream")
        assert query.isActive
    finally:
        query.stop()


def _work(spark: SparkSession, outcome: list[str]) -> None:
    def endless(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        threading.Event().wait()
        yield from batches

    spark.sparkContext.setJobGroup("cell", "runs until it is cancelled")
    try:
        spark.range(1).mapInArrow(endless, "id long").collect()
        outcome.append("done")
    except Exception as error:
        outcome.append("cancelled" if "cancelled" in str(error).lower() else str(error))


def test_streams_are_started_in_any_thread_that_has_asked_for_the_session(
    bootstrap: str, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The thread that follows an interrupt is such a one too: Spark finds sources of Python's in an active session."""
    outcome: list[object] = []

    def start() -> None:
        frame = session().readStream.format("rate").load().selectExpr("string(value) value")
        sink = frame.writeStream.format("runnel").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        try:
            sink.option("checkpointLocation", str(tmp_path)).start().stop()
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert outcome == []


class Shell:
    """As much of IPython's as the kernel of a cell has."""

    def __init__(self) -> None:
        self.registered: list[tuple[str, object]] = []
        self.events = self

    def register(self, event: str, function: object) -> None:
        self.registered.append((event, function))


def test_only_kernels_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell()
    for found in (None, shell):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda found=found: found))
        notebook.end_jobs_with_cells()
    ((event, _),) = shell.registered
    assert event == "post_run_cell"


def test_workers_that_spark_closes_say_nothing_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon that plans is Spark's own: its idle workers would print a traceback each, a minute after a query."""
    failures = [BrokenPipeError(), ConnectionResetError(), ValueError("of another kind")]

    def worker(_sock: object, _authenticated: bool) -> int:
        raise failures.pop(0)

    main = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"), worker=worker)
    for _ in range(2):
        quieten(main)
    monkeypatch.setattr(os, "_exit", sys.exit)
    for _ in range(2):
        with pytest.raises(SystemExit, match="1"):
            main.worker(None, True)
    with pytest.raises(ValueError, match="of another kind"):
        main.worker(None, True)
    other = SimpleNamespace(__spec__=None, worker=worker)
    quieten(other)
    assert other.worker is worker
