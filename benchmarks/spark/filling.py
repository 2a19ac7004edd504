"""Owns the records: keys of 8 bytes, values of 100 or 1024 that look like events and compress like them.

Topics to read from are written once, by our own sink, in batches of 16 KiB, which is what Java's producer makes.
"""

from __future__ import annotations

from typing import Any

from benchmarks.spark.bench import OURS, PARTITIONS, TOPIC_CONFIG, SparkBench

KEY = "lpad(string(id % 1000000), 8, '0')"
EVENT = """concat('{"order":', id, ',"customer":', pmod(hash(id), 100000), ',"reference":"', md5(string(id)), '"}')"""
LONG = "concat_ws('', transform(sequence(1, 8), part -> sha2(concat(string(id), string(part)), 512)))"
VALUES = {100: f"rpad({EVENT}, 100, ' ')", 1024: f"substring(concat({EVENT}, {LONG}), 1, 1024)"}
BATCH_BYTES = 16384


def rows(bench: SparkBench, records: int, value_bytes: int = 100) -> Any:
    """Key and value, made on the fly."""
    return bench.spark.range(records).selectExpr("id", f"{KEY} key", f"{VALUES[value_bytes]} value")


def topic_of(bench: SparkBench, records: int, value_bytes: int = 100, codec: str = "none") -> str:
    """A topic with these records; made when first asked for, kept until the end."""
    name = f"records-{records}-{value_bytes}-{codec}"
    if name not in bench.filled:
        bench.tell(f"filling {name}")
        bench.topics.create(name, PARTITIONS, TOPIC_CONFIG)
        frame = rows(bench, records, value_bytes).selectExpr("key", "value", f"int(id % {PARTITIONS}) partition")
        options = {"kafka.batch.size": str(BATCH_BYTES), "kafka.compression.type": codec}
        bench.write(OURS, frame, name, options)
        bench.expect(name, records)
        bench.filled[name] = name
    return bench.filled[name]
