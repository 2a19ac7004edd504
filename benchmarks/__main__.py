"""The command: `python -m benchmarks` measures Runnel against Apache Kafka, prints and stores the tables.

`make bench` runs all of it; `--only startup,latency` a part; `--quick` tries the harness in a minute or two.
Exit codes: 0 measured, 1 a workload failed, 2 wrong arguments or another run is active, 3 Kafka cannot be run here.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import machine, report
from benchmarks.clients.rdkafka import Rdkafka
from benchmarks.kafka_jars import EXIT_UNAVAILABLE, KafkaUnavailable
from benchmarks.peers import PEERS, Peer
from benchmarks.results import Results
from benchmarks.runner import Runner
from benchmarks.sizes import FULL, QUICK
from benchmarks.surroundings import AlreadyRunning, data_root, only_run, progress_display
from benchmarks.workloads.kinds import Workload
from benchmarks.workloads.registry import WORKLOADS, chosen

EXIT_REFUSED = 2
STORED = Path(__file__).with_name("results.json")
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    rows = "\n".join(f"  {workload.name:18} {workload.about}" for workload in WORKLOADS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Runnel against Apache Kafka on this machine.",
        epilog=f"rows:\n{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="ROW,ROW", help="run these rows only")
    parser.add_argument("--brokers", default="kafka,runnel", help="kafka, runnel or both (the default)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the harness; not for figures")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", action="store_true", help="store the results and rewrite docs/benchmarks.md")
    parser.add_argument("--data-root", type=Path, help="where data dirs go (default: the user's cache folder)")
    parsed = parser.parse_args(arguments)
    parsed.only = [name for name in parsed.only.split(",") if name]
    parsed.brokers = [name for name in parsed.brokers.split(",") if name]
    if not parsed.brokers or any(name not in PEERS for name in parsed.brokers):
        parser.error(f"--brokers: choose from {', '.join(PEERS)}")
    try:
        parsed.workloads = chosen(parsed.only)
    except ValueError as problem:
        parser.error(str(problem))
    if parsed.write and (parsed.quick or len(parsed.brokers) < 2):
        parser.error("--write needs the full sizes and both brokers")
    return parsed


def measure(arguments: argparse.Namespace, console: Console, root: Path) -> Results:
    peers: list[Peer] = [PEERS[name]() for name in arguments.brokers]
    workloads: tuple[Workload, ...] = arguments.workloads
    with progress_display(console) as (tell, done, progress):
        runner = Runner(peers, QUICK if arguments.quick else FULL, root, tell, done)
        progress.update(progress.task_ids[0], total=runner.steps(workloads))
        results = runner.run(workloads)
    results.stamp(datetime.now(UTC).strftime("%Y-%m-%d"), machine.source_commit())
    return results


def store(results: Results, about: dict[str, str], command: str) -> Results:
    """Merge with what earlier runs stored, so that measuring one row again keeps the others."""
    merged = Results.load(STORED)
    merged.merge(results)
    merged.failures = results.failures
    document = {"machine": about, "command": command, **merged.to_json()}
    STORED.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    report.rewrite(DOCUMENT, report.markdown(merged, about, command))
    return merged


def main(argv: list[str]) -> int:
    arguments = parse_arguments(argv)
    began_s = time.monotonic()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 140)
    command = shlex.join(["python", "-m", "benchmarks", *argv])
    try:
        with only_run(), data_root(arguments.data_root) as root:
            if machine.is_busy():
                console.print("this machine is busy: the figures will be blurred", style="yellow")
            versions = [PEERS[name]().version() for name in arguments.brokers] + [Rdkafka().describe()]
            about = machine.describe(root, versions)
            results = measure(arguments, console, root)
            about["Duration"] = f"{(time.monotonic() - began_s) / 60:.0f} minutes"
    except AlreadyRunning as problem:
        print(problem, file=sys.stderr)
        return EXIT_REFUSED
    except KafkaUnavailable as problem:
        print(f"{problem} (`--brokers runnel` measures Runnel alone)", file=sys.stderr)
        return EXIT_UNAVAILABLE
    if arguments.json:
        print(json.dumps({"machine": about, "command": command, **results.to_json()}, ensure_ascii=False))
    else:
        report.show(console, results)
    if arguments.write:
        for line in report.behind(store(results, about, command)):
            console.print(f"behind: {line}", highlight=False, markup=False)
    return 1 if results.failures else 0


if __name__ == "__main__":
    # An ordinary exit, so that the broker under test is stopped and its data removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
