"""Compaction for the storage tests: keyed batches, one whole round without a broker, and what readers then see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runnel.storage.compaction.cleaning import Cleaned, Summary, clean
from runnel.storage.compaction.planning import dirt_of, job_of
from runnel.storage.compaction.swapping import finish, swap
from runnel.storage.log import Log
from runnel.wire.batch import decode_records, encode_batch, iterate_headers
from storage.builders import append, sync

KEY_MAP_BYTES = 1 << 20

Pairs = Sequence[tuple[bytes | None, bytes | None]]


class Seen(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def keyed_batch(
    pairs: Pairs,
    *,
    timestamp: int = 1000,
    compression: int = 0,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = -1,
) -> bytearray:
    """Record i has the timestamp `timestamp + i`."""
    return encode_batch(
        [(timestamp + number, key, value, [("h", b"1")]) for number, (key, value) in enumerate(pairs)],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
    )


def put(log: Log, *pairs: tuple[bytes | None, bytes | None], now_ms: int = 1000, compression: int = 0) -> int:
    """Append one batch; its base offset."""
    return append(log, keyed_batch(pairs, timestamp=now_ms, compression=compression), now_ms=now_ms).base_offset


def compact(log: Log, *, now_ms: int = 1000, key_map_bytes: int = KEY_MAP_BYTES, roll: bool = True) -> Summary:
    """One round of everything that may be cleaned, swaps and all."""
    if roll:
        log.roll(now_ms)
    sync(log)
    dirt = dirt_of(log, log.end_offset, now_ms)
    job = job_of(log, dirt, now_ms, key_map_bytes=key_map_bytes, io_bytes_per_s=1e308)
    for found in clean(job, log.files, lambda _: None):
        if isinstance(found, Cleaned):
            assert swap(log, found, log.truncations)
            log.file_jobs.run_all()
        else:
            assert finish(log, found, log.truncations)
            log.file_jobs.run_all()
            return found
    raise AssertionError("a round ends with a summary")


def records(log: Log, offset: int | None = None, max_bytes: int = 700) -> list[Seen]:
    """Every record from `offset` on, read as a consumer reads: it continues after the last batch of each reply."""
    position = log.log_start_offset if offset is None else offset
    found: list[Seen] = []
    while True:
        plan = log.plan_read(position, max_bytes)
        if plan.is_empty:
            return [each for each in found if offset is None or each.offset >= offset]
        data = plan.read()
        for at, header in iterate_headers(data):
            found += [Seen(r.offset, r.key, r.value, r.timestamp) for r in decode_records(data, at)]
            assert header.next_offset > position, "the reader does not move"
            position = header.next_offset


def pairs_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(each.offset, each.key, each.value) for each in records(log)]
