"""The data directory of a broker: whose it is, who holds it, which partitions lie in it, how it was left.

In: a path; out: identities, checkpoints and folder names, in Kafka's own files: meta.properties, .lock,
.kafka_cleanshutdown, the two offset checkpoints, `topic-partition` folders. Blocking; the service calls it at
start, at stop, and for its periodic checkpoints (in an executor).
"""

from __future__ import annotations

import base64
import contextlib
import logging
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from runnel.storage.checkpoints import (
    decode_offset_checkpoint,
    decode_properties,
    encode_offset_checkpoint,
    encode_properties,
)
from runnel.storage.errors import DataDirInvalid
from runnel.storage.files import Files, Lock

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
DELETE_SUFFIX = "-delete"
FOLDER_NAME_BYTES_MAX = 255

_PARTITION_FOLDER = re.compile(r"^([a-zA-Z0-9._-]+)-(\d+)$")
_DELETED_FOLDER = re.compile(r"^.+-(\d+)\.[0-9a-f]{32}-delete$")

logger = logging.getLogger("runnel.storage")


class Identity(NamedTuple):
    """What meta.properties says, as Kafka writes it (version 1)."""

    cluster_id: str
    node_id: int
    directory_id: str

    @property
    def directory_uuid(self) -> uuid.UUID:
        """Zero where an old directory has none."""
        try:
            return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{self.directory_id}=="))
        except ValueError:
            return uuid.UUID(int=0)


class PartitionFolder(NamedTuple):
    topic: str
    partition: int
    path: Path


def partition_folder_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


class DataDirectory:
    """Open it, `lock` it, and only then read or write anything else."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self.files = files
        self._lock: Lock | None = None

    def lock(self) -> None:
        """Make the directory if needed and hold it for this process; DataDirInUse if another does."""
        if self.files.make_directory(self.path):
            self.files.sync_directory(self.path.parent)
        self._lock = self.files.lock(self.path)

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- identity ----------------------------------------------------------------------------------------------

    def identity(self) -> Identity | None:
        """None for a new directory; DataDirInvalid if it has no readable identity but once had one."""
        try:
            values = decode_properties(self.files.read_bytes(self.path / META_PROPERTIES))
        except FileNotFoundError:
            return None
        if values.get("version") not in ("0", "1"):
            raise DataDirInvalid(f"{self.path / META_PROPERTIES} has no known version")
        node_id = values.get("node.id") or values.get("broker.id") or ""
        if not node_id.isdigit() or "cluster.id" not in values:
            raise DataDirInvalid(f"{self.path / META_PROPERTIES} lacks node.id or cluster.id")
        return Identity(values["cluster.id"], int(node_id), values.get("directory.id", ""))

    def claim(self, cluster_id: str | None, node_id: int, new_uuid: uuid.UUID) -> Identity:
        """Take the directory for this broker: write its identity if it has none, refuse another's.

        Without a `cluster_id` the directory's own, or one made of `new_uuid`, is used.
        """
        found = self.identity()
        if found is None:
            fresh = base64.urlsafe_b64encode(new_uuid.bytes).rstrip(b"=").decode()
            identity = Identity(cluster_id or fresh, node_id, fresh)
            self._write_identity(identity)
            return identity
        if cluster_id is not None and cluster_id != found.cluster_id:
            raise DataDirInvalid(f"{self.path} belongs to cluster {found.cluster_id}, not {cluster_id}")
        if node_id != found.node_id:
            raise DataDirInvalid(f"{self.path} belongs to node {found.node_id}, not {node_id}")
        return found

    def _write_identity(self, identity: Identity) -> None:
        values = {
            "cluster.id": identity.cluster_id,
            "directory.id": identity.directory_id,
            "node.id": str(identity.node_id),
            "version": "1",
        }
        self.files.write_atomic(self.path / META_PROPERTIES, encode_properties(values))

    # --- how it was left ---------------------------------------------------------------------------------------

    def take_clean_marker(self) -> bool:
        """Whether the last stop was clean. The marker is gone afterwards, durably: it vouches for one start."""
        try:
            self.files.remove(self.path / CLEAN_SHUTDOWN)
        except FileNotFoundError:
            return False
        self.files.sync_directory(self.path)
        return True

    def write_clean_marker(self) -> None:
        """The last thing that a clean stop does, after every log was closed cleanly."""
        self.files.write_atomic(self.path / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')

    def read_checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """RECOVERY_POINTS, LOG_STARTS or CLEANED. A damaged file reads as empty: a full scan."""
        try:
            data = self.files.read_bytes(self.path / name)
        except FileNotFoundError:
            return {}
        offsets = decode_offset_checkpoint(data)
        if offsets is None:
            logger.error("%s is damaged and is ignored", self.path / name)
            return {}
        return offsets

    def write_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self.files.write_atomic(self.path / name, encode_offset_checkpoint(offsets))

    # --- partitions --------------------------------------------------------------------------------------------

    def partition_path(self, topic: str, partition: int) -> Path:
        return self.path / partition_folder_name(topic, partition)

    def partitions(self) -> list[PartitionFolder]:
        """Every partition folder, without those that wait for their removal."""
        matches = [_PARTITION_FOLDER.match(name) for name in sorted(self.files.list(self.path))]
        found = [(match[1], int(match[2]), match[0]) for match in matches if match]
        return [PartitionFolder(topic, partition, self.path / name) for topic, partition, name in found]

    def mark_deleted(self, topic: str, partition: int, unique: uuid.UUID) -> Path | None:
        """Rename the folder so that it no longer counts; it is removed later. None if there is none."""
        path = self.partition_path(topic, partition)
        ending = f"-{partition}.{unique.hex}{DELETE_SUFFIX}"
        target = self.path / (topic[: FOLDER_NAME_BYTES_MAX - len(ending)] + ending)
        try:
            self.files.rename(path, target)
        except FileNotFoundError:
            return None
        return target

    def sync(self) -> None:
        """Make renames and new folders durable."""
        self.files.sync_directory(self.path)

    def deleted(self) -> list[Path]:
        """Folders that an earlier run marked as deleted and did not come to remove."""
        return [self.path / name for name in self.files.list(self.path) if _DELETED_FOLDER.match(name)]

    def remove(self, path: Path) -> None:
        """Remove a folder from `mark_deleted` or `deleted`. May take long; run it in the background."""
        with contextlib.suppress(FileNotFoundError):
            self.files.remove_tree(path)
