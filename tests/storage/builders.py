"""Batches and logs for the storage tests."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from runnel.storage.config import LogConfig
from runnel.storage.files import Files
from runnel.storage.handles import HandleCache
from runnel.storage.log import AppendResult, Log
from runnel.wire.batch import BatchHeader, encode_batch, iterate_headers, read_header

TOPIC_ID = uuid.UUID(int=0x1234)
MEMORY_ROOT = Path("/data")


def make_batch(
    records: int = 1,
    *,
    value: bytes = b"value",
    timestamp: int = 1000,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = -1,
) -> bytearray:
    return encode_batch(
        [(timestamp, None, value, ()) for _ in range(records)],
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        base_sequence=sequence,
    )


def open_log(
    files: Files,
    directory: Path = MEMORY_ROOT / "topic-0",
    *,
    clean: bool = False,
    now_ms: int = 1000,
    handles: HandleCache | None = None,
    log_start_offset: int | None = None,
    recovery_point: int | None = None,
    cleaned_offset: int | None = None,
    salvage: bool = False,
    **config: Any,
) -> Log:
    return Log.open(
        directory,
        TOPIC_ID,
        LogConfig(**config),
        files=files,
        handles=handles or HandleCache(),
        clean=clean,
        now_ms=now_ms,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        cleaned_offset=cleaned_offset,
        salvage=salvage,
    )


def append(log: Log, batch: bytearray | None = None, *, leader_epoch: int = 0, now_ms: int = 1000) -> AppendResult:
    batch = make_batch() if batch is None else batch
    return log.append(memoryview(batch), read_header(batch), leader_epoch, now_ms)


def sync(log: Log) -> None:
    job = log.sync_job()
    if job is not None:
        job.run()
        log.synced(job)


def read_headers(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Every batch from `offset` to the end, as a consumer would get them; each must continue the one before."""
    position = log.log_start_offset if offset is None else offset
    found: list[BatchHeader] = []
    while True:
        plan = log.plan_read(position, max_bytes)
        if plan.is_empty:
            return found
        data = plan.read()
        batches = [header for _, header in iterate_headers(data)]
        assert sum(header.size_bytes for header in batches) == len(data), "a batch was cut"
        assert len(data) == plan.length
        assert batches[-1].last_offset >= position, "the reader does not move"
        found += batches
        position = batches[-1].next_offset


def read_values(log: Log, offset: int | None = None) -> list[tuple[int, int]]:
    """(base offset, record count) of every batch."""
    return [(header.base_offset, header.record_count) for header in read_headers(log, offset)]
