"""One batch in compaction: what is left of it when it is known which of its records stay.

In: a batch and its records that are the newest of their keys; out: the same batch, a smaller one, or none. As in Kafka,
what is left keeps its base offset, its last offset and its sequence numbers, so offsets have gaps and producers lose
nothing; a batch that must stay though no record does stays as a header alone. Records keep their bytes: they are only
taken apart where tombstones get their delete horizon (KIP-534), which moves the base timestamp.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from runnel.storage.compaction.indexing import walk_batch
from runnel.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    assemble,
)
from runnel.wire.compression import compress, decompress
from runnel.wire.record_keys import Walked, has_null_value, rebase, record_end, timestamp_delta

NO_TIMESTAMP = -1

Span = tuple[int, int]
"""Where a record starts and ends."""


class Survivors(NamedTuple):
    batch: bytes | bytearray
    max_timestamp: int
    records: int
    is_changed: bool


class BatchFilter:
    """The rules of one round. `newest`: the keys that have a record in the dirty part."""

    __slots__ = ("_delete_retention_ms", "_newest", "_now_ms")

    def __init__(self, newest: Container[bytes | None], now_ms: int, delete_retention_ms: int) -> None:
        self._newest = newest
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def clean(self, chunk: bytes, at: int, header: BatchHeader, keep_empty: bool) -> Survivors | None:
        """Of a batch in the clean part: records whose keys have no newer one. `keep_empty`: at least the header."""
        if header.attributes & CONTROL_BIT:
            return whole(chunk, at, header)  # the end of a transaction; with them comes the rule when it may go
        if header.record_count == 0:
            return whole(chunk, at, header) if keep_empty else None
        data, walked = walk_batch(chunk, at, at + header.size_bytes, header.attributes, header.record_count)
        starts = walked.starts
        spans = [(starts[number], starts[number + 1]) for number in self._without_newer(walked)]
        null_values = {starts[number] for number in walked.null_values}
        return self._left(chunk, at, header, data, spans, null_values, keep_empty)

    def _without_newer(self, walked: Walked) -> list[int]:
        keys, newest = walked.keys, self._newest
        kept = [number for number, key in enumerate(keys) if key not in newest]
        if len(set(keys)) < len(keys) or None in keys:
            last = dict(zip(keys, range(len(keys)), strict=True))
            last.pop(None, None)  # without a key a record cannot be asked for again, so Kafka drops it too
            kept = [number for number in kept if last.get(keys[number]) == number]
        return kept

    def dirty(
        self, chunk: bytes, at: int, header: BatchHeader, starts: list[int], has_null_values: bool, keep_empty: bool
    ) -> Survivors | None:
        """Of a batch in the dirty part: the records that start there, counted from the first."""
        count = header.record_count
        if header.attributes & CONTROL_BIT or (len(starts) == count and not has_null_values):
            return whole(chunk, at, header)
        if not starts:
            return _empty(header) if keep_empty else None
        data, first = chunk, at + HEADER_BYTES
        if header.attributes & COMPRESSION_MASK:
            data, first = decompress(header.compression, memoryview(chunk)[first : at + header.size_bytes]), 0
        spans = [(first + start, record_end(data, first + start)) for start in starts]
        null_values = {start for start, _ in spans if has_null_value(data, start)} if has_null_values else set()
        return self._left(chunk, at, header, data, spans, null_values, keep_empty)

    def _left(
        self,
        chunk: bytes,
        at: int,
        header: BatchHeader,
        data: bytes,
        spans: list[Span],
        null_values: set[int],
        keep_empty: bool,
    ) -> Survivors | None:
        """`null_values`: where records without a value start."""
        new_horizon_ms = None
        if null_values and any(start in null_values for start, _ in spans):
            if header.delete_horizon_ms is None:
                new_horizon_ms = self._now_ms + self._delete_retention_ms
            elif self._now_ms >= header.delete_horizon_ms:
                spans = [span for span in spans if span[0] not in null_values]
        if not spans:
            return _empty(header) if keep_empty else None
        if len(spans) == header.record_count and new_horizon_ms is None:
            return whole(chunk, at, header)
        return _rebuilt(header, data, spans, new_horizon_ms)


def whole(chunk: bytes, at: int, header: BatchHeader) -> Survivors:
    batch = chunk[at : at + header.batch_length + LENGTH_PREFIX_BYTES]
    return Survivors(batch, header.max_timestamp, header.record_count, False)


def _empty(header: BatchHeader) -> Survivors:
    """Kafka's empty batch: it only tells which offsets and sequences were there."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    left = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return Survivors(assemble(left, b""), header.max_timestamp, 0, True)


def _rebuilt(header: BatchHeader, data: bytes, spans: list[Span], new_horizon_ms: int | None) -> Survivors:
    base_timestamp, attributes, max_timestamp = header.base_timestamp, header.attributes, header.max_timestamp
    if not attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = base_timestamp + max([timestamp_delta(data, start)[0] for start, _ in spans])
    if new_horizon_ms is None:
        pieces = [data[start:end] for start, end in spans]
    else:
        shift = new_horizon_ms - base_timestamp
        base_timestamp, attributes = new_horizon_ms, attributes | DELETE_HORIZON_BIT
        pieces = [rebase(data, start, end, shift) for start, end in spans]
    left = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(spans)
    )
    return Survivors(assemble(left, compress(header.compression, b"".join(pieces))), max_timestamp, len(spans), True)
