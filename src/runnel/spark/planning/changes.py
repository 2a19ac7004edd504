"""What a stream finds changed between two offsets: partitions added, deleted, emptied, or of a topic made anew.

In: the offsets where the last trigger ended and where this one is to end. Out: the starts of this one, for partitions
that exist; each change that may have cost records is reported, in the words of Spark's connector.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from runnel.client.metadata import TopicPartition
from runnel.spark.positions import Offsets
from runnel.spark.reading.ranges import Missing


class Earliest(Protocol):
    def __call__(self, targets: Collection[TopicPartition]) -> Offsets: ...


def compare(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], earliest: Earliest, missing: Missing
) -> Offsets:
    """The start of every partition that has both ends."""
    added = ends.keys() - starts.keys()
    found = earliest(added) if added else {}
    _report_lost(added - found.keys(), missing, "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", "have no first offset.")
    for target, offset in sorted(found.items()):
        if offset != 0:
            reason = f"Added partition {target} starts from {offset} instead of 0."
            missing.report("ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", reason)
    _report_lost(starts.keys() - ends.keys(), missing, "PARTITIONS_DELETED", "have been deleted.")
    known = {**starts, **found}
    for target, end in sorted(ends.items()):
        if end < known.get(target, end):
            missing.report(
                "PARTITION_OFFSET_CHANGED",
                f"Partition {target} offset was changed from {known[target]} to {end}: the query was started beyond "
                "the end, or the topic was deleted and created anew.",
            )
    return {target: known[target] for target in ends if target in known}


def _report_lost(targets: Collection[TopicPartition], missing: Missing, condition: str, what: str) -> None:
    if targets:
        missing.report(condition, f"Partitions {', '.join(map(str, sorted(targets)))} {what}")
