"""Idempotent producers of one partition: the last five batches of each, sequence checks, epochs, expiry.

In: the header of a batch about to be appended (`check`) or just appended (`update`); out: nothing (append it), a
`Duplicate` (answer the old offsets), or a `SequenceRefused` (the client's mistake, with Kafka's error code).
The rules are those of Kafka's ProducerAppendInfo: an unknown producer may start at any sequence (its state may have
expired), a new epoch starts at 0, and only a batch with exactly the same sequence range counts as a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runnel.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from runnel.wire.errors import ErrorCode

BATCHES_KEPT = 5
"""What an idempotent client may have in flight (max.in.flight.requests.per.connection); Kafka keeps as many."""
SEQUENCE_MASK = 0x7FFF_FFFF
NO_SEQUENCE = -1


class BatchSeen(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Duplicate(NamedTuple):
    base_offset: int
    last_offset: int
    timestamp: int


class SequenceRefused(NamedTuple):
    code: ErrorCode
    message: str


class ProducerEntry:
    """What is known of one producer. `batches` is newest last and holds at most five."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_seen_ms", "transaction_first_offset")

    def __init__(
        self,
        epoch: int,
        batches: list[BatchSeen],
        last_seen_ms: int,
        coordinator_epoch: int = -1,
        transaction_first_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.batches = batches
        self.last_seen_ms = last_seen_ms
        self.coordinator_epoch = coordinator_epoch
        self.transaction_first_offset = transaction_first_offset

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class ProducerStates:
    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | SequenceRefused | None:
        """May this batch of an idempotent producer be appended next?"""
        base_sequence = header.base_sequence
        if base_sequence < 0 and not header.attributes & CONTROL_BIT:
            return SequenceRefused(
                ErrorCode.INVALID_RECORD, f"a batch of producer {header.producer_id} has no sequence"
            )
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        epoch = header.producer_epoch
        if epoch < entry.epoch:
            return SequenceRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {epoch}, which is older than the last seen {entry.epoch}",
            )
        if header.attributes & CONTROL_BIT:
            return None
        if epoch > entry.epoch:
            return None if base_sequence == 0 else _out_of_order(header, "0, as its epoch is new")
        if not entry.batches:
            return None
        last = entry.batches[-1].last_sequence
        if base_sequence == (last + 1) & SEQUENCE_MASK:
            return None
        return _duplicate_of(entry, header) or _out_of_order(header, str((last + 1) & SEQUENCE_MASK))

    def update(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """The batch is in the log at `base_offset`. `header.base_offset` is not looked at: it may be the client's."""
        attributes = header.attributes
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_epoch, [], now_ms)
        batches = entry.batches
        if header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            batches.clear()
        if now_ms > entry.last_seen_ms:
            entry.last_seen_ms = now_ms
        if attributes & CONTROL_BIT:
            entry.transaction_first_offset = -1
            return
        delta = header.last_offset_delta
        sequence = header.base_sequence
        if len(batches) >= BATCHES_KEPT:
            del batches[0]
        batches.append(
            BatchSeen(
                sequence,
                (sequence + delta) & SEQUENCE_MASK,
                base_offset,
                base_offset + delta,
                header.max_timestamp,
            )
        )
        if attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers unseen for `expiration_ms`, except those inside a transaction; how many."""
        gone = [
            producer_id
            for producer_id, entry in self._entries.items()
            if now_ms - entry.last_seen_ms >= expiration_ms and entry.transaction_first_offset < 0
        ]
        for producer_id in gone:
            del self._entries[producer_id]
        return len(gone)

    def load(self, entries: Iterable[tuple[int, ProducerEntry]]) -> None:
        """Start again from a snapshot."""
        self._entries = dict(entries)


def _duplicate_of(entry: ProducerEntry, header: BatchHeader) -> Duplicate | None:
    first, last = header.base_sequence, header.last_sequence
    for seen in entry.batches:
        if seen.base_sequence == first and seen.last_sequence == last:
            return Duplicate(seen.base_offset, seen.last_offset, seen.timestamp)
    return None


def _out_of_order(header: BatchHeader, expected: str) -> SequenceRefused:
    return SequenceRefused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence} where {expected} was expected",
    )
