"""What a topic's configuration means to its logs and to the hot paths."""

from __future__ import annotations

from runnel.core.configs import ConfigView
from runnel.services.partition import PartitionSettings
from runnel.storage.config import LogConfig


def partition_settings(view: ConfigView) -> PartitionSettings:
    return PartitionSettings(
        message_bytes_max=view["max.message.bytes"],
        log_append_time=view["message.timestamp.type"] == "LogAppendTime",
        timestamp_before_ms_max=view["message.timestamp.before.max.ms"],
        timestamp_after_ms_max=view["message.timestamp.after.max.ms"],
        flush_messages=view["flush.messages"],
        flush_ms=view["flush.ms"],
        flush_on_acks_all=view["acks.all.flush"],
        keys_required="compact" in view["cleanup.policy"],
    )


def log_config(view: ConfigView) -> LogConfig:
    deletes, compacts = "delete" in view["cleanup.policy"], "compact" in view["cleanup.policy"]
    max_lag_ms = view["max.compaction.lag.ms"]
    return LogConfig(
        segment_bytes=view["segment.bytes"],
        # A record in the active segment cannot be compacted: as in Kafka, its age is limited by both.
        segment_ms=min(view["segment.ms"], max_lag_ms) if compacts else view["segment.ms"],
        segment_jitter_ms=view["segment.jitter.ms"],
        segment_index_bytes=view["segment.index.bytes"],
        index_interval_bytes=view["index.interval.bytes"],
        retention_ms=view["retention.ms"] if deletes else -1,
        retention_bytes=view["retention.bytes"] if deletes else -1,
        compacted=compacts,
        delete_retention_ms=view["delete.retention.ms"],
        min_compaction_lag_ms=view["min.compaction.lag.ms"],
        max_compaction_lag_ms=max_lag_ms,
        min_cleanable_dirty_ratio=view["min.cleanable.dirty.ratio"],
    )
