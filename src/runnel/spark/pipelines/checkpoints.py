"""What Spark's checkpoint knows about the micro-batch that failed: from which offset to which, or which files.

In: the project's storage and a flow. Out: offset ranges of topics, files of tables. Spark writes the end of a batch
down before it begins, and that it is done when it is; so a batch with the one and without the other is the batch that
failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from runnel.client.metadata import TopicPartition
from runnel.spark.errors import OptionError
from runnel.spark.positions import Offsets, from_nested

CHECKPOINTS_FOLDER = "_checkpoints"


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """`starts` lacks the partitions that were read for the first time. `files`: the names of those of tables."""

    batch_id: int
    starts: Offsets
    ends: Offsets
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition; `until` is the first that is not meant. `first` is None where nobody knows it."""

    target: TopicPartition
    first: int | None
    until: int

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.target} up to offset {self.until - 1}"
        if self.until - self.first == 1:
            return f"{self.target} offset {self.first}"
        return f"{self.target} offsets {self.first} to {self.until - 1}"


def failed_batch(storage: Path, flow: str) -> FailedBatch | None:
    """None where the flow did not fail in a batch, or has no checkpoint."""
    checkpoint = newest_checkpoint(storage, flow)
    planned = max(_batches(checkpoint / "offsets"), default=None) if checkpoint else None
    if checkpoint is None or planned is None or (checkpoint / "commits" / str(planned)).exists():
        return None
    files = frozenset(_files(checkpoint, planned))
    return FailedBatch(planned, _offsets(checkpoint, planned - 1), _offsets(checkpoint, planned), files)


def newest_checkpoint(storage: Path, flow: str) -> Path | None:
    """A full refresh begins a new checkpoint beside the old ones, with the next number."""
    folders = (path for path in (storage / CHECKPOINTS_FOLDER).rglob(flow) if path.is_dir())
    numbered = [below for path in folders for below in path.iterdir() if below.name.isdecimal() and below.is_dir()]
    return max(numbered, key=lambda path: int(path.name), default=None)


def _batches(folder: Path) -> Iterator[int]:
    if folder.is_dir():
        yield from (int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def _offsets(checkpoint: Path, batch_id: int) -> Offsets:
    """Of all sources that are topics."""
    found: Offsets = {}
    for line in _sources(checkpoint, batch_id):
        try:
            found.update(from_nested(json.loads(line)))
        except (ValueError, AttributeError, OptionError):
            continue  # a table, files: offsets of another shape
    return found


def _sources(checkpoint: Path, batch_id: int) -> list[str]:
    """How far each source was read. The file: a version, a line of metadata, a line per source."""
    try:
        return (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[2:]
    except FileNotFoundError:
        return []


def _files(checkpoint: Path, batch_id: int) -> Iterator[str]:
    """Of all sources that are folders of files. Such a source numbers its own batches, and notes the files of each."""
    before = [_file_batch(line) for line in _sources(checkpoint, batch_id - 1)]
    for index, line in enumerate(_sources(checkpoint, batch_id)):
        first = before[index] + 1 if index < len(before) else 0
        for number in range(first, _file_batch(line) + 1):
            yield from _files_noted(checkpoint / "sources" / str(index), number)


def _file_batch(line: str) -> int:
    try:
        return int(json.loads(line)["logOffset"])
    except (ValueError, KeyError, TypeError):
        return -1


def _files_noted(folder: Path, number: int) -> Iterator[str]:
    """Every tenth note has the files of all batches before, too. A note: a version, a line per file."""
    for path in (folder / str(number), folder / f"{number}.compact"):
        if path.exists():
            noted = map(json.loads, path.read_text(encoding="utf-8").splitlines()[1:])
            yield from (Path(unquote(file["path"])).name for file in noted if file["batchId"] == number)
