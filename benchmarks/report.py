"""Owns showing results: tables in the terminal, and the same in docs/benchmarks.md between its markers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.results import Results, Row, Section, ratio, winner

STYLES = {"runnel": "green", "kafka": "red", "even": "yellow", None: ""}


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the page that one command writes: its markers, and what it calls the two that it compares."""

    begin: str
    end: str
    kafka: str
    runnel: str

    @property
    def headings(self) -> tuple[str, ...]:
        return ("", self.kafka, self.runnel, "unit", f"{self.runnel} / {self.kafka}", "ahead")

    def name(self, winner: str | None) -> str:
        return {"runnel": self.runnel, "kafka": f"**{self.kafka}**", "even": "even", None: ""}[winner]


BEGIN = "<!-- benchmarks: begin (written by `make bench`; do not edit by hand) -->"
END = "<!-- benchmarks: end -->"
BROKERS = Block(BEGIN, END, "Kafka", "Runnel")


def show(console: Console, results: Results, block: Block = BROKERS) -> None:
    for name, section in results.sections.items():
        table = Table(title=name, title_justify="left", title_style="bold")
        for column, heading in enumerate(block.headings):
            table.add_column(heading, justify="right" if column in (1, 2, 4) else "left")
        for row, samples in section.samples.items():
            cells = _cells(row, samples, block)
            table.add_row(*cells[:-1], cells[-1].strip("*"), style=STYLES[winner(row, samples)])
        console.print(table)
    for failure in results.failures:
        console.print(f"failed: {failure}", style="red", highlight=False, markup=False)


def _cells(row: Row, samples: dict[str, list[float]], block: Block) -> list[str]:
    found = ratio(samples)
    return [
        row.name,
        figure(samples.get("kafka")),
        figure(samples.get("runnel")),
        row.unit,
        "" if found is None else f"{found:.2f}",
        block.name(winner(row, samples)),
    ]


def figure(values: list[float] | None) -> str:
    """The median with about three digits that mean something."""
    if not values:
        return "-"
    value = median(values)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def markdown(results: Results, machine: dict[str, str], command: str, block: Block = BROKERS) -> str:
    lines = ["| | |", "|---|---|", *(f"| {label} | {value} |" for label, value in machine.items())]
    lines += [f"| Command | `{command}` |", "", _score(results, block), ""]
    for name, section in results.sections.items():
        lines += [f"### {name}", "", *_markdown_table(section, block), ""]
    if results.failures:
        lines += [
            "### Failed in this run",
            "",
            *(f"- {failure.splitlines()[0]}" for failure in results.failures),
            "",
        ]
    return "\n".join(lines)


def _markdown_table(section: Section, block: Block) -> Iterator[str]:
    yield f"Measured {section.date} at commit {section.commit}; medians."
    yield ""
    yield "| " + " | ".join(block.headings) + " |"
    yield "|---|---:|---:|---|---:|---|"
    for row, samples in section.samples.items():
        yield "| " + " | ".join(_cells(row, samples, block)) + " |"


def _score(results: Results, block: Block) -> str:
    outcomes = [
        winner(row, samples) for section in results.sections.values() for row, samples in section.samples.items()
    ]
    counts = {name: outcomes.count(name) for name in ("runnel", "even", "kafka")}
    return (
        f"Of {len(outcomes)} rows {block.runnel} is ahead on {counts['runnel']}, level (within 3 %) on "
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


def rewrite(path: Path, content: str, block: Block = BROKERS) -> None:
    """Replace what stands between the markers; everything else in the file belongs to people."""
    text = path.read_text()
    before, found_begin, rest = text.partition(block.begin)
    _, found_end, after = rest.partition(block.end)
    if not found_begin or not found_end:
        raise ValueError(f"{path} has lost its markers {block.begin!r} and {block.end!r}")
    path.write_text(f"{before}{block.begin}\n\n{content}\n{block.end}{after}")
