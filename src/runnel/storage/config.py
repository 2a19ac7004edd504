"""What a log is told about its topic: the configs that storage obeys, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED = (1 << 63) - 1
DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """-1 is no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    producer_expiration_ms: int = -1
    """With this, `enforce_retention` forgets idle producers too; else it is the caller's `producers.expire`."""
    compacted: bool = False
    """The cleanup policy has `compact`."""
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    min_cleanable_dirty_ratio: float = 0.5
