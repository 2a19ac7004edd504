"""One batch in compaction: which of its records survive, and the batch that is left.

In: a batch and the key map; out: the same batch, a smaller one, or none. As in Kafka, what is left
keeps its base offset, its last offset and its sequence numbers, so offsets have gaps and producers lose nothing; a
batch that must stay though no record does (the last of a producer) stays as a header alone. Records keep their bytes:
a batch is only taken apart where tombstones get their delete horizon (KIP-534), which moves the base timestamp.
"""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple

from runnel.storage.compaction.key_map import CLEAN, KeyMap, shorten
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
from runnel.wire.record_keys import Walked, rebase, timestamp_delta, walk_records

NO_TIMESTAMP = -1


class Survivors(NamedTuple):
    batch: bytes | bytearray
    max_timestamp: int
    records: int
    is_changed: bool


class BatchFilter:
    """The rules of one round."""

    __slots__ = ("_delete_retention_ms", "_map", "_newest", "_now_ms")

    def __init__(self, key_map: KeyMap, now_ms: int, delete_retention_ms: int) -> None:
        self._map = key_map
        self._newest = key_map.newest
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def __call__(self, chunk: bytes, at: int, header: BatchHeader, number: int, keep_empty: bool) -> Survivors | None:
        """What is left of the batch; None if nothing is. `keep_empty`: at least its header stays."""
        if header.attributes & CONTROL_BIT:
            return whole(chunk, at, header)  # the end of a transaction; with them comes the rule when it may go
        if header.record_count == 0:
            return whole(chunk, at, header) if keep_empty else None
        if number != CLEAN:
            count = self._map.newest_count(number)
            if count == 0:
                return _empty(header) if keep_empty else None
            if count == header.record_count and not self._map.has_null_values(number):
                return whole(chunk, at, header)
        return self._opened(chunk, at, header, number, keep_empty)

    def _opened(self, chunk: bytes, at: int, header: BatchHeader, number: int, keep_empty: bool) -> Survivors | None:
        data, walked = open_batch(chunk, at, header)
        kept = self._newest_of(walked, number)
        tombstones = set(walked.null_values).intersection(kept) if walked.null_values else None
        horizon_ms = header.delete_horizon_ms
        new_horizon_ms = None
        if tombstones:
            if horizon_ms is None:
                new_horizon_ms = self._now_ms + self._delete_retention_ms
            elif self._now_ms >= horizon_ms:
                kept = [number for number in kept if number not in tombstones]
        if not kept:
            return _empty(header) if keep_empty else None
        if len(kept) == header.record_count and new_horizon_ms is None:
            return whole(chunk, at, header)
        return _rebuilt(header, data, walked.starts, kept, new_horizon_ms)

    def _newest_of(self, walked: Walked, batch: int) -> list[int]:
        """The numbers of the records whose key has no newer record, here or in a later batch."""
        keys = walked.keys
        kept = [number for number, found in enumerate(map(self._newest, keys, repeat(batch))) if found == batch]
        if len(set(keys)) < len(keys) or None in keys:
            last = dict(zip(keys, range(len(keys)), strict=True))
            last.pop(None, None)  # without a key a record cannot be asked for again, so Kafka drops it too
            kept = [number for number in kept if last.get(keys[number]) == number]
        return kept


def open_batch(chunk: bytes, at: int, header: BatchHeader) -> tuple[bytes, Walked]:
    """The records of the batch at `at`: the bytes that they lie in, and where. Malformed if they cannot be read."""
    start, end = at + HEADER_BYTES, at + header.batch_length + LENGTH_PREFIX_BYTES
    codec = header.attributes & COMPRESSION_MASK
    if not codec:
        return chunk, walk_records(chunk, start, end, header.record_count, shorten)
    data = decompress(codec, memoryview(chunk)[start:end])
    return data, walk_records(data, 0, len(data), header.record_count, shorten)


def whole(chunk: bytes, at: int, header: BatchHeader) -> Survivors:
    batch = chunk[at : at + header.batch_length + LENGTH_PREFIX_BYTES]
    return Survivors(batch, header.max_timestamp, header.record_count, False)


def _empty(header: BatchHeader) -> Survivors:
    """Kafka's empty batch: it only tells which offsets and sequences were there."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    left = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return Survivors(assemble(left, b""), header.max_timestamp, 0, True)


def _rebuilt(
    header: BatchHeader, data: bytes, starts: list[int], kept: list[int], new_horizon_ms: int | None
) -> Survivors:
    base_timestamp, attributes, max_timestamp = header.base_timestamp, header.attributes, header.max_timestamp
    if not attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = base_timestamp + max([timestamp_delta(data, starts[number])[0] for number in kept])
    if new_horizon_ms is None:
        pieces = [data[starts[number] : starts[number + 1]] for number in kept]
    else:
        shift = new_horizon_ms - base_timestamp
        base_timestamp, attributes = new_horizon_ms, attributes | DELETE_HORIZON_BIT
        pieces = [rebase(data, starts[number], starts[number + 1], shift) for number in kept]
    left = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(kept)
    )
    return Survivors(assemble(left, compress(header.compression, b"".join(pieces))), max_timestamp, len(kept), True)
