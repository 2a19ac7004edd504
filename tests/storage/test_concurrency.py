"""Reading in threads while the log grows, rolls, deletes, syncs and evicts file handles."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from runnel.storage.files import Files, MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.storage.log import Log
from runnel.storage.reading import ReadPlan
from runnel.storage.syncing import SyncJob
from runnel.wire.batch import check_crc, iterate_headers
from storage.builders import append, make_batch, open_log

STEPS = 3000


def check(plan: ReadPlan, offset: int) -> None:
    data = plan.read()
    headers = [header for position, header in iterate_headers(data) if check_crc(data, position, header)]
    assert headers, "an empty read was planned"
    assert sum(header.size_bytes for header in headers) == len(data)
    assert headers[0].base_offset <= offset <= headers[0].last_offset
    assert plan.next_offset == headers[-1].next_offset


@pytest.mark.parametrize("kind", ["os", "memory"])
def test_readers_in_threads_are_never_harmed(kind: str, tmp_path: Path) -> None:
    files: Files = OsFiles() if kind == "os" else MemoryFiles()
    handles = HandleCache(2)
    options = {"segment_bytes": 20_000, "index_interval_bytes": 1000, "retention_bytes": 60_000, "retention_ms": -1}
    log = open_log(files, tmp_path / "topic-0", handles=handles, **options)
    random = Random(1)
    reads: list[Future[None]] = []
    with ThreadPoolExecutor(4) as pool:
        for step in range(STEPS):
            value = random.randbytes(random.randint(1, 400))
            append(log, make_batch(random.randint(1, 3), value=value, timestamp=step))
            if step % 2 == 0:
                offset = random.randint(log.log_start_offset, log.end_offset - 1)
                plan = log.plan_read(offset, random.choice([1, 500, 5000, 50_000]))
                reads.append(pool.submit(check, plan, offset))
            if step % 50 == 0:
                log.enforce_retention(step, defer_removal=True)
                pool.submit(log.file_jobs.run_all)
            if step % 30 == 0:
                sync_in(pool, log)
    for read in reads:
        read.result()
    assert log.log_start_offset > 0
    assert log.flushed_offset > 0
    assert list(log.verify()) == []


def sync_in(pool: ThreadPoolExecutor, log: Log) -> None:
    job: SyncJob | None = log.sync_job()
    if job is not None:
        pool.submit(job.run).result()
        log.synced(job)


def test_logs_open_in_many_threads_at_once(tmp_path: Path) -> None:
    """As the service does at start: one handle cache, one executor."""
    files, handles = OsFiles(), HandleCache(3)
    barrier = threading.Barrier(4)

    def work(number: int) -> int:
        barrier.wait()
        for round_number in range(5):
            log = open_log(files, tmp_path / f"topic-{number}", handles=handles, clean=round_number % 2 == 0)
            for _ in range(10):
                append(log)
            log.close(clean=True)
        return log.end_offset

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [50] * 4
    assert len(handles) == 0
