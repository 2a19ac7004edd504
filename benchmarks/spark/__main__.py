"""The command: `python -m benchmarks.spark` measures our connector beside Spark's own, prints and stores the tables.

`make bench-spark` runs all of it; `--only scan,sink` a part; `--quick` tries the harness in a few minutes.
Exit codes: 0 measured, 1 a row failed, 2 wrong arguments or another run is active, 3 the connector cannot be had here.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from benchmarks import machine, report
from benchmarks.kafka_jars import CONNECTOR_POM, EXIT_UNAVAILABLE, KafkaUnavailable, connector_libs, kafka_version
from benchmarks.peers import Runnel
from benchmarks.results import Results
from benchmarks.spark import growth, lake, latency, scan, sink, stream
from benchmarks.spark.bench import SparkBench
from benchmarks.spark.cpu import CpuMeter
from benchmarks.spark.sizes import FULL, QUICK, Sizes
from benchmarks.spark.storing import SPARK, Store
from benchmarks.spark.turns import first_line
from benchmarks.surroundings import AlreadyRunning, data_root, only_run, progress_display

EXIT_REFUSED = 2
HEAP = "2g"


class Workload(NamedTuple):
    name: str
    about: str
    run: Callable[[SparkBench], None]
    lines: Callable[[Sizes], int]
    """How many times it calls `done`."""


WORKLOADS = (
    Workload("scan", "batch scans: columns, compressions, from the broker and from its files", scan.run, scan.lines),
    Workload("stream", "AvailableNow streams to noop and from topic to topic", stream.run, stream.lines),
    Workload("sink", "a DataFrame and a stream of files into a topic", sink.run, sink.lines),
    Workload("lake", "a topic into Delta and Parquet, batch and stream", lake.run, lake.lines),
    Workload("latency", "produce to sink, for each processing-time trigger", latency.run, latency.lines),
    Workload("growth", "the same scan over 1, 10 and 100 M records", growth.run, growth.lines),
)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    rows = "\n".join(f"  {workload.name:10} {workload.about}" for workload in WORKLOADS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description="Measure Spark with our connector beside Spark with its own, on one Runnel broker.",
        epilog=f"rows:\n{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="ROW,ROW", help="run these rows only")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the harness; not for figures")
    parser.add_argument("--write", action="store_true", help="store the results and rewrite docs/benchmarks.md")
    parser.add_argument("--data-root", type=Path, help="where data goes, 20 GB (default: the user's cache folder)")
    parsed = parser.parse_args(arguments)
    names = [name for name in parsed.only.split(",") if name]
    for name in names:
        if name not in {workload.name for workload in WORKLOADS}:
            parser.error(f"unknown row '{name}': choose from {', '.join(workload.name for workload in WORKLOADS)}")
    parsed.workloads = [workload for workload in WORKLOADS if not names or workload.name in names]
    if parsed.write and parsed.quick:
        parser.error("--write needs the full sizes")
    return parsed


def versions() -> list[str]:
    connector = kafka_version(CONNECTOR_POM, "spark.connector.version")
    return [
        Runnel().version(),
        f"PySpark {metadata.version('pyspark')} (heap {HEAP})",
        f"spark-sql-kafka-0-10 {connector} with kafka-clients {kafka_version(CONNECTOR_POM)}",
        f"pyarrow {metadata.version('pyarrow')}",
    ]


@contextmanager
def session(folder: Path) -> Iterator[Any]:
    """Spark with both connectors: what runnel.spark.session() sets, a heap, and folders on the disk under test."""
    from runnel.spark import session as make_session

    settings = {
        "spark.driver.memory": HEAP,
        "spark.jars": ",".join(str(jar) for jar in sorted(connector_libs().glob("*.jar"))),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with stderr_to(folder / "spark.log"):
        spark = make_session(app_name="bench-spark", **settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """What the JVM that is started meanwhile says, and its Python workers, must not go across the progress bar."""
    kept = os.dup(sys.stderr.fileno())
    with path.open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    try:
        yield
    finally:
        os.dup2(kept, sys.stderr.fileno())
        os.close(kept)


def measure(arguments: argparse.Namespace, console: Console, folder: Path, save: Callable[[Results], None]) -> Results:
    sizes, results, peer = QUICK if arguments.quick else FULL, Results(), Runnel()
    with ExitStack() as stack:
        tell, advance, progress = stack.enter_context(progress_display(console))
        progress.update(progress.task_ids[0], total=sum(row.lines(sizes) for row in arguments.workloads))
        tell("starting a broker and Spark")
        peer.prepare(folder)
        broker = stack.enter_context(peer.start(folder))
        broker.wait_until_answering()
        spark = stack.enter_context(session(folder))
        cpu = stack.enter_context(CpuMeter(spark.sparkContext._gateway.proc.pid))

        def done() -> None:
            advance()
            save(results)

        bench = SparkBench(spark, broker, cpu, folder, sizes, results, tell, done)
        for workload in arguments.workloads:
            run_noting_failure(workload, bench)
            save(results)
    return results


def run_noting_failure(workload: Workload, bench: SparkBench) -> None:
    """A workload that cannot go on is noted; those after it are still run."""
    try:
        workload.run(bench)
    except Exception as problem:  # whatever Spark, a broker or a disk may come up with
        bench.results.failures.append(f"{workload.name}: {first_line(problem)}")


def main(argv: list[str]) -> int:
    arguments = parse_arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else 140)
    command = shlex.join(["python", "-m", "benchmarks.spark", *argv])
    try:
        connector_libs()
        with only_run(), data_root(arguments.data_root) as root:
            if machine.is_busy():
                console.print("this machine is busy: the figures will be blurred", style="yellow")
            store = Store(machine.describe(root, versions()), command, time.monotonic())
            results = measure(arguments, console, root, store.save if arguments.write else lambda _: None)
    except AlreadyRunning as problem:
        print(problem, file=sys.stderr)
        return EXIT_REFUSED
    except KafkaUnavailable as problem:
        print(problem, file=sys.stderr)
        return EXIT_UNAVAILABLE
    report.show(console, results, SPARK)
    for line in report.behind(results):
        console.print(f"behind: {line}", highlight=False, markup=False)
    return 1 if results.failures else 0


if __name__ == "__main__":
    # An ordinary exit, so that Spark and the broker are stopped and their data removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
