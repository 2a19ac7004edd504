"""Producer snapshots: Kafka's `%020d.snapshot`, and beside it `%020d.producers` with all five batches of each.

Kafka's format holds only the last batch of a producer. Ours keeps the last five, so that a retry of any of them is
still a duplicate after a restart, even when retention has deleted the segments. Both files describe the same offset
and both carry a CRC-32C; a damaged one counts as missing.

    .snapshot   version i16 = 1 | crc u32 of the rest | count i32 | entries of
                producer_id i64, epoch i16, last_sequence i32, last_offset i64, offset_delta i32, timestamp i64,
                coordinator_epoch i32, transaction_first_offset i64
    .producers  magic "RPS1" | crc u32 of the rest | end_offset i64 | count i32 | entries of
                producer_id i64, epoch i16, coordinator_epoch i32, transaction_first_offset i64, last_seen_ms i64,
                batch count u8, then per batch
                base_sequence i32, last_sequence i32, base_offset i64, last_offset i64, timestamp i64
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Sequence
from struct import Struct, error
from typing import TypeAlias

from crc32c import crc32c

from runnel.core.partition.producers import (
    BATCHES_KEPT,
    NO_SEQUENCE,
    SEQUENCE_MASK,
    BatchSeen,
    ProducerEntry,
    ProducerStates,
)
from runnel.storage.files import Files

SNAPSHOT_SUFFIX = ".snapshot"
PRODUCERS_SUFFIX = ".producers"
SNAPSHOT_VERSION = 1
PRODUCERS_MAGIC = b"RPS1"

Entries: TypeAlias = list[tuple[int, ProducerEntry]]

_KAFKA_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_KAFKA_ENTRY = Struct(">qhiqiqiq")
_OUR_HEAD = Struct(">4sI")
_OUR_COUNT = Struct(">qi")
_OUR_ENTRY = Struct(">qhiqqB")
_OUR_BATCH = Struct(">iiqqq")


def encode_snapshot(producers: ProducerStates) -> bytes:
    parts = [_COUNT.pack(len(producers))]
    for producer_id, entry in producers:
        last = entry.batches[-1] if entry.batches else BatchSeen(-1, NO_SEQUENCE, -1, -1, -1)
        parts.append(
            _KAFKA_ENTRY.pack(
                producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.base_offset,
                entry.last_seen_ms,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        )
    body = b"".join(parts)
    return _KAFKA_HEAD.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> Entries | None:
    try:
        version, checksum = _KAFKA_HEAD.unpack_from(data)
        if version != SNAPSHOT_VERSION or crc32c(data[_KAFKA_HEAD.size :]) != checksum:
            return None
        (count,) = _COUNT.unpack_from(data, _KAFKA_HEAD.size)
        start = _KAFKA_HEAD.size + _COUNT.size
        rows = [_KAFKA_ENTRY.unpack_from(data, start + number * _KAFKA_ENTRY.size) for number in range(count)]
    except error:
        return None
    return [(row[0], _entry_of_kafka(*row[1:])) for row in rows]


def _entry_of_kafka(
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerEntry:
    batches = []
    if last_sequence != NO_SEQUENCE:
        base_sequence = (last_sequence - delta) & SEQUENCE_MASK
        batches = [BatchSeen(base_sequence, last_sequence, last_offset - delta, last_offset, timestamp)]
    return ProducerEntry(epoch, batches, timestamp, coordinator_epoch, first_offset)


def encode_producers(producers: ProducerStates, end_offset: int) -> bytes:
    parts = [_OUR_COUNT.pack(end_offset, len(producers))]
    for producer_id, entry in producers:
        parts.append(
            _OUR_ENTRY.pack(
                producer_id,
                entry.epoch,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
                entry.last_seen_ms,
                len(entry.batches),
            )
        )
        parts.extend(_OUR_BATCH.pack(*seen) for seen in entry.batches)
    body = b"".join(parts)
    return _OUR_HEAD.pack(PRODUCERS_MAGIC, crc32c(body)) + body


def decode_producers(data: bytes, end_offset: int) -> Entries | None:
    try:
        magic, checksum = _OUR_HEAD.unpack_from(data)
        if magic != PRODUCERS_MAGIC or crc32c(data[_OUR_HEAD.size :]) != checksum:
            return None
        offset, count = _OUR_COUNT.unpack_from(data, _OUR_HEAD.size)
        return _decode_entries(data, count) if offset == end_offset else None
    except error:
        return None


def _decode_entries(data: bytes, count: int) -> Entries | None:
    entries: Entries = []
    at = _OUR_HEAD.size + _OUR_COUNT.size
    for _ in range(count):
        producer_id, epoch, coordinator_epoch, first_offset, seen_ms, batches = _OUR_ENTRY.unpack_from(data, at)
        at += _OUR_ENTRY.size
        if batches > BATCHES_KEPT:
            return None
        seen = [BatchSeen._make(_OUR_BATCH.unpack_from(data, at + n * _OUR_BATCH.size)) for n in range(batches)]
        at += batches * _OUR_BATCH.size
        entries.append((producer_id, ProducerEntry(epoch, seen, seen_ms, coordinator_epoch, first_offset)))
    return entries


class ProducerSnapshots:
    """The snapshot files of one log, oldest first."""

    __slots__ = ("_directory", "_files", "_ours", "offsets")

    def __init__(self, directory: str, files: Files, names: Sequence[str]) -> None:
        self._directory = directory
        self._files = files
        suffixes = (SNAPSHOT_SUFFIX, PRODUCERS_SUFFIX)
        self._ours = any(name.endswith(PRODUCERS_SUFFIX) for name in names)
        found = [name.partition(".")[0] for name in names if name.endswith(suffixes)]
        self.offsets = sorted({int(digits) for digits in found if digits.isdigit()})

    def path(self, offset: int, suffix: str) -> str:
        return f"{self._directory}/{offset:020d}{suffix}"

    def paths(self, offset: int) -> list[str]:
        """The files of this snapshot that exist."""
        both = (self.path(offset, SNAPSHOT_SUFFIX), self.path(offset, PRODUCERS_SUFFIX))
        return [path for path in both if self._files.exists(path)]

    def write(self, producers: ProducerStates, end_offset: int) -> None:
        """Both files, not yet durable: a torn one is found by its checksum.

        A good one at this offset is left as it is: it may be all that a power loss in the middle of this would leave.
        """
        if self.is_complete(end_offset) and self._kafka(end_offset) is not None:
            return
        if len(producers):
            self._ours = True
            data = encode_producers(producers, end_offset)
            self._files.write_bytes(self.path(end_offset, PRODUCERS_SUFFIX), data)
        else:
            self._remove(self.path(end_offset, PRODUCERS_SUFFIX))  # Kafka's own format says it all
        self._files.write_bytes(self.path(end_offset, SNAPSHOT_SUFFIX), encode_snapshot(producers))
        if end_offset not in self.offsets:
            self.offsets = sorted([*self.offsets, end_offset])

    def load(self, producers: ProducerStates, first_offset: int, end_offset: int) -> int:
        """Fill `producers`; the offset from which the log has to be replayed on top.

        All five batches are worth a longer replay. Where no snapshot has them, the whole log is read, and Kafka's
        format adds the last batch of those that are no longer in it. A folder that Kafka left has only that.
        """
        usable = [offset for offset in reversed(self.offsets) if offset <= end_offset]
        for offset in usable:
            entries = self._complete(offset) if offset >= first_offset else None
            if entries is not None:
                producers.load(entries)
                return offset
        known = [(offset, entries) for offset in usable if (entries := self._kafka(offset)) is not None]
        if known and not self._ours:
            producers.load(known[0][1])
            return max(known[0][0], first_offset)
        before = [entries for offset, entries in known if offset <= first_offset]
        gone = [each for each in (known[0][1] if known else []) if each[1].last_offset < first_offset]
        producers.load([*(before[0] if before else []), *gone])
        return first_offset

    def is_complete(self, offset: int) -> bool:
        """Whether there is a good snapshot at `offset` that holds all five batches of each producer."""
        return offset in self.offsets and self._complete(offset) is not None

    def _complete(self, offset: int) -> Entries | None:
        data = self._read(self.path(offset, PRODUCERS_SUFFIX))
        if data is not None:
            return decode_producers(data, offset)
        entries = self._kafka(offset)
        return entries if entries == [] else None

    def _kafka(self, offset: int) -> Entries | None:
        data = self._read(self.path(offset, SNAPSHOT_SUFFIX))
        return None if data is None else decode_snapshot(data)

    def _read(self, path: str) -> bytes | None:
        try:
            return self._files.read_bytes(path)
        except FileNotFoundError:
            return None

    def forget(self, segment_offsets: Container[int], durable_offset: int) -> list[str]:
        """Files that are no longer needed: neither at the start of a segment nor the newest that is surely durable.

        They may be removed only when the one at `durable_offset` has been fsynced.
        """
        stale = [offset for offset in self.offsets if offset < durable_offset and offset not in segment_offsets]
        self.offsets = [offset for offset in self.offsets if offset not in stale]
        return [path for offset in stale for path in self.paths(offset)]

    def delete_damaged(self, first_offset: int) -> None:
        """After an unclean stop: those from `first_offset` on may be torn, and must not pass for good ones later."""
        for offset in [offset for offset in self.offsets if offset >= first_offset]:
            data = self._read(self.path(offset, PRODUCERS_SUFFIX))
            if data is not None and decode_producers(data, offset) is None:
                self._remove(self.path(offset, PRODUCERS_SUFFIX))
                data = None
            if self._kafka(offset) is None:
                self._remove(self.path(offset, SNAPSHOT_SUFFIX))
                if data is None:
                    self._delete(offset)

    def delete_after(self, end_offset: int) -> bool:
        """Delete those that describe offsets which the log no longer has; whether there were any."""
        gone = [offset for offset in self.offsets if offset > end_offset]
        for offset in gone:
            self._delete(offset)
        return bool(gone)

    def _delete(self, offset: int) -> None:
        self.offsets = [other for other in self.offsets if other != offset]
        for suffix in (SNAPSHOT_SUFFIX, PRODUCERS_SUFFIX):
            self._remove(self.path(offset, suffix))

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(path)
