"""How far behind a streaming query is, from the progress that Spark reports of it.

In: a source's progress (`query.lastProgress.sources[0]`, or the same as a dict). Out: the figures that Spark's Kafka
connector puts there itself, which Spark does not let a Python source do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runnel.spark.positions import Offsets, from_nested


def offsets_behind_latest(source: Any) -> dict[str, float]:
    """The least, the largest and the average over partitions; nothing before the first trigger."""
    behind = list(partitions_behind_latest(source).values())
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def partitions_behind_latest(source: Any) -> Offsets:
    """The same by partition."""
    end, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
    return {target: offset - end.get(target, 0) for target, offset in latest.items()} if end else {}


def _offsets(source: Any, name: str) -> Offsets:
    value = source.get(name) if isinstance(source, Mapping) else getattr(source, name)
    if isinstance(value, str):
        value = json.loads(value)
    return from_nested(value) if value else {}
