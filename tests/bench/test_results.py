"""The benchmark's own arithmetic: medians, ratios, who wins, what a partial run keeps, what a rewrite leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import report
from benchmarks.results import Results, Row, ratio, winner
from benchmarks.workloads.registry import WORKLOADS, chosen

SPEED = Row("speed", "produce", "records/s", lower_is_better=False)
COST = Row("cost", "produce", "µs/record", lower_is_better=True)


def results_of(*samples: tuple[Row, str, float]) -> Results:
    results = Results()
    for row, broker, value in samples:
        results.record(row, broker, value)
    return results


def test_ratio_is_runnels_median_over_kafkas() -> None:
    assert ratio({"kafka": [10.0, 2.0, 4.0], "runnel": [8.0]}) == 2.0
    assert ratio({"runnel": [8.0]}) is None


@pytest.mark.parametrize(
    ("row", "kafka", "runnel", "expected"),
    [
        (SPEED, 100.0, 150.0, "runnel"),
        (SPEED, 150.0, 100.0, "kafka"),
        (COST, 100.0, 150.0, "kafka"),
        (COST, 150.0, 100.0, "runnel"),
        (COST, 100.0, 102.0, "even"),
    ],
)
def test_the_better_direction_decides_who_wins(row: Row, kafka: float, runnel: float, expected: str) -> None:
    assert winner(row, {"kafka": [kafka], "runnel": [runnel]}) == expected


def test_a_partial_run_keeps_the_other_sections() -> None:
    stored = results_of((SPEED, "kafka", 1.0), (COST, "kafka", 2.0))
    stored.merge(results_of((COST, "kafka", 3.0)))
    assert stored.sections["speed"].samples[SPEED] == {"kafka": [1.0]}
    assert stored.sections["cost"].samples[COST] == {"kafka": [3.0]}


def test_results_survive_json() -> None:
    results = results_of((SPEED, "kafka", 1.0), (SPEED, "runnel", 2.0))
    results.stamp("2026-01-01", "abc")
    assert Results.from_json(results.to_json()).to_json()["sections"] == results.to_json()["sections"]


def test_rows_that_kafka_wins_are_named() -> None:
    results = results_of((SPEED, "kafka", 2.0), (SPEED, "runnel", 1.0), (COST, "kafka", 2.0), (COST, "runnel", 1.0))
    assert report.behind(results) == ["speed: produce (0.50)"]


def test_rewrite_touches_only_what_is_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.rewrite(page, "new")
    report.rewrite(page, "newer")
    assert page.read_text() == f"before\n{report.BEGIN}\n\nnewer\n{report.END}\nafter\n"


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("all mine")
    with pytest.raises(ValueError, match="markers"):
        report.rewrite(page, "new")
    assert page.read_text() == "all mine"


def test_rows_are_chosen_by_name() -> None:
    assert [workload.name for workload in chosen(["latency", "startup"])] == ["startup", "latency"]
    assert chosen([]) == WORKLOADS
    with pytest.raises(ValueError, match="unknown row 'nope'"):
        chosen(["nope"])
