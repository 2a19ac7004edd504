"""What a data directory says of itself: whose it is, who uses it, its checkpoints, and its topics.

In: a data directory. Out: facts for the check of each partition, and findings about the files at its top. Topics come
from the metadata log beside them, if there is one: their ids, and whether they are compacted.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from runnel.cli.offline.checking import Known
from runnel.cli.offline.findings import LogFinding, Remove
from runnel.cli.offline.places import SNAPSHOT_OF_METADATA_SUFFIX, PartitionDir, open_for_reading, segments
from runnel.core.metadata.records import ConfigRecord, RemoveTopicRecord, TopicRecord, decode_record
from runnel.storage.checkpoints import COMPACTED_NAME, decode_offset_checkpoint
from runnel.storage.compaction.swapping import read_gaps_below
from runnel.storage.directory import CLEAN_SHUTDOWN, LOG_STARTS, META_PROPERTIES, RECOVERY_POINTS, DataDirectory
from runnel.storage.errors import DataDirInvalid
from runnel.storage.files import OsFiles
from runnel.storage.scan import ANYWHERE, Scanner
from runnel.wire.batch import iterate_records
from runnel.wire.errors import Malformed

HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
METADATA_FOLDER = "__cluster_metadata-0"
LOCK = ".lock"
TOPIC_CONFIGS = 2
CLEANUP_POLICY = "cleanup.policy"
_WAITING = re.compile(r"\.[0-9a-f]{32}-(delete|stray|future)$")
# struct flock of Linux: type, whence, start, length, process
_FLOCK = struct.Struct("hhqqi")

Offsets = dict[tuple[str, int], int]


class TopicFacts(NamedTuple):
    topic_id: UUID
    was_compacted: bool
    """Its policy is, or once was, to compact."""


@dataclass(slots=True)
class DataDirFacts:
    path: Path
    in_use: bool = False
    was_clean: bool = False
    offsets: dict[str, Offsets] = field(default_factory=dict)
    topics: dict[str, TopicFacts] | None = None
    findings: list[LogFinding] = field(default_factory=list)

    def of(self, place: PartitionDir) -> Known:
        key = (place.topic, place.partition)
        topic = (self.topics or {}).get(place.topic)
        return Known(
            topic.topic_id if topic else None,
            self._gaps_below(place, topic),
            self.offsets.get(RECOVERY_POINTS, {}).get(key),
            self.offsets.get(HIGH_WATERMARKS, {}).get(key),
            self.offsets.get(LOG_STARTS, {}).get(key),
            self.was_clean,
            self.in_use,
        )

    def _gaps_below(self, place: PartitionDir, topic: TopicFacts | None) -> int | None:
        """Runnel notes how far compaction went; Kafka notes that it was there; else the topic's policy must do."""
        if (place.path / COMPACTED_NAME).exists():
            return read_gaps_below(OsFiles(), str(place.path))
        if (place.topic, place.partition) in self.offsets.get(CLEANED, {}):
            return ANYWHERE
        if place.path.name == METADATA_FOLDER:
            return 0
        return None if topic is None or topic.was_compacted else 0


def read_facts(path: Path) -> DataDirFacts:
    """Everything that lies at the top of a data directory."""
    facts = DataDirFacts(path, is_in_use(path), (path / CLEAN_SHUTDOWN).exists())
    facts.findings += _check_identity(path)
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED):
        facts.findings += _read_checkpoint(facts, path / name)
    facts.topics = read_topics(path / METADATA_FOLDER)
    for child in sorted(path.iterdir()):
        if _WAITING.search(child.name):
            facts.findings.append(LogFinding("note", child, "set aside by a broker: a deleted or unknown partition"))
    return facts


def is_in_use(path: Path) -> bool:
    """Whether a broker holds the directory: Runnel's lock is an flock, Kafka's a POSIX one."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return _has_posix_lock(descriptor)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _has_posix_lock(descriptor: int) -> bool:
    if sys.platform != "linux":
        return False
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer: bytes = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _check_identity(path: Path) -> Iterator[LogFinding]:
    file = path / META_PROPERTIES
    try:
        identity = DataDirectory(path, OsFiles()).identity()
    except DataDirInvalid as error:
        advice = "no broker starts on it: restore cluster.id and node.id from a backup or from the other brokers"
        yield LogFinding("damage", file, str(error).removeprefix(f"{file} "), advice)
        return
    if identity is None:
        yield LogFinding("warning", file, "it is missing", "a broker would take the directory for a new one")


def _read_checkpoint(facts: DataDirFacts, path: Path) -> Iterator[LogFinding]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    found = decode_offset_checkpoint(data) if data else {}
    if found is None:
        advice = "a broker goes without it, and reads more of the logs at its next start: --repair removes it"
        yield LogFinding("warning", path, "it cannot be read as a checkpoint", advice, repair=Remove(path))
    else:
        facts.offsets[path.name] = found


# Topics ---------------------------------------------------------------------------------------------------


def read_topics(folder: Path) -> dict[str, TopicFacts] | None:
    """The topics that the metadata log knows at its end; None where there is no log to ask."""
    if not folder.is_dir():
        return None
    snapshots = sorted(folder.glob(f"*{SNAPSHOT_OF_METADATA_SUFFIX}"))
    names: dict[UUID, str] = {}
    compacted: set[str] = set()
    for path in (*snapshots[-1:], *segments(folder)):
        for value in _values(path):
            _replay(value, names, compacted)
    return {name: TopicFacts(topic_id, name in compacted) for topic_id, name in names.items()}


def _values(path: Path) -> Iterator[bytes]:
    """The records of a file of the metadata log, up to the first damage."""
    file = open_for_reading(path)
    for position, header in Scanner(file, 0, file.size(), verify=True):
        if not header.is_control:
            try:
                for record in iterate_records(file.read(position, header.size_bytes)):
                    yield record.value or b""
            except Malformed:
                return


def _replay(value: bytes, names: dict[UUID, str], compacted: set[str]) -> None:
    try:
        record = decode_record(value)
    except Malformed:
        return  # of a kind that only Kafka writes
    if isinstance(record, TopicRecord):
        names[record.topic_id] = record.name
    elif isinstance(record, RemoveTopicRecord):
        compacted.discard(names.pop(record.topic_id, ""))
    elif isinstance(record, ConfigRecord) and _is_policy(record) and "compact" in (record.value or "").split(","):
        compacted.add(record.resource_name)


def _is_policy(record: ConfigRecord) -> bool:
    return record.resource_type == TOPIC_CONFIGS and record.name == CLEANUP_POLICY
