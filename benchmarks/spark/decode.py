"""Record batches to Arrow and back on one core: our kernels, and the plain codec of `runnel.wire`.

In: nothing. Out: a line per codec, in million records per second (best of some rounds).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runnel.client.metadata import TopicPartition
from runnel.spark.decode.chunk import Chunk
from runnel.spark.decode.columns import TYPES, record_batch
from runnel.spark.encode.lanes import Lane
from runnel.spark.encode.rows import read_rows
from runnel.wire.batch import RecordInput, decode_records, encode_batch, iterate_headers
from runnel.wire.compression import Compression

CHUNK_BYTES = 4 << 20
VALUE_BYTES = 100
RECORDS_PER_BATCH = 160  # what a 16 KiB batch holds
ROUNDS = 30
FOR_EVER = 1 << 62
SEVEN_COLUMNS = pa.schema([pa.field(name, kind) for name, kind in TYPES.items() if name != "headers"])
VALUE_ONLY = pa.schema([pa.field("value", pa.binary())])


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


def decode_plainly(log: bytes) -> int:
    return sum(len(decode_records(log, position)) for position, _ in iterate_headers(log))


def encode(batch: pa.RecordBatch, codec: int) -> int:
    lane = Lane(TopicPartition("topic", 0), 900_000)
    rows = read_rows(batch, "topic", 0)
    full = [*lane.add(rows, np.arange(rows.count), 1_700_000_000_000), *lane.take()]
    return sum(batch.count for batch in full if batch.sealed(codec, 1, 0, 0))


def rate(work: Callable[[], int], rounds: int = ROUNDS) -> float:
    """Million records per second of CPU time, in the best round."""
    best = 0.0
    for _ in range(rounds):
        began = time.process_time()
        count = work()
        best = max(best, count / max(time.process_time() - began, 1e-9) / 1e6)
    return best


def main() -> None:
    print(f"{'codec':8}{'7 columns':>12}{'value only':>12}{'encode':>12}{'plain Python':>14}   M records/s, one core")
    for codec in Compression:
        log, count = make_log(int(codec))
        if decode(log, SEVEN_COLUMNS) != count:
            raise RuntimeError("records were lost")
        pair = pa.Table.from_batches(
            [
                record_batch(rows, pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
                for rows in Chunk(np.frombuffer(log, np.uint8)).rows("topic", 0, 0, FOR_EVER)
            ]
        ).combine_chunks()
        batch = pair.to_batches()[0]
        encode(batch, int(codec))
        figures = (
            rate(lambda log=log: decode(log, SEVEN_COLUMNS)),  # type: ignore[misc]
            rate(lambda log=log: decode(log, VALUE_ONLY)),  # type: ignore[misc]
            rate(lambda batch=batch, codec=codec: encode(batch, int(codec))),  # type: ignore[misc]
            rate(lambda log=log: decode_plainly(log), 3),  # type: ignore[misc]
        )
        print(f"{codec.name.lower():8}{figures[0]:12.1f}{figures[1]:12.1f}{figures[2]:12.1f}{figures[3]:14.2f}")
    log, _ = make_log(0, per_batch=1)
    print(f"one record per batch: {rate(lambda: decode(log, SEVEN_COLUMNS)):.1f}")


if __name__ == "__main__":
    main()
