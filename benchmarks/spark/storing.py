"""Owns where figures are kept: a file of results, and the section of docs/benchmarks.md between its own markers.

Saved after every line that is measured, so that a run which does not reach its end leaves what it has.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, report
from benchmarks.results import Results

STORED = Path(__file__).parents[1] / "results-spark.json"
DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
SPARK = report.Block(
    "<!-- benchmarks of Spark: begin (written by `make bench-spark`; do not edit by hand) -->",
    "<!-- benchmarks of Spark: end -->",
    "JVM connector",
    "Runnel",
)


@dataclass(slots=True)
class Store:
    """One run's way to the files. What it did not measure stays as an earlier run left it."""

    about: dict[str, str]
    command: str
    began_s: float
    stored: Path = STORED
    document: Path = DOCUMENT
    block: report.Block = SPARK
    commit: str = field(default_factory=machine.source_commit)

    def save(self, results: Results) -> None:
        results.stamp(datetime.now(UTC).strftime("%Y-%m-%d"), self.commit)
        merged = Results.load(self.stored)
        merged.merge(results)
        merged.failures = results.failures
        about = {**self.about, "Duration": f"{(time.monotonic() - self.began_s) / 60:.0f} minutes"}
        document = {"machine": about, "command": self.command, **merged.to_json()}
        self.stored.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        report.rewrite(self.document, report.markdown(merged, about, self.command, self.block), self.block)
