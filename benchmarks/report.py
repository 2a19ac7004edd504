"""Owns showing results: tables in the terminal, and the same in docs/benchmarks.md between its markers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.results import Results, Row, Section, ratio, winner

BEGIN = "<!-- benchmarks: begin (written by `make bench`; do not edit by hand) -->"
END = "<!-- benchmarks: end -->"
HEADINGS = ("", "Kafka", "Runnel", "unit", "Runnel / Kafka", "ahead")
WINNERS = {"runnel": "Runnel", "kafka": "**Kafka**", "even": "even", None: ""}
STYLES = {"runnel": "green", "kafka": "red", "even": "yellow", None: ""}


def show(console: Console, results: Results) -> None:
    for name, section in results.sections.items():
        table = Table(title=name, title_justify="left", title_style="bold")
        for column, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="right" if column in (1, 2, 4) else "left")
        for row, samples in section.samples.items():
            cells = _cells(row, samples)
            table.add_row(*cells[:-1], cells[-1].strip("*"), style=STYLES[winner(row, samples)])
        console.print(table)
    for failure in results.failures:
        console.print(f"failed: {failure}", style="red", highlight=False, markup=False)


def _cells(row: Row, samples: dict[str, list[float]]) -> list[str]:
    found = ratio(samples)
    return [
        row.name,
        figure(samples.get("kafka")),
        figure(samples.get("runnel")),
        row.unit,
        "" if found is None else f"{found:.2f}",
        WINNERS[winner(row, samples)],
    ]


def figure(values: list[float] | None) -> str:
    """The median with about three digits that mean something."""
    if not values:
        return "-"
    value = median(values)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def markdown(results: Results, machine: dict[str, str], command: str) -> str:
    lines = ["| | |", "|---|---|", *(f"| {label} | {value} |" for label, value in machine.items())]
    lines += [f"| Command | `{command}` |", "", f"{_score(results)}", ""]
    for name, section in results.sections.items():
        lines += [f"### {name}", "", *_markdown_table(section), ""]
    if results.failures:
        lines += [
            "### Failed in this run",
            "",
            *(f"- {failure.splitlines()[0]}" for failure in results.failures),
            "",
        ]
    return "\n".join(lines)


def _markdown_table(section: Section) -> Iterator[str]:
    yield f"Measured {section.date} at commit {section.commit}; medians."
    yield ""
    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|---|---:|---:|---|---:|---|"
    for row, samples in section.samples.items():
        yield "| " + " | ".join(_cells(row, samples)) + " |"


def _score(results: Results) -> str:
    outcomes = [
        winner(row, samples) for section in results.sections.values() for row, samples in section.samples.items()
    ]
    counts = {name: outcomes.count(name) for name in ("runnel", "even", "kafka")}
    return (
        f"Of {len(outcomes)} rows Runnel is ahead on {counts['runnel']}, level (within 3 %) on "
        f"{counts['even']} and behind on {counts['kafka']}."
    )


def behind(results: Results) -> list[str]:
    """The rows that Kafka wins, for the section that a person writes."""
    return [
        f"{row.section}: {row.name} ({ratio(samples):.2f})"
        for section in results.sections.values()
        for row, samples in section.samples.items()
        if winner(row, samples) == "kafka"
    ]


def rewrite(path: Path, block: str) -> None:
    """Replace what stands between the markers; everything else in the file belongs to people."""
    text = path.read_text()
    before, found_begin, rest = text.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found_begin or not found_end:
        raise ValueError(f"{path} has lost its markers {BEGIN!r} and {END!r}")
    path.write_text(f"{before}{BEGIN}\n\n{block}\n{END}{after}")
