"""The same batch scan over ever more records of one topic, to see whether the cost of a row grows with them."""

from __future__ import annotations

import json
import shutil

from benchmarks.spark.bench import PARTITIONS, SparkBench
from benchmarks.spark.filling import topic_of
from benchmarks.spark.scan import scan_case
from benchmarks.spark.sizes import Sizes
from benchmarks.spark.turns import COLD_WARM_UPS, take_turns

TITLE = "Growth of a batch scan"
RECORD_BYTES_ON_DISK = 125
SPARE_BYTES = 5 << 30


class DiskTooSmall(Exception):
    """There is not enough room for the records."""


def run(bench: SparkBench) -> None:
    """One topic for all; the sizes are ranges of it, so that nothing else differs."""
    largest = max(records for records, _ in bench.sizes.growth)
    _check_room(bench, largest)
    topic = topic_of(bench, largest)
    for number, (records, turns) in enumerate(bench.sizes.growth):
        ends = {topic: {str(partition): records // PARTITIONS for partition in range(PARTITIONS)}}
        case = scan_case(bench, f"{records:,} records", topic, records, {"endingOffsets": json.dumps(ends)})
        take_turns(bench, TITLE, case, turns, warm_ups=COLD_WARM_UPS if number == 0 else 0)
    bench.topics.delete(bench.filled.pop(topic))


def _check_room(bench: SparkBench, records: int) -> None:
    needed, free = records * RECORD_BYTES_ON_DISK + SPARE_BYTES, shutil.disk_usage(bench.folder).free
    if free < needed:
        raise DiskTooSmall(f"{records:,} records need {needed >> 30} GiB of disk, {free >> 30} are free: --data-root")


def lines(sizes: Sizes) -> int:
    return len(sizes.growth)
