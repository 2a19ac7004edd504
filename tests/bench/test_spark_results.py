"""The Spark benchmark's own bookkeeping: turns, failures, what is stored, and CPU of processes that ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import report
from benchmarks.results import Results
from benchmarks.spark.__main__ import parse_arguments
from benchmarks.spark.bench import SparkBench, Turn
from benchmarks.spark.cpu import CpuMeter
from benchmarks.spark.latency import percentile
from benchmarks.spark.sizes import QUICK
from benchmarks.spark.storing import SPARK, Store
from benchmarks.spark.turns import Case, take_turns

BURN_S = 0.5
GRANDPARENT = f"""
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < {BURN_S}:
        pass
    print("burnt", flush=True)
    sys.stdin.readline()
    os._exit(0)
while True:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        break
print("ended", flush=True)
sys.stdin.readline()
"""


def bench_with(results: Results, lines: list[str]) -> SparkBench:
    """Turns are values here: neither Spark nor a broker is asked for anything."""
    nothing: Any = None
    return SparkBench(nothing, nothing, nothing, Path(), QUICK, results, lambda _: None, lambda: lines.append("line"))


def failing() -> Turn:
    raise RuntimeError("no more room\nand a stack trace")


def measured() -> Results:
    results, lines = Results(), list[str]()
    ours = {"": lambda: Turn(1.0, 2.0, 0.5), ", direct reads": lambda: Turn(0.5, 1.0, 0.0)}
    take_turns(bench_with(results, lines), "Scan", Case("all", 1_000_000, lambda: Turn(2.0, 4.0, 0.25), ours), 3)
    assert lines == ["line"]
    return results


def test_turns_become_speed_and_cpu_per_row() -> None:
    sections = measured().sections
    assert list(sections) == ["Scan: speed", "Scan: CPU of Spark, its JVM and its Python", "Scan: CPU of the broker"]
    speed = {row.name: samples for row, samples in sections["Scan: speed"].samples.items()}
    assert speed["all"] == {"runnel": [1e6] * 3, "kafka": [5e5] * 3}
    assert speed["all, direct reads"] == {"runnel": [2e6] * 3, "kafka": [5e5] * 3}
    (cost, *_) = sections["Scan: CPU of the broker"].samples.values()
    assert cost == {"runnel": [0.5] * 3, "kafka": [0.25] * 3}


def test_who_fails_is_named_once_and_the_others_go_on() -> None:
    results = Results()
    case = Case("all", 1000, lambda: Turn(1.0, 1.0, 1.0), {"": failing})
    take_turns(bench_with(results, []), "Scan", case, 2)
    assert results.failures == ["Scan: all: runnel: RuntimeError: no more room"]
    (samples,) = results.sections["Scan: speed"].samples.values()
    assert samples == {"kafka": [1000.0] * 2}


def test_a_run_writes_its_own_block_and_keeps_what_it_did_not_measure(tmp_path: Path) -> None:
    page, stored = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text(f"# Page\n{report.BEGIN}\nbrokers\n{report.END}\ntext\n{SPARK.begin}\n{SPARK.end}\nend\n")
    store = Store({"CPU": "some"}, "make bench-spark", 0.0, stored, page)
    store.save(measured())
    later = Results()
    take_turns(bench_with(later, []), "Sink", Case("all", 1000, failing, {"": lambda: Turn(1.0, 1.0, 1.0)}), 1)
    store.save(later)
    text = page.read_text()
    assert f"{report.BEGIN}\nbrokers\n{report.END}\ntext" in text
    assert "| all | 500,000 | 1,000,000 | rows/s | 2.00 | Runnel |" in text
    assert "| all | - | 1,000 | rows/s |  |  |" in text
    assert "- Sink: all: Spark's connector: RuntimeError: no more room" in text
    assert list(Results.load(stored).sections)[::3] == ["Scan: speed", "Sink: speed"]
    report.rewrite(page, "brokers anew")
    assert page.read_text() == text.replace("brokers", "\nbrokers anew", 1)


def test_cpu_of_a_process_that_has_ended_is_kept() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", GRANDPARENT], text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with CpuMeter(process.pid) as meter:
            assert process.stdout.readline() == "burnt\n"
            before_s = meter.seconds()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ended\n"
            after_s = meter.seconds()
        process.communicate("\n")
    assert after_s >= before_s >= 0.9 * BURN_S


def test_percentiles_are_values_that_were_seen() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert [percentile(ordered, share) for share in (50, 95, 99)] == [51.0, 96.0, 100.0]
    assert percentile([7.0], 99) == 7.0


def test_rows_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row.name for row in parse_arguments(["--only", "sink,scan"]).workloads] == ["scan", "sink"]
    with pytest.raises(SystemExit):
        parse_arguments(["--only", "nope"])
    assert "unknown row 'nope'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse_arguments(["--quick", "--write"])
