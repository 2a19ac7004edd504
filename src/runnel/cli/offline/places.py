"""What a path is: a data directory, a partition's folder, or one file. Opens files for reading only.

In: paths as a person writes them. Out: partitions and files, or an error that says what was expected there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from runnel.storage.compaction.swapping import SWAP_SUFFIX
from runnel.storage.files import OsFile
from runnel.storage.scan import Scanner
from runnel.storage.segment import LOG_SUFFIX

META_PROPERTIES = "meta.properties"
SNAPSHOT_OF_METADATA_SUFFIX = ".checkpoint"
_FOLDER = re.compile(r"^([a-zA-Z0-9._-]+)-(\d+)$")
_SEGMENT = re.compile(r"^\d{20}\.log$")


class PathWrong(Exception):
    """The path is not what the command needs; the message says what it is instead."""


class PartitionDir(NamedTuple):
    topic: str
    partition: int
    path: Path

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_raft(self) -> bool:
        """Whether it is the log of a quorum of controllers (Kafka's; Runnel's has one voter and no such file)."""
        return (self.path / "quorum-state").exists()


class DataDir(NamedTuple):
    path: Path
    partitions: list[PartitionDir]


def open_for_reading(path: Path) -> OsFile:
    return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def partition_dir(path: Path) -> PartitionDir | None:
    """The folder as a partition's, by its name; folders that wait for their removal are none."""
    match = _FOLDER.match(path.resolve().name)
    return PartitionDir(match[1], int(match[2]), path) if match and path.is_dir() else None


def data_dir(path: Path) -> DataDir | None:
    """The folder as a data directory: it has an identity, or partitions."""
    found = [each for child in sorted(path.iterdir()) if (each := partition_dir(child)) is not None]
    partitions = [each for each in found if any(is_segment(name) for name in os.listdir(each.path))]
    if partitions or (path / META_PROPERTIES).exists():
        return DataDir(path, sorted(partitions))
    return None


def locate(path: Path) -> DataDir | PartitionDir | Path:
    """A data directory, a partition, or a file."""
    if not path.exists():
        raise PathWrong(f"{path} does not exist")
    if not path.is_dir():
        return path
    if any(is_segment(name) for name in os.listdir(path)):
        found = partition_dir(path)
        if found is None:
            raise PathWrong(f"{path} holds segments, but its name is not TOPIC-PARTITION")
        return found
    directory = data_dir(path)
    if directory is None:
        raise PathWrong(
            f"{path} is neither a data directory ({META_PROPERTIES}, TOPIC-PARTITION folders) nor a partition's folder "
            "(*.log files)"
        )
    return directory


def is_segment(name: str) -> bool:
    return _SEGMENT.match(name) is not None


def segments(folder: Path) -> list[Path]:
    """The segment files, oldest first."""
    return sorted(folder / name for name in os.listdir(folder) if is_segment(name))


def current_segments(folder: Path) -> list[Path]:
    """The same as a broker would take them: where a compaction was cut short after it was decided on, its `.log.swap`
    stands for the segments that it replaces."""
    found = {base_offset(path): path for path in segments(folder)}
    for swap in sorted(folder.glob(f"*{LOG_SUFFIX}{SWAP_SUFFIX}")):
        file, start = open_for_reading(swap), base_offset(swap)
        scanner = Scanner(file, 0, file.size(), start)
        for _ in scanner:
            pass
        found = {offset: path for offset, path in found.items() if not start <= offset < scanner.expected_offset}
        found[start] = swap
    return [found[offset] for offset in sorted(found)]


def base_offset(path: Path) -> int:
    """What the name of a segment's file says; 0 for a file with another name."""
    digits = path.name.partition(".")[0].partition("-")[0]
    return int(digits) if digits.isdigit() else 0


def with_suffix(segment: Path, suffix: str) -> Path:
    return segment.with_name(segment.name.removesuffix(LOG_SUFFIX) + suffix)


def topic_of(path: Path) -> str | None:
    """The topic that a file belongs to, by the name of its folder."""
    found = partition_dir(path.resolve().parent)
    return found.topic if found else None


def files_of(folder: Path) -> Iterator[Path]:
    for name in sorted(os.listdir(folder)):
        if (folder / name).is_file():
            yield folder / name
