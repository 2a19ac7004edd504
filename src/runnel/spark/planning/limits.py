"""How much of a stream one trigger takes: maxOffsetsPerTrigger in proportion, minOffsetsPerTrigger until it is late.

No I/O; the time comes in as an argument.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from runnel.client.metadata import TopicPartition
from runnel.spark.positions import Offsets


def rate_limited(most: int, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Ends so that about `most` records lie between, shared in proportion to what waits; none is starved."""
    sizes = {target: end - starts[target] for target, end in ends.items() if end > starts.get(target, end)}
    total = sum(sizes.values())
    limited = dict(ends)
    for target, size in sizes.items():
        share = most * (size / total)
        limited[target] = min(ends[target], starts[target] + (math.ceil(share) if share < 1 else math.floor(share)))
    return limited


@dataclass(slots=True)
class Delay:
    """Whether a trigger is to wait for more records. The first one never does."""

    least: int
    delay_max_ms: int
    _last_ms: float = field(default=-math.inf)

    def waits(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_ms: float) -> bool:
        waiting = sum(end - starts.get(target, 0) for target, end in ends.items())
        if now_ms - self._last_ms < self.delay_max_ms and waiting < self.least:
            return True
        self._last_ms = now_ms
        return False
