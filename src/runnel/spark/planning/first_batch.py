"""The first batch of a stream, which Spark may run again after a restart: its end is noted, its beginning is not.

That is asked for anew. What was the end of a log then is it no longer, and partitions may have been added. So a batch
that begins at the end of a partition takes nothing of it, and where it ends tells where it began.

In: where the query starts, and offsets. Out: the ends of the first batch, or its starts when it is run again. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from runnel.client.metadata import TopicPartition
from runnel.spark.positions import LATEST, Offsets
from runnel.spark.source_options import Limit, stands_for


def first_ends(starting: Limit, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Partitions that have come since the starts were asked for are none of this batch: run again, it would find starts
    of them too."""
    return {
        target: starts[target] if stands_for(starting, target, LATEST) else end
        for target, end in ends.items()
        if target in starts
    }


def first_starts(starting: Limit, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Offsets:
    """Partitions without an end are none of this batch: the next finds them added."""
    return {
        target: ends[target] if stands_for(starting, target, LATEST) else start
        for target, start in starts.items()
        if target in ends
    }
