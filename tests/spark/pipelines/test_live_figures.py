"""What a real run tells of a flow with windows: rows, rows per second, batch time, lag and state.

In the progress that callers get, in the metrics file, in the lines of the run, and in the views that people look at.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from harness.topics import create_topic
from runnel.cli.output import counted, human_bytes
from runnel.cli.pipeline_run import RunLoop
from runnel.cli.pipeline_stop import StopRequest
from runnel.cli.pipeline_view import LineView, LiveView
from runnel.spark.pipelines.flow_progress import FlowProgress
from spark.records import BASE_MS, Sent, produce

if TYPE_CHECKING:
    from runnel.spark.pipelines import Engine, RunResult

FLOW, TOPIC = "figures_windows", "figures-in"
RECORDS, PER_TRIGGER = 120, 40
TRIGGERS = RECORDS // PER_TRIGGER
SPEC = "name: figures\nstorage: {storage}\nlibraries:\n  - glob:\n      include: transformations/**\n"
WINDOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as sql
spark = SparkSession.active()

@dp.table
def {flow}():
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    reader = reader.option("subscribe", "{topic}").option("startingOffsets", "earliest")
    records = reader.option("maxOffsetsPerTrigger", "{per_trigger}").load()
    return records.withWatermark("timestamp", "1 second").groupBy(sql.window("timestamp", "10 seconds")).count()
"""


@dataclass
class Watched:
    """A view that keeps what it is shown, and the metrics file as it is at that moment."""

    metrics_file: Path
    shown: list[FlowProgress] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    result: RunResult | None = None

    def begin(self, run: int) -> None:
        assert run == 1

    def show(self, progress: FlowProgress) -> None:
        self.shown.append(progress)
        self.metrics.append(self.metrics_file.read_text())

    def end(self, run: int, result: RunResult) -> None:
        self.result = result

    def close(self) -> None:
        """Nothing is open."""

    @property
    def batches(self) -> list[FlowProgress]:
        """One for each micro-batch."""
        return list({each.batches: each for each in self.shown if each.batches}.values())


