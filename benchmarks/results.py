"""Owns the figures: rows, the samples that each broker gave for them, medians, ratios and who wins.

Rows are declared where they are measured; this module only keeps and compares them, and stores them as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

EVEN_SHARE = 0.03  # closer than this is a draw: runs on one machine differ by as much


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    section: str
    name: str
    unit: str
    lower_is_better: bool


@dataclass(slots=True)
class Section:
    """One table: its samples, and when and on which source they were taken."""

    date: str = ""
    commit: str = ""
    samples: dict[Row, dict[str, list[float]]] = field(default_factory=dict)


class Results:
    """Samples of one or several runs, by section in the order in which they were first measured."""

    def __init__(self) -> None:
        self.sections: dict[str, Section] = {}
        self.failures: list[str] = []

    def record(self, row: Row, broker: str, value: float) -> None:
        section = self.sections.setdefault(row.section, Section())
        section.samples.setdefault(row, {}).setdefault(broker, []).append(value)

    def stamp(self, date: str, commit: str) -> None:
        for section in self.sections.values():
            section.date, section.commit = date, commit

    def merge(self, newer: Results) -> None:
        """Take every section that the newer run measured in place of the old one."""
        self.sections.update(newer.sections)

    def to_json(self) -> dict[str, Any]:
        return {"failures": self.failures, "sections": [self._section_json(name) for name in self.sections]}

    def _section_json(self, name: str) -> dict[str, Any]:
        section = self.sections[name]
        rows = []
        for row, samples in section.samples.items():
            medians = {broker: median(values) for broker, values in samples.items()}
            comparison = {"median": medians, "ratio": ratio(samples), "winner": winner(row, samples)}
            rows.append({**asdict(row), "samples": samples, **comparison})
        return {"name": name, "date": section.date, "commit": section.commit, "rows": rows}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Results:
        results = cls()
        for part in stored["sections"]:
            section = results.sections[part["name"]] = Section(part["date"], part["commit"])
            for entry in part["rows"]:
                row = Row(entry["section"], entry["name"], entry["unit"], entry["lower_is_better"])
                section.samples[row] = entry["samples"]
        return results

    @classmethod
    def load(cls, path: Path) -> Results:
        return cls.from_json(json.loads(path.read_text())) if path.exists() else cls()


def ratio(samples: dict[str, list[float]]) -> float | None:
    """Runnel's median over Kafka's, where both were measured."""
    if "kafka" not in samples or "runnel" not in samples:
        return None
    kafka = median(samples["kafka"])
    return median(samples["runnel"]) / kafka if kafka else None


def winner(row: Row, samples: dict[str, list[float]]) -> str | None:
    found = ratio(samples)
    if found is None:
        return None
    if abs(found - 1) <= EVEN_SHARE:
        return "even"
    return "runnel" if (found < 1) == row.lower_is_better else "kafka"
