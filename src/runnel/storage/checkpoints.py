"""Kafka's small text files: partition.metadata, leader-epoch-checkpoint, offset checkpoints, properties.

In: the bytes of a file; out: values, or None where the bytes are not what they should be. A damaged checkpoint is
never an error here: the caller falls back to reading the log.
"""

from __future__ import annotations

import base64
import itertools
import uuid
from collections.abc import Mapping, Sequence

PARTITION_METADATA_NAME = "partition.metadata"
LEADER_EPOCHS_NAME = "leader-epoch-checkpoint"
FIRST_SEGMENT_NAME = "first-segment-checkpoint"
"""Runnel's own: the base offset of the oldest segment that was not deleted."""
COMPACTED_NAME = "compacted-checkpoint"
"""Runnel's own: below this offset compaction may have left gaps."""


def encode_topic_id(topic_id: uuid.UUID) -> str:
    """Kafka's Uuid.toString: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> uuid.UUID | None:
    for line in data.decode("latin-1").splitlines():
        key, _, value = line.partition(":")
        if key == "topic_id":
            try:
                return decode_topic_id(value.strip())
            except ValueError:
                return None
    return None


def _encode_rows(rows: Sequence[str]) -> bytes:
    return "\n".join(["0", str(len(rows)), *rows, ""]).encode()


def _decode_rows(data: bytes, columns: int) -> list[list[str]] | None:
    """Version 0, a count, and that many rows; None if anything is missing, left over or of another version."""
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdigit():
        return None
    rows = [line.split() for line in lines[2:]]
    if len(rows) != int(lines[1]) or any(len(row) != columns for row in rows):
        return None
    return rows


def encode_first_segment(base_offset: int) -> bytes:
    return encode_offset(base_offset)


def decode_first_segment(data: bytes) -> int | None:
    return decode_offset(data)


def encode_offset(offset: int) -> bytes:
    return _encode_rows([str(offset)])


def decode_offset(data: bytes) -> int | None:
    rows = _decode_rows(data, 1)
    if rows is None or len(rows) != 1 or not rows[0][0].isdigit():
        return None
    return int(rows[0][0])


def encode_leader_epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    return _encode_rows([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def decode_leader_epochs(data: bytes) -> list[tuple[int, int]] | None:
    rows = _decode_rows(data, 2)
    if rows is None:
        return None
    try:
        entries = [(int(epoch), int(start_offset)) for epoch, start_offset in rows]
    except ValueError:
        return None
    rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(entries))
    return entries if rising else None


def encode_offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> bytes:
    return _encode_rows([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def decode_offset_checkpoint(data: bytes) -> dict[tuple[str, int], int] | None:
    rows = _decode_rows(data, 3)
    if rows is None:
        return None
    try:
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError:
        return None


def encode_properties(values: Mapping[str, str]) -> bytes:
    return "".join(["#\n", *(f"{key}={value}\n" for key, value in values.items())]).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!"))]
    return {key.strip(): value.strip() for key, value in pairs}
