"""A flow that fails is never said to have completed, and the reason is shown at once, not when the run has ended."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from runnel.cli.pipeline_view import REASON_CHARACTERS_MAX, LineView, LiveView
from runnel.spark.pipelines.figures import Figures
from runnel.spark.pipelines.flow_progress import FlowProgress
from runnel.spark.pipelines.messages import FlowEvent
from spark.records import Sent, produce

if TYPE_CHECKING:
    from runnel.spark.pipelines import PipelineSession

RETRIES = {
    "spark.sql.pipelines.maxFlowRetryAttempts": "1",
    "spark.sql.pipelines.execution.watchdog.minRetryTime": "1s",
}
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()

def records(topic):
    reader = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "{bootstrap}")
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

@dp.table
def retried_numbers():
    return records("{numbers}").selectExpr("cast(string(value) as int) as number")

@dp.table
def retried_texts():
    return records("{texts}").selectExpr("string(value) as text")

@dp.materialized_view
def retried_longest():
    return spark.read.table("retried_texts").selectExpr("max(length(text)) as longest")
"""


def statuses(shown: list[FlowProgress], flow: str) -> list[str]:
    """As they change."""
    told = [each.status for each in shown if each.flow == flow]
    return [status for status, before in zip(told, [None, *told], strict=False) if status != before]