def write_project(folder: Path, bootstrap: str) -> Path:
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(SPEC.format(storage=(folder / "storage").as_uri()))
    text = WINDOWS.format(flow=FLOW, bootstrap=bootstrap, topic=TOPIC, per_trigger=PER_TRIGGER)
    (folder / "transformations" / "windows.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def watched(engine: Engine, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A run as `runnel pipeline run` does it: a second between records, so that windows fill and close."""
    from runnel.spark.pipelines import PipelineSession
    from runnel.spark.pipelines.notes import RunNotes
    from runnel.spark.pipelines.project import load_project

    create_topic(bootstrap, TOPIC)
    produce(bootstrap, TOPIC, [Sent(b"x", timestamp_ms=BASE_MS + 1000 * number) for number in range(RECORDS)])
    folder = write_project(tmp_path_factory.mktemp("figures") / "project", bootstrap)
    project = load_project(folder)
    with RunNotes(project) as notes, PipelineSession(project, engine=engine, notes=notes) as session:
        view = Watched(session.project.notes / "metrics.prom")
        assert RunLoop(session, notes, view, StopRequest()).run_once((), False, ()) == 0, view.result
        yield view


# Figures --------------------------------------------------------------------------------------------------------


def test_every_figure_of_every_batch(watched: Watched) -> None:
    full = watched.batches[:TRIGGERS]
    assert [each.rows for each in full] == [40, 80, 120]
    assert [each.lag for each in full] == [80, 40, 0]
    for each in full:
        assert each.flow == FLOW
        assert each.rows_per_second is not None
        assert each.rows_per_second > 0
        assert each.batch_ms is not None
        assert each.batch_ms > 0
        assert each.state_rows is not None
        assert each.state_rows >= PER_TRIGGER // 10, "a window per ten records"
        assert each.state_bytes is not None
        assert each.state_bytes > 0


def test_a_last_batch_without_rows_leaves_the_rate_as_it_was(watched: Watched) -> None:
    """Spark closes windows with a batch of no rows: `rows/s 0` would be all that remains of the run."""
    assert watched.result is not None
    last, full = watched.result.flows[FLOW], watched.batches[TRIGGERS - 1]
    assert last.batches > TRIGGERS, "there was such a batch"
    assert (last.status, last.rows, last.lag) == ("COMPLETED", RECORDS, 0)
    assert (last.rows_per_second, last.batch_ms) == (full.rows_per_second, full.batch_ms)
    assert last.state_rows is not None
    assert full.state_rows is not None
    assert last.state_rows < full.state_rows, "but the state is as it is now: windows were closed"


def test_the_metrics_file_has_them(watched: Watched) -> None:
    for number, each in enumerate(watched.shown):
        lines = watched.metrics[number].splitlines()
        for name, value in {
            "flow_rows_total": each.rows,
            "flow_rows_per_second": each.rows_per_second,
            "flow_batch_seconds": None if each.batch_ms is None else each.batch_ms * 0.001,
            "flow_lag_offsets": each.lag,
            "flow_state_rows": each.state_rows,
            "flow_state_bytes": each.state_bytes,
        }.items():
            found = [line for line in lines if line.startswith(f"runnel_pipeline_{name}{{")]
            expected = f'runnel_pipeline_{name}{{pipeline="figures",flow="{FLOW}"}} {value}'
            assert found == ([] if value is None else [expected])


def test_the_lines_of_the_run_have_them(watched: Watched) -> None:
    text = (watched.metrics_file.parent / "runs" / "000001.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines == [{"run": 1, **each.as_dict()} for each in watched.shown]


# Views ----------------------------------------------------------------------------------------------------------


def cells_of(progress: FlowProgress) -> list[str]:
    """What a person is to read, in order."""
    return [
        f"{progress.rows}",
        f"{progress.rows_per_second:,.0f}",
        f"{progress.batch_ms} ms",
        f"{progress.lag}",
        f"{counted(progress.state_rows or 0, 'row')}, {human_bytes(progress.state_bytes or 0)}",
    ]


def test_lines_show_them(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    view = LineView()
    for each in watched.batches[:TRIGGERS]:
        view.show(each)
        names = ("rows", "rows/s", "batch", "lag", "state")
        figures = ", ".join(f"{name} {cell}" for name, cell in zip(names, cells_of(each), strict=True))
        assert capsys.readouterr().out == f"  {FLOW}: {each.status.lower()}, {figures}\n"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """A terminal of rich's, wide enough, whose text can be taken."""
    console = Console(file=io.StringIO(), record=True, force_terminal=True, width=160, _environ={})
    monkeypatch.setattr("rich._console", console)
    return lambda: console.export_text(clear=True)


def test_the_live_table_shows_them_as_they_come_and_keeps_the_last(
    watched: Watched, terminal: Callable[[], str]
) -> None:
    assert watched.result is not None
    view = LiveView()
    view.begin(1)
    terminal()
    for each in watched.batches:
        view.show(each)
        drawn = terminal()
        (row,) = [line for line in drawn.splitlines() if line.split()[:1] == [FLOW]]
        assert row.split() == " ".join([FLOW, each.status.lower(), *cells_of(each)]).split()
    view.show(watched.shown[-1])
    terminal()
    view.end(1, watched.result)
    (header, *_, row) = [line.split() for line in terminal().splitlines() if line.strip()]
    assert header == ["flow", "status", "rows", "rows/s", "batch", "lag", "state"]
    assert row == " ".join([FLOW, "completed", *cells_of(watched.shown[-1])]).split()


def test_a_run_that_ends_in_an_error_leaves_the_terminal_as_it_was(terminal: Callable[[], str]) -> None:
    class Broken:
        def run(self, **_: object) -> None:
            raise KeyboardInterrupt

        def begin_run(self) -> int:
            return 1

    view, broken = LiveView(), Broken()
    with pytest.raises(KeyboardInterrupt):
        RunLoop(broken, broken, view, StopRequest()).run_once((), False, ())  # type: ignore[arg-type]
    other = LiveView()
    other.begin(2)  # rich has one at a time
    other.close()
    assert view._live is None
