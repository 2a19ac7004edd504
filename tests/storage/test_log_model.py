"""The log against an obvious model: a list of batches. Random appends, rolls, reads, trims, truncations, restarts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runnel.storage.files import Files, MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.wire.batch import iterate_headers
from runnel.wire.errors import ErrorCode, Refusal
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, sync

CONFIG = {"segment_bytes": 2000, "index_interval_bytes": 150, "retention_ms": 5_000, "segment_ms": 4_000}


class Expected(NamedTuple):
    base_offset: int
    last_offset: int
    timestamp: int
    payload: bytes


class LogMachine(RuleBasedStateMachine):
    """`batches` is everything that was appended and not truncated; the log may have deleted a prefix of it."""

    def make_files(self) -> tuple[Files, Path]:
        files = MemoryFiles()
        files.make_directory(MEMORY_ROOT)
        return files, MEMORY_ROOT / "topic-0"

    @initialize()
    def start(self) -> None:
        self.files, self.directory = self.make_files()
        self.handles = HandleCache(3)  # so few that files are evicted all the time
        self.log = open_log(self.files, self.directory, handles=self.handles, **CONFIG)
        self.batches: list[Expected] = []
        self.start_offset = 0
        self.now_ms = 1000
        self.epoch = 0
        self.sequence = 0
        self.sent: list[tuple[int, int, int, int]] = []
        self.end_when_empty = 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.end_when_empty

    @rule(records=st.integers(1, 4), size=st.integers(0, 400), step=st.integers(-500, 800))
    def append(self, records: int, size: int, step: int) -> None:
        self.now_ms += abs(step)
        timestamp = max(0, self.now_ms + step)
        batch = make_batch(records, value=b"x" * size, timestamp=timestamp)
        result = append(self.log, batch, leader_epoch=self.epoch, now_ms=self.now_ms)
        assert (result.base_offset, result.duplicate) == (self.end_offset, False)
        self.batches.append(Expected(result.base_offset, result.last_offset, timestamp, bytes(batch)))

    @rule(records=st.integers(1, 3))
    def append_idempotent(self, records: int) -> None:
        batch = make_batch(records, timestamp=self.now_ms, producer_id=5, sequence=self.sequence)
        result = append(self.log, batch, leader_epoch=self.epoch, now_ms=self.now_ms)
        assert (result.base_offset, result.duplicate) == (self.end_offset, False)
        self.batches.append(Expected(result.base_offset, result.last_offset, self.now_ms, bytes(batch)))
        self.sent.append((self.sequence, records, result.base_offset, result.last_offset))
        self.sequence += records

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(1, 5))
    def append_duplicate(self, back: int) -> None:
        sequence, records, base_offset, last_offset = self.sent[-min(back, len(self.sent))]
        batch = make_batch(records, timestamp=self.now_ms, producer_id=5, sequence=sequence)
        result = append(self.log, batch, leader_epoch=self.epoch, now_ms=self.now_ms)
        assert result[:3] == (base_offset, last_offset, True)

    @rule()
    def out_of_order(self) -> None:
        if self.sent:
            batch = make_batch(1, producer_id=5, sequence=self.sequence + 1)
            with pytest.raises(Refusal) as refused:
                append(self.log, batch)
            assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def sync(self) -> None:
        sync(self.log)
        assert self.log.flushed_offset == self.log.end_offset
        assert self.log.sync_job() is None

    @rule(offset=st.integers(0, 200), max_bytes=st.integers(1, 3000), limit=st.integers(0, 200))
    def read(self, offset: int, max_bytes: int, limit: int) -> None:
        if not self.log.log_start_offset <= offset <= self.end_offset:
            with pytest.raises(Refusal) as refused:
                self.log.plan_read(offset, max_bytes, limit)
            assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
            return
        plan = self.log.plan_read(offset, max_bytes, limit)
        data = plan.read()
        assert len(data) == plan.length
        wanted = [batch for batch in self.batches if batch.last_offset >= offset and batch.last_offset < limit]
        if not wanted or offset >= limit:
            assert data == b""
            return
        headers = [header for _, header in iterate_headers(data)]
        assert headers, "there was something to read"
        expected = wanted[: len(headers)]
        assert data == b"".join(batch.payload for batch in expected)
        assert plan.next_offset > offset
        assert len(headers) == 1 or len(data) <= max_bytes

    @rule(max_bytes=st.integers(1, 1500))
    def consume_everything(self, max_bytes: int) -> None:
        offset = self.log.log_start_offset
        parts = []
        while not (plan := self.log.plan_read(offset, max_bytes)).is_empty:
            parts.append(plan.read())
            offset = plan.next_offset
        readable = [batch for batch in self.batches if batch.last_offset >= self.log.log_start_offset]
        assert b"".join(parts) == b"".join(batch.payload for batch in readable)

    @rule(timestamp=st.integers(0, 20_000))
    def search_timestamp(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(timestamp)
        expected = [b for b in self.batches if b.last_offset >= self.log.log_start_offset and b.timestamp >= timestamp]
        if expected:
            offset = max(expected[0].base_offset, self.log.log_start_offset)
            assert found is not None
            assert found[:2] == (expected[0].timestamp, offset)
        else:
            assert found is None

    @rule()
    def search_largest(self) -> None:
        found = self.log.max_timestamp_offset()
        readable = [b for b in self.batches if b.last_offset >= self.log.log_start_offset]
        if readable:
            best = max(readable, key=lambda batch: batch.timestamp)
            assert found is not None
            assert found[:2] == (best.timestamp, max(best.base_offset, self.log.log_start_offset))
        else:
            assert found is None

    @rule(offset=st.integers(0, 200))
    def trim(self, offset: int) -> None:
        if offset <= self.end_offset:
            self.log.trim_prefix(offset)
            self.start_offset = max(self.start_offset, offset)
            assert self.log.log_start_offset == self.start_offset
            self._drop_deleted()

    @rule(wait_ms=st.integers(0, 8_000), size=st.sampled_from([-1, 0, 3000]), defer=st.booleans())
    def retention(self, wait_ms: int, size: int, defer: bool) -> None:
        self.now_ms += wait_ms
        self.log.update_config(type(self.log.config)(**{**CONFIG, "retention_bytes": size}))
        before = self.log.segments
        bounds = [(segment.base_offset, min(segment.end_offset, self.end_offset)) for segment in before]
        deleted = self.log.enforce_retention(self.now_ms, defer_removal=defer)
        if defer:
            self.log.file_jobs.run_all()
        for first, end in bounds[:deleted]:
            gone = [batch for batch in self.batches if first <= batch.base_offset < end]
            old = all(self.now_ms - batch.timestamp > CONFIG["retention_ms"] for batch in gone)
            assert old or size >= 0 or end <= self.start_offset
        if deleted:
            self.start_offset = max(self.start_offset, bounds[deleted - 1][1])
        self._drop_deleted()

    def _drop_deleted(self) -> None:
        if self.batches:
            self.end_when_empty = self.end_offset
        first = self.log.segments[0].base_offset
        self.batches = [batch for batch in self.batches if batch.base_offset >= first]

    @rule(offset=st.integers(0, 200))
    def truncate(self, offset: int) -> None:
        if self.log.segments[0].base_offset < offset < self.end_offset:
            self.log.truncate_to(offset)
            kept = [batch for batch in self.batches if batch.last_offset < offset]
            split = [batch for batch in self.batches if batch.base_offset < offset <= batch.last_offset]
            self.batches = kept
            self.end_when_empty = split[0].base_offset if split else offset
            if not kept or split:
                assert self.log.end_offset == self.end_when_empty
            self.start_offset = min(self.start_offset, self.log.end_offset)
            self._forget_truncated()

    def _forget_truncated(self) -> None:
        """Producers fall back to what the log still says; what it says of them is checked by what follows."""
        self.sent = [row for row in self.sent if row[3] < self.log.end_offset]
        entry = self.log.producers.get(5)
        if entry is None or not entry.batches:
            self.sent = []
            self.sequence = 0 if entry is None else self.sequence
            return
        self.sent = [(b.base_sequence, b.last_offset - b.base_offset + 1, *b[2:4]) for b in entry.batches]
        self.sequence = entry.last_sequence + 1

    @rule(clean=st.booleans(), know_start=st.booleans(), point=st.sampled_from(["none", "flushed"]))
    def reopen(self, clean: bool, know_start: bool, point: str) -> None:
        flushed = self.log.flushed_offset
        self.log.close(clean=clean)
        start = self.log.log_start_offset if know_start or self.start_offset > 0 else None
        self.handles = HandleCache(3)
        self.log = open_log(
            self.files,
            self.directory,
            clean=clean,
            now_ms=self.now_ms,
            handles=self.handles,
            log_start_offset=start,
            recovery_point=None if point == "none" else flushed,
            **CONFIG,
        )

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.end_offset == self.end_offset
        assert self.log.log_start_offset == self.start_offset
        assert self.log.flushed_offset <= self.log.end_offset
        assert self.log.size_bytes == sum(segment.size_bytes for segment in self.log.segments)
        assert self.log.size_bytes == sum(len(batch.payload) for batch in self.batches)
        assert len(self.handles) <= 3

    @rule()
    def verify(self) -> None:
        assert [finding for finding in self.log.verify() if "starts" not in finding.problem] == []

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close(clean=False)


class OsLogMachine(LogMachine):
    def make_files(self) -> tuple[Files, Path]:
        self.root = Path(tempfile.mkdtemp(prefix="runnel-model-"))
        return OsFiles(), self.root / "topic-0"

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "root"):
            shutil.rmtree(self.root)


def _settings(examples: int, steps: int) -> settings:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks)


TestLogInMemory = LogMachine.TestCase
TestLogInMemory.settings = _settings(150, 40)
TestLogOnDisk = OsLogMachine.TestCase
TestLogOnDisk.settings = _settings(25, 40)