def test_of_a_real_run(
    open_project: Callable[..., PipelineSession],
    write_project: Callable[[Mapping[str, str]], Path],
    bootstrap: str,
    new_topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers, texts = new_topic(), new_topic()
    produce(bootstrap, numbers, [Sent(b"7"), Sent(b"seven")])
    produce(bootstrap, texts, [Sent(b"a"), Sent(b"bcd")])
    text = FLOWS.format(bootstrap=bootstrap, numbers=numbers, texts=texts)
    session = open_project(write_project({"flows.py": text}), **RETRIES)
    shown: list[FlowProgress] = []
    view = LineView()

    def show(progress: FlowProgress) -> None:
        shown.append(progress)
        view.show(progress)

    result = session.run(on_progress=show)
    assert result.status == "failed"
    attempt = ["STARTING", "RUNNING", "FAILED"]
    assert statuses(shown, "retried_numbers") == ["QUEUED", *attempt, *attempt]
    first, *_, last = [place for place, each in enumerate(shown) if each.status == "FAILED"]
    reasons = [each.error or "" for each in shown[first : last + 1] if each.flow == "retried_numbers"]
    assert all("CAST_INVALID_INPUT" in reason for reason in reasons), "also while it is tried again"
    assert statuses(shown, "retried_texts") == ["QUEUED", "STARTING", "RUNNING", "COMPLETED"]
    ended = next(place for place, each in enumerate(shown) if each.status == "COMPLETED")
    assert (shown[ended].flow, shown[ended].rows) == ("retried_texts", 2)
    assert ended < last, "not held back until the end of the run"
    assert statuses(shown, "retried_longest")[-1] == "COMPLETED"

    lines = [line for line in capsys.readouterr().out.splitlines() if "retried_numbers" in line]
    failed = "  retried_numbers: failed: [CAST_INVALID_INPUT] The value 'seven' of the type "
    assert [line[: len(failed)] for line in lines] == [failed, "  retried_numbers: trying again", failed]

    again: list[FlowProgress] = []
    session.run(on_progress=again.append)
    assert statuses(again, "retried_texts") == ["QUEUED", "STARTING", "RUNNING", "COMPLETED"], "nothing new to read"
    assert statuses(again, "retried_numbers")[-1] == "FAILED"


# Without Spark --------------------------------------------------------------------------------------------------

PROGRESS = {
    "name": "spark_catalog.default.orders",
    "runId": "1",
    "batchId": 0,
    "numInputRows": 5,
    "stateOperators": [],
    "processedRowsPerSecond": 1.0,
    "batchDuration": 1,
    "sources": [],
}


class Told:
    """Figures, and what they report of one flow."""

    def __init__(self) -> None:
        self.shown: list[FlowProgress] = []
        self.figures = Figures(self.shown.append)

    def event(self, status: str, error: str | None = None) -> None:
        self.figures.note_event(FlowEvent("spark_catalog.default.orders", status, error))

    def batch(self) -> None:
        self.figures.onQueryProgress(SimpleNamespace(progress=PROGRESS))  # type: ignore[arg-type]

    def ended(self, exception: str | None = None, run_id: str = "1") -> None:
        event: Any = SimpleNamespace(runId=run_id, exception=exception)
        self.figures.onQueryTerminated(event)

    @property
    def statuses(self) -> list[str]:
        return statuses(self.shown, "orders")


@pytest.mark.parametrize("is_query_first", [True, False])
def test_a_query_that_ended_without_an_error_has_completed(is_query_first: bool) -> None:
    told = Told()
    told.event("RUNNING")
    told.batch()
    if is_query_first:
        told.ended()
        told.event("COMPLETED")
    else:
        told.event("COMPLETED")
        assert told.statuses == ["RUNNING"]
        told.ended()
    assert told.statuses == ["RUNNING", "COMPLETED"]
    assert told.figures.flows["orders"].rows == 5


@pytest.mark.parametrize("is_query_first", [True, False])
def test_a_query_that_ended_in_an_error_has_not(is_query_first: bool) -> None:
    told = Told()
    told.event("RUNNING")
    told.batch()
    for tell in (told.ended, lambda _: told.event("COMPLETED"))[:: 1 if is_query_first else -1]:
        tell("no")
    told.ended(run_id="another")
    told.event("FAILED", "no")
    assert told.statuses == ["RUNNING", "FAILED"]
    assert told.figures.flows["orders"].error == "no"


def test_a_query_that_is_not_known_has_completed_at_the_end_of_the_run() -> None:
    told = Told()
    told.event("RUNNING")
    told.event("COMPLETED")
    told.ended()
    assert told.statuses == ["RUNNING"]
    told.figures.end()
    assert told.figures.flows["orders"].status == "COMPLETED"
    assert told.statuses == ["RUNNING", "COMPLETED"], "it is reported, too"


def test_what_is_no_stream_has_completed_when_spark_says_so() -> None:
    told = Told()
    for status in ("PLANNING", "RUNNING", "COMPLETED"):
        told.event(status)
    assert told.statuses[-1] == "COMPLETED"


def test_a_reason_is_forgotten_when_another_attempt_succeeds() -> None:
    told = Told()
    told.event("FAILED", "no broker")
    told.event("STARTING")
    assert told.shown[-1].error == "no broker"
    told.event("COMPLETED")
    told.figures.end()
    assert told.figures.flows["orders"].error is None


# Views ----------------------------------------------------------------------------------------------------------


def test_a_line_has_a_reason_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineView()
    view.show(FlowProgress("orders", "RUNNING", batches=1, rows=5))
    view.show(FlowProgress("orders", "FAILED", batches=1, rows=5, error="no broker\n== SQL =="))
    view.show(FlowProgress("orders", "STARTING", batches=1, rows=5, error="no broker\n== SQL =="))
    view.show(FlowProgress("orders", "RUNNING", batches=1, rows=5, error="no broker\n== SQL =="))
    view.show(FlowProgress("orders", "FAILED", batches=1, rows=5, error="x" * 1000))
    assert capsys.readouterr().out.splitlines() == [
        "  orders: running, rows 5",
        "  orders: failed, rows 5: no broker",
        "  orders: trying again",
        f"  orders: failed, rows 5: {'x' * REASON_CHARACTERS_MAX}...",
    ]


def test_the_live_table_has_reasons_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), record=True, force_terminal=True, width=60, _environ={})
    monkeypatch.setattr("rich._console", console)
    view = LiveView()
    view.begin(1)
    for status in ("FAILED", "STARTING"):
        console.export_text(clear=True)
        view.show(FlowProgress("orders", status, error="no broker answers at [::1]:9092 " * 3))
        *_, row, last = [line.rstrip() for line in console.export_text().splitlines() if line.strip()]
        assert row.split() == ["orders", status.lower()]
        assert (last[:30], len(last)) == ("orders: no broker answers at [", 60), "a line, cut"
    view.close()
