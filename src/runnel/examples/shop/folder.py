"""Where a demo keeps its things, and what it remembers between two starts.

In: a folder. Out: paths in it, and the `Ledger` of what was sent, written anew after every simulated minute.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runnel.spark.pipelines.spec_file import escaped_characters, storage_uri

LEDGER = "demo.json"


class DemoError(ValueError):
    """The demo cannot go on; the message says why and what to do."""


@dataclass(slots=True)
class Ledger:
    """`sent` counts records per topic and partition, up to the minute before `next_minute`."""

    seed: int
    sessions_per_minute: int
    next_minute: int = 0
    sent: dict[str, list[int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(sum(counts) for counts in self.sent.values())


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """`root` is absolute: while definitions are read, Spark makes the project's folder the current one."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "shop"

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def plot(self) -> Path:
        return self.root / "shop.png"

    @property
    def broker_data(self) -> Path:
        return self.root / "broker"

    @property
    def broker_log(self) -> Path:
        return self.root / "broker.log"

    def prepare(self, *, fresh: bool = False) -> None:
        """Make the folder. `fresh` empties it, if a demo made it."""
        wrong = escaped_characters(str(self.root))
        if wrong:
            raise DemoError(
                f"Spark loses checkpoints where a path has '{wrong}': name another --folder than {self.root}"
            )
        if fresh and self.root.exists():
            self._clear()
        self.root.mkdir(parents=True, exist_ok=True)

    @property
    def is_new(self) -> bool:
        """Whether the pipeline has not begun to write."""
        return not self.storage.exists() or not any(self.storage.rglob("offsets"))

    def write_project(self, bootstrap: str) -> None:
        """The pipeline as a project of its own: any tool that runs such projects can run this one."""
        shipped = Path(__file__).with_name("project")
        shutil.copytree(shipped, self.project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        spec = self.project / "spark-pipeline.yml"
        places = {"storage": storage_uri(self.storage), "lake": self.lake, "bootstrap": bootstrap}
        spec.write_text(spec.read_text().format(**places))

    def _clear(self) -> None:
        entries = list(self.root.iterdir())
        if entries and not self._ledger_path.exists():
            raise DemoError(f"{self.root} was not made by a demo ({LEDGER} is not in it): name another --folder")
        for entry in entries:  # not the folder itself: it may be the current one, or a link
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def load(self, seed: int, sessions_per_minute: int) -> Ledger:
        """What was sent so far, or a new ledger. A demo goes on as it began: seed and rate are those of its start."""
        if not self._ledger_path.exists():
            ledger = Ledger(seed, sessions_per_minute)
            self.save(ledger)
            return ledger
        try:
            return Ledger(**json.loads(self._ledger_path.read_text()))
        except (ValueError, TypeError) as error:
            raise DemoError(f"{self._ledger_path} cannot be read ({error}): start anew with --fresh") from error

    def save(self, ledger: Ledger) -> None:
        scratch = self._ledger_path.with_suffix(".tmp")
        scratch.write_text(json.dumps(asdict(ledger)))
        os.replace(scratch, self._ledger_path)

    @property
    def _ledger_path(self) -> Path:
        return self.root / LEDGER
