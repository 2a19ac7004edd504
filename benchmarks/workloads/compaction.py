"""Owns the rows about log compaction: how fast a dirty log is cleaned, what that costs, and who waits for it.

A topic is filled while it only deletes, then made a compacted one; it is clean when the broker's own
cleaner-offset-checkpoint says so. Both brokers look for dirty logs every 0.1 s and may use as much of the machine as
they like.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import Bench
from benchmarks.clients import bare_socket
from benchmarks.peers import BrokerFailed, Durability, RunningBroker
from benchmarks.results import Row
from benchmarks.sizes import Sizes
from benchmarks.topics import Topics
from benchmarks.warmup import warm_up
from benchmarks.workloads.kinds import OwnWorkload
from benchmarks.workloads.latency import PERCENTILES, measure_latency
from runnel.wire.batch import encode_batch

SECTION = "Log compaction"
SEGMENT_MS = 60_000
SETTINGS = {"cleanup.policy": "delete", "segment.bytes": str(32 << 20), "segment.ms": str(SEGMENT_MS)}
BACKOFF_MS = "100"
UPDATES_PER_KEY = 10
BATCH_BYTES = 64 << 10
CLEAN_TIMEOUT_S = 300.0
BUSY_PARTITIONS = 6
ALTER_CONFIGS, TOPIC, BROKER = 44, 2, 4


class Shape(NamedTuple):
    label: str
    value_bytes: int
    per_batch: int
    share_of_records: float


SHAPES = (
    Shape("100 B records", 100, BATCH_BYTES // 130, 1.0),
    Shape("1 KiB records", 1024, BATCH_BYTES // 1054, 0.2),
    Shape("100 B records, one per batch", 100, 1, 0.1),
)


class Compaction(OwnWorkload):
    """Ten updates per key at random, so that nine records of ten go."""

    name = "compaction"
    about = "throughput of log compaction, and the latency of a busy producer meanwhile"

    def repeats(self, sizes: Sizes) -> int:
        return sizes.rounds

    def run(self, bench: Bench) -> None:
        with bench.prepared_folder() as folder, bench.peer.start(folder) as broker:
            broker.wait_until_answering()
            alter(broker, BROKER, "", "log.cleaner.backoff.ms", BACKOFF_MS)
            warm_up(bench, broker)
            for number, shape in enumerate(SHAPES):
                for run in range(bench.sizes.runs + 1):
                    self._clean(bench, broker, folder / "data", shape, f"dirty-{number}-{run}", is_warm_up=run == 0)
            self._beside_producer(bench, broker, folder / "data")

    def _clean(
        self, bench: Bench, broker: RunningBroker, data: Path, shape: Shape, topic: str, *, is_warm_up: bool
    ) -> None:
        records = int(bench.sizes.compaction_records * shape.share_of_records)
        bench.tell(f"compaction: {shape.label}" + (" (warm-up)" if is_warm_up else ""))
        topics = Topics(broker.bootstrap)
        topics.create(topic, 1, SETTINGS)
        size_bytes = fill(broker, topic, 1, shape, records)
        cpu_before_s, began_s = broker.cpu_seconds(), time.perf_counter()
        alter(broker, TOPIC, topic, "cleanup.policy", "compact")
        wait_until(broker, lambda: is_clean(data, topic, 1, records), f"{topic} is clean")
        took_s, cpu_s = time.perf_counter() - began_s, broker.cpu_seconds() - cpu_before_s
        topics.delete(topic)
        if not is_warm_up:
            bench.record(Row(SECTION, f"{shape.label}: bytes", "MB/s", False), size_bytes / 1e6 / took_s)
            bench.record(Row(SECTION, f"{shape.label}: records", "records/s", False), records / took_s)
            bench.record(Row(SECTION, f"{shape.label}: CPU", "µs/record", True), cpu_s * 1e6 / records)

    def _beside_producer(self, bench: Bench, broker: RunningBroker, data: Path) -> None:
        topics = Topics(broker.bootstrap)
        config = bench.peer.topic_config(Durability.SYNCED, "all")
        topics.create("busy", 1, config)
        for run in range(bench.sizes.runs + 1):
            bench.tell("compaction: a busy producer alone" + (" (warm-up)" if run == 0 else ""))
            result = measure_latency(bench, broker, "busy", 1024, "all")
            if run > 0:
                self._record_latency(bench, "alone", result)
        for run in range(bench.sizes.runs):
            topic = f"dirty-beside-{run}"
            topics.create(topic, BUSY_PARTITIONS, SETTINGS)
            bench.tell("compaction: a busy producer beside it: filling")
            fill(broker, topic, BUSY_PARTITIONS, SHAPES[0], bench.sizes.compaction_records)
            bench.tell("compaction: a busy producer beside it")
            with CleanWatch(broker, data, topic, bench.sizes.compaction_records) as watch:
                result = measure_latency(bench, broker, "busy", 1024, "all")
            if watch.is_over:
                bench.results.failures.append(
                    f"{bench.peer.label}: compaction was over before the producer was, so its latency is not all"
                )
            self._record_latency(bench, "while logs are compacted", result)
            topics.delete(topic)

    def _record_latency(self, bench: Bench, when: str, result: dict[str, float]) -> None:
        rate = bench.sizes.latency_rate
        for name in ("p50", "p99"):
            row = Row(SECTION, f"producer at {rate} msg/s of 1 KiB, acks=all with fsync, {when}: {name}", "ms", True)
            bench.record(row, result[PERCENTILES[name]])


class CleanWatch:
    """Begins the compaction of a topic, and tells at the end whether it was over by then."""

    def __init__(self, broker: RunningBroker, data: Path, topic: str, records: int) -> None:
        self._broker, self._data, self._topic, self._records = broker, data, topic, records
        self.is_over = False

    def __enter__(self) -> CleanWatch:
        alter(self._broker, TOPIC, self._topic, "cleanup.policy", "compact")
        wait_until(self._broker, self._has_begun, f"the compaction of {self._topic}")
        return self

    def _has_begun(self) -> bool:
        folders = (self._data / f"{self._topic}-{index}" for index in range(BUSY_PARTITIONS))
        being_written = any(path.suffix == ".cleaned" for folder in folders for path in folder.iterdir())
        return being_written or bool(cleaned_offsets(self._data, self._topic))

    def __exit__(self, *_: object) -> None:
        self.is_over = is_clean(self._data, self._topic, BUSY_PARTITIONS, self._records)


def fill(broker: RunningBroker, topic: str, partitions: int, shape: Shape, records: int) -> int:
    """The same batches to every partition, each from a connection of its own; the bytes of one partition."""
    senders = [
        threading.Thread(target=_fill_one, args=(broker.bootstrap, topic, index, shape, records))
        for index in range(partitions)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if Topics(broker.bootstrap).record_count(topic, partitions) < records * partitions:
        raise BrokerFailed(f"{broker.name} did not take every record")
    return sum(map(len, made_batches(shape, records)))


def _fill_one(bootstrap: str, topic: str, partition: int, shape: Shape, records: int) -> None:
    later_ms = first_timestamp_ms() + 2 * SEGMENT_MS  # begins a segment: all before may be cleaned
    last = bytes(encode_batch([(later_ms, b"last", b"", ())]))
    with bare_socket.connect(bootstrap) as connection:
        for batch in (*made_batches(shape, records), last):
            reply = bare_socket.exchange(connection, produce_request(topic, partition, batch))
            bare_socket.check_produced(reply, topic)


@cache
def first_timestamp_ms() -> int:
    return int(time.time() * 1000) - 10 * SEGMENT_MS


@cache
def made_batches(shape: Shape, records: int) -> tuple[bytes, ...]:
    return tuple(_make_batches(shape, records))


def _make_batches(shape: Shape, records: int) -> Iterator[bytes]:
    chance = random.Random(1)
    value = chance.randbytes(shape.value_bytes)
    timestamp_ms, keys = first_timestamp_ms(), records // UPDATES_PER_KEY
    for start in range(0, records, shape.per_batch):
        count = min(shape.per_batch, records - start)
        rows = [(timestamp_ms, b"key-%010d" % chance.randrange(keys), value, ()) for _ in range(count)]
        yield bytes(encode_batch(rows))


def produce_request(topic: str, partition: int, batch: bytes) -> bytes:
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + bare_socket.encode_string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return bare_socket.frame(bare_socket.PRODUCE, 7, body)


def alter(broker: RunningBroker, resource: int, name: str, key: str, value: str) -> None:
    """IncrementalAlterConfigs, version 0."""
    body = struct.pack(">ib", 1, resource) + bare_socket.encode_string(name)
    body += struct.pack(">i", 1) + bare_socket.encode_string(key) + b"\0" + bare_socket.encode_string(value) + b"\0"
    with bare_socket.connect(broker.bootstrap) as connection:
        reply = bare_socket.exchange(connection, bare_socket.frame(ALTER_CONFIGS, 0, body))
    (error,) = struct.unpack_from(">h", reply, 8)
    if error != 0:
        raise BrokerFailed(f"{broker.name} refused {key}={value}: error {error}")


def cleaned_offsets(data: Path, topic: str) -> dict[int, int]:
    try:
        lines = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return {}
    rows = [line.split() for line in lines[2:]]
    return {int(row[1]): int(row[2]) for row in rows if row[0] == topic}


def is_clean(data: Path, topic: str, partitions: int, records: int) -> bool:
    offsets = cleaned_offsets(data, topic)
    return len(offsets) == partitions and min(offsets.values()) >= records


def wait_until(broker: RunningBroker, check: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + CLEAN_TIMEOUT_S
    while not check():
        broker.check_alive()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{broker.name}: not within {CLEAN_TIMEOUT_S:.0f} s: {what}")
        time.sleep(0.005)
