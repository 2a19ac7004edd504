"""Record batches to Arrow and back on one core, without Spark: our kernels beside the C of a Python client, aiokafka.

In: nothing. Out: a line per codec, in million records per second (best of some rounds), compression included.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from rich.console import Console

from benchmarks import machine, report
from benchmarks.results import Results, Row
from benchmarks.spark.storing import Store
from runnel.client.metadata import TopicPartition
from runnel.spark.decode.chunk import Chunk
from runnel.spark.decode.columns import TYPES, record_batch
from runnel.spark.encode.lanes import Lane
from runnel.spark.encode.rows import read_rows
from runnel.wire.batch import RecordInput, encode_batch
from runnel.wire.compression import Compression

CHUNK_BYTES = 4 << 20
VALUE_BYTES = 100
RECORDS_PER_BATCH = 160  # what a 16 KiB batch holds
BATCH_BYTES = 900_000  # what the sink makes
TURNS, ROUNDS = 3, 7  # the median of turns, each of which is the best of some rounds
FOR_EVER = 1 << 62
SEVEN_COLUMNS = pa.schema([pa.field(name, kind) for name, kind in TYPES.items() if name != "headers"])
VALUE_ONLY = pa.schema([pa.field("value", pa.binary())])
STORED = Path(__file__).parents[1] / "results-decode.json"
BLOCK = report.Block(
    "<!-- benchmarks of decoding: begin (written by `make bench-decode`; do not edit by hand) -->",
    "<!-- benchmarks of decoding: end -->",
    "aiokafka",
    "Runnel",
)
UNIT = "M records/s"
DECODING = "Record batches to Arrow (aiokafka: to Python objects), one core"
ENCODING = "Arrow (aiokafka: Python objects) to record batches, one core"


def make_log(codec: int, per_batch: int = RECORDS_PER_BATCH) -> tuple[bytes, int]:
    """About 4 MiB of records (before compression) of text-like values, and how many they are."""
    chance = random.Random(1)
    words = [bytes(chance.choices(b"abcdefghij ", k=8)) for _ in range(500)]
    log, offset, size = bytearray(), 0, 0
    while size < CHUNK_BYTES:
        records: list[RecordInput] = [
            (1_700_000_000_000 + offset, b"key%05d" % index, b"".join(chance.choices(words, k=13))[:VALUE_BYTES], ())
            for index in range(per_batch)
        ]
        log += encode_batch(records, base_offset=offset, compression=codec)
        offset += per_batch
        size += per_batch * (VALUE_BYTES + 16)
    return bytes(log), offset


def decode(log: bytes, schema: pa.Schema) -> int:
    chunk = Chunk(np.frombuffer(log, np.uint8))
    return sum(record_batch(rows, schema).num_rows for rows in chunk.rows("topic", 0, 0, FOR_EVER))


def decode_by_client(log: bytes) -> int:
    """As a Python client does it: aiokafka's decoder in C, one object for each record."""
    records, count = MemoryRecords(log), 0
    while records.has_next():
        batch = records.next_batch()
        if batch is None or not batch.validate_crc():
            raise RuntimeError("aiokafka does not like a batch")
        count += sum(1 for _ in batch)
    return count


def encode(batch: pa.RecordBatch, codec: int) -> int:
    lane = Lane(TopicPartition("topic", 0), BATCH_BYTES)
    rows = read_rows(batch, "topic", 0)
    full = [*lane.add(rows, np.arange(rows.count), 1_700_000_000_000), *lane.take()]
    return sum(batch.count for batch in full if batch.sealed(codec, 1, 0, 0))


def encode_by_client(pairs: list[tuple[bytes, bytes]], codec: int) -> int:
    """aiokafka's builder in C, in batches of the same size as ours."""
    count = 0
    while count < len(pairs):
        builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, 0, BATCH_BYTES)
        begun = count
        while count < len(pairs) and builder.append(count - begun, 1_700_000_000_000, *pairs[count], []) is not None:
            count += 1
        builder.build()
    return count


def rate(work: Callable[[], int]) -> float:
    """Million records per second of CPU time, in the best round: what the code costs, and not what else ran."""
    best = 0.0
    for _ in range(ROUNDS):
        began = time.process_time()
        count = work()
        best = max(best, count / max(time.process_time() - began, 1e-9) / 1e6)
    return best


def key_and_value(log: bytes) -> pa.RecordBatch:
    schema = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
    parts = [record_batch(rows, schema) for rows in Chunk(np.frombuffer(log, np.uint8)).rows("topic", 0, 0, FOR_EVER)]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def measure() -> Results:
    results = Results()
    for codec in Compression:
        log, count = make_log(int(codec))
        if decode(log, SEVEN_COLUMNS) != count or decode_by_client(log) != count:
            raise RuntimeError("records were lost")
        note(results, DECODING, f"{codec.name.lower()}, all columns", log, SEVEN_COLUMNS)
        note(results, DECODING, f"{codec.name.lower()}, value only", log, VALUE_ONLY)
        batch = key_and_value(log)
        pairs = [(row["key"], row["value"]) for row in batch.to_pylist()]
        row = Row(ENCODING, codec.name.lower(), UNIT, False)
        take_turns(results, row, partial(encode, batch, int(codec)), partial(encode_by_client, pairs, int(codec)))
    note(results, DECODING, "none, one record per batch, all columns", make_log(0, per_batch=1)[0], SEVEN_COLUMNS)
    return results


def note(results: Results, section: str, name: str, log: bytes, schema: pa.Schema) -> None:
    take_turns(results, Row(section, name, UNIT, False), partial(decode, log, schema), partial(decode_by_client, log))


def take_turns(results: Results, row: Row, ours: Callable[[], int], theirs: Callable[[], int]) -> None:
    for _ in range(TURNS):
        results.record(row, "runnel", rate(ours))
        results.record(row, "kafka", rate(theirs))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.decode", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the results and rewrite docs/benchmarks.md")
    writes = parser.parse_args(arguments).write
    versions = [f"aiokafka {metadata.version('aiokafka')}", f"numba {metadata.version('numba')}"]
    store = Store(
        machine.describe(STORED.parent, versions),
        "python -m benchmarks.spark.decode --write",
        time.monotonic(),
        STORED,
        block=BLOCK,
    )
    results = measure()
    if writes:
        store.save(results)
    report.show(Console(width=None if sys.stdout.isatty() else 140), results, BLOCK)


if __name__ == "__main__":
    main(sys.argv[1:])
