"""A compacted log against an obvious model: a list of records, and for each key the newest of them.

Random appends, rounds of compaction (with maps too small for them), truncations, trims, retention, restarts.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runnel.storage.compaction.key_map import KEY_BYTES
from runnel.storage.compaction.planning import dirt_of
from runnel.storage.config import LogConfig
from runnel.storage.files import Files, MemoryFiles, OsFiles
from runnel.storage.handles import HandleCache
from runnel.wire.errors import ErrorCode, Refusal
from storage.builders import MEMORY_ROOT, append, make_batch, open_log, sync
from storage.compaction_builders import Seen, compact, keyed_batch, records
from storage.test_log_model import _settings

DELETE_RETENTION_MS = 3_000
CONFIG = {
    "segment_bytes": 1500,
    "index_interval_bytes": 150,
    "retention_ms": -1,
    "compacted": True,
    "delete_retention_ms": DELETE_RETENTION_MS,
}
KEYS = [b"a", b"b", b"c", b"d" * 23, b"d" * 24, b"e" * 80, b""]
PAIRS = st.lists(st.tuples(st.sampled_from([*KEYS, None]), st.sampled_from([None, b"", b"1", b"x" * 60])), max_size=5)


class Row(NamedTuple):
    batch: int
    batch_end: int
    seen: Seen


class CompactedLogMachine(RuleBasedStateMachine):
    """`rows` is what the log must hold. `horizons`: the time from which the tombstones of a batch may go."""

    def make_files(self) -> tuple[Files, Path]:
        files = MemoryFiles()
        files.make_directory(MEMORY_ROOT)
        return files, MEMORY_ROOT / "topic-0"

    @initialize()
    def start(self) -> None:
        self.files, self.directory = self.make_files()
        self.handles = HandleCache(3)
        self.log = open_log(self.files, self.directory, handles=self.handles, **CONFIG)
        self.rows: list[Row] = []
        self.horizons: dict[int, int] = {}
        self.end_offset = 0
        self.start_offset = 0
        self.cleaned_offset: int | None = None
        self.now_ms = 1000
        self.sequence = 0
        self.sent: list[tuple[int, int, int]] = []

    def _appended(self, base_offset: int, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
        assert base_offset == self.end_offset
        self.end_offset = base_offset + len(pairs)
        for number, (key, value) in enumerate(pairs):
            seen = Seen(base_offset + number, key, value, self.now_ms + number)
            self.rows.append(Row(base_offset, self.end_offset, seen))

    @rule(pairs=PAIRS.filter(bool), step=st.integers(-300, 800), codec=st.integers(0, 4))
    def append(self, pairs: list[tuple[bytes | None, bytes | None]], step: int, codec: int) -> None:
        self.now_ms = max(0, self.now_ms + step)
        batch = keyed_batch(pairs, timestamp=self.now_ms, compression=codec)
        self._appended(append(self.log, batch, now_ms=self.now_ms).base_offset, pairs)

    @rule(pairs=PAIRS.filter(bool))
    def append_idempotent(self, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
        batch = keyed_batch(pairs, timestamp=self.now_ms, producer_id=5, sequence=self.sequence)
        result = append(self.log, batch, now_ms=self.now_ms)
        assert not result.duplicate
        self._appended(result.base_offset, pairs)
        self.sent = [*self.sent, (self.sequence, result.base_offset, result.last_offset)][-5:]
        self.sequence += len(pairs)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(1, 5))
    def append_duplicate(self, back: int) -> None:
        sequence, base_offset, last_offset = self.sent[-min(back, len(self.sent))]
        batch = make_batch(last_offset - base_offset + 1, producer_id=5, sequence=sequence)
        assert append(self.log, batch)[:3] == (base_offset, last_offset, True)

    @precondition(lambda self: self.sent)
    @rule()
    def out_of_order(self) -> None:
        with pytest.raises(Refusal) as refused:
            append(self.log, make_batch(1, producer_id=5, sequence=self.sequence + 1))
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(keys=st.sampled_from([1, 3, 100]), wait_ms=st.integers(0, 2 * DELETE_RETENTION_MS), roll=st.booleans())
    def compact(self, keys: int, wait_ms: int, roll: bool) -> None:
        self.now_ms += wait_ms
        sync(self.log)
        if dirt_of(self.log, self.end_offset, self.now_ms).dirty_bytes == 0 and not roll:
            return
        first_dirty = max(self.cleaned_offset or 0, self.start_offset)
        compact(self.log, now_ms=self.now_ms, key_map_bytes=keys * KEY_BYTES, roll=roll)
        cleaned = self.log.cleaned_offset or 0
        assert first_dirty <= cleaned <= self.end_offset
        sealed = self.log.active.base_offset
        assert cleaned > first_dirty or first_dirty >= sealed or not self.log.segments[:-1]
        if keys == 100:
            assert cleaned == max(sealed, first_dirty)
        self.cleaned_offset = self.log.cleaned_offset
        self._clean_model(cleaned)

    def _clean_model(self, cleaned: int) -> None:
        newest = {row.seen.key: row.seen.offset for row in self.rows if row.batch < cleaned}
        kept = [row for row in self.rows if row.batch >= cleaned or self._is_newest(row.seen, newest)]
        for row in kept:
            if row.batch < cleaned and row.seen.value is None:
                self.horizons.setdefault(row.batch, self.now_ms + DELETE_RETENTION_MS)
        # A horizon set in this round is never past yet: the retention is above zero.
        self.rows = [
            row
            for row in kept
            if row.batch >= cleaned or row.seen.value is not None or self.now_ms < self.horizons[row.batch]
        ]

    @staticmethod
    def _is_newest(seen: Seen, newest: dict[bytes | None, int]) -> bool:
        return seen.key is not None and newest[seen.key] == seen.offset

    @property
    def readable(self) -> list[Seen]:
        return [row.seen for row in self.rows if row.seen.offset >= self.start_offset]

    @rule(offset=st.integers(0, 300), max_bytes=st.integers(1, 3000))
    def read(self, offset: int, max_bytes: int) -> None:
        if self.start_offset <= offset <= self.end_offset:
            expected = [seen for seen in self.readable if seen.offset >= offset]
            assert records(self.log, offset, max_bytes) == expected

    @rule(timestamp=st.integers(0, 40_000))
    def search_time(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(timestamp)
        expected = next((seen for seen in self.readable if seen.timestamp >= timestamp), None)
        assert (found and found[:2]) == (expected and (expected.timestamp, expected.offset))

    @rule()
    def search_largest(self) -> None:
        found = self.log.max_timestamp_offset()
        expected = max(self.readable, key=lambda seen: (seen.timestamp, -seen.offset), default=None)
        assert (found and found[0]) == (expected and expected.timestamp)
        assert found is None or Seen(found[1], *self._at(found[1])) in self.readable

    def _at(self, offset: int) -> tuple[bytes | None, bytes | None, int]:
        return next((s.key, s.value, s.timestamp) for s in self.readable if s.offset == offset)

    @rule(offset=st.integers(0, 300))
    def trim(self, offset: int) -> None:
        if offset <= self.end_offset:
            self.log.trim_prefix(offset)
            self.start_offset = max(self.start_offset, offset)
            self._drop_deleted()

    @rule(wait_ms=st.integers(0, 5_000), defer=st.booleans())
    def retention(self, wait_ms: int, defer: bool) -> None:
        self.now_ms += wait_ms
        self.log.update_config(LogConfig(**{**CONFIG, "retention_ms": 4_000}))
        self.log.enforce_retention(self.now_ms, defer_removal=defer)
        self.log.file_jobs.run_all()
        self.log.update_config(LogConfig(**CONFIG))
        self.start_offset = max(self.start_offset, self.log.segments[0].base_offset)
        gone = [row.seen for row in self.rows if row.seen.offset < self.log.segments[0].base_offset]
        assert all(self.now_ms - seen.timestamp > 4_000 for seen in gone if seen.offset >= self.start_offset)
        self._drop_deleted()

    def _drop_deleted(self) -> None:
        first = self.log.segments[0].base_offset
        self.rows = [row for row in self.rows if row.batch >= first]

    @rule(offset=st.integers(0, 300))
    def truncate(self, offset: int) -> None:
        if not self.log.segments[0].base_offset < offset < self.end_offset:
            return
        self.log.truncate_to(offset)
        self.end_offset = self.log.end_offset
        assert self.end_offset <= offset
        self.rows = [row for row in self.rows if row.batch_end <= offset]  # batches are cut whole
        self.horizons = {batch: at for batch, at in self.horizons.items() if batch < self.end_offset}
        self.start_offset = min(self.start_offset, self.end_offset)
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, self.end_offset)
        self._forget_truncated()

    def _forget_truncated(self) -> None:
        """Producers fall back to what the log still says; what it says of them is checked by what follows."""
        entry = self.log.producers.get(5)
        batches = [] if entry is None else entry.batches
        self.sent = [(seen.base_sequence, seen.base_offset, seen.last_offset) for seen in batches]
        self.sequence = batches[-1].last_sequence + 1 if batches else 0

    @rule(clean=st.booleans(), point=st.sampled_from(["none", "flushed"]), policy=st.booleans())
    def reopen(self, clean: bool, point: str, policy: bool) -> None:
        """Without the policy, too: what was compacted once has gaps for ever."""
        flushed = self.log.flushed_offset
        self.log.close(clean=clean)
        self.handles = HandleCache(3)
        self.log = open_log(
            self.files,
            self.directory,
            clean=clean,
            now_ms=self.now_ms,
            handles=self.handles,
            log_start_offset=self.log.log_start_offset,
            recovery_point=None if point == "none" else flushed,
            cleaned_offset=self.log.cleaned_offset,
            **{**CONFIG, "compacted": policy},
        )
        self.log.update_config(LogConfig(**CONFIG))

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.end_offset) == (self.start_offset, self.end_offset)
        assert self.log.cleaned_offset == self.cleaned_offset
        assert self.log.size_bytes == sum(segment.size_bytes for segment in self.log.segments)
        assert len(self.handles) <= 3
        found = [seen for seen in records(self.log) if seen.offset >= self.start_offset]
        assert found == self.readable

    @rule()
    def verify(self) -> None:
        assert list(self.log.verify()) == []
        names = self.files.list(self.directory)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close(clean=False)


class OsCompactedLogMachine(CompactedLogMachine):
    def make_files(self) -> tuple[Files, Path]:
        self.root = Path(tempfile.mkdtemp(prefix="runnel-compaction-"))
        return OsFiles(), self.root / "topic-0"

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "root"):
            shutil.rmtree(self.root)


TestCompactedLogInMemory = CompactedLogMachine.TestCase
TestCompactedLogInMemory.settings = _settings(100, 40)
TestCompactedLogOnDisk = OsCompactedLogMachine.TestCase
TestCompactedLogOnDisk.settings = _settings(15, 40)
