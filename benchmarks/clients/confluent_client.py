"""Owns the stand-in for rdbench.c where there is no C compiler: the same modes and output on confluent-kafka.

Slower for small records (the binding costs more than the broker), so the table says which client ran.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

SILENCE_S = 15.0
TICK_S = 0.0005
STAMP_BYTES = 16


class Deliveries:
    """Counts acknowledgements; the first failure is kept."""

    def __init__(self) -> None:
        self.done = 0
        self.failure: str | None = None
        self.latencies_s: list[float] = []

    def __call__(self, error: object, message: Any) -> None:
        self.done += 1
        if error is not None:
            self.failure = str(error)
        self.latencies_s.append(message.latency() or 0.0)


class Options(dict[str, str]):
    def number(self, name: str, default: float) -> float:
        return float(self.get(name, default))

    def settings(self, prefix: str) -> dict[str, str]:
        own = {name[2:]: value for name, value in self.items() if name.startswith(prefix + ".")}
        return {"bootstrap.servers": self["bootstrap"], **own}


def payload(sequence: int, stamp_ns: int, size_bytes: int) -> bytes:
    head = sequence.to_bytes(8, "little") + stamp_ns.to_bytes(8, "little")
    return head + b"x" * (size_bytes - STAMP_BYTES)


def send(producer: Producer, options: Options, partition: int, value: bytes, deliveries: Deliveries) -> None:
    while True:
        try:
            producer.produce(options["topic"], value, partition=partition, on_delivery=deliveries)
            return
        except BufferError:
            producer.poll(0.1)


def finish(producer: Producer, deliveries: Deliveries, expected: int) -> None:
    producer.flush(60)
    if deliveries.failure or deliveries.done != expected:
        sys.exit(f"delivery failed: {deliveries.failure or 'not every record was acknowledged'}")


def produce(options: Options) -> dict[str, float]:
    producer, deliveries = Producer(options.settings("p")), Deliveries()
    count, first = int(options.number("count", 1000)), int(options.number("first", 0))
    partition = 0 if options.number("partitions", 1) == 1 else -1
    size_bytes = int(options.number("size", 100))
    producer.list_topics(options["topic"], 10)
    send(producer, options, partition, payload(first, 0, size_bytes), deliveries)
    finish(producer, deliveries, 1)  # connecting and getting a producer id are not throughput
    started = time.perf_counter()
    for sequence in range(first + 1, first + count):
        send(producer, options, partition, payload(sequence, 0, size_bytes), deliveries)
        if not sequence & 1023:
            producer.poll(0)
    finish(producer, deliveries, count)
    return rates(count, time.perf_counter() - started)


def open_consumer(options: Options, offsets: list[int]) -> Consumer:
    settings = {"group.id": "bench", "enable.auto.commit": "false", **options.settings("c")}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(options["topic"], index, offset) for index, offset in enumerate(offsets)])
    return consumer


def consume(options: Options) -> dict[str, float]:
    count, partitions = int(options.number("count", 1000)), int(options.number("partitions", 1))
    started = time.perf_counter()
    consumer = open_consumer(options, [confluent_kafka.OFFSET_BEGINNING] * partitions)
    last, total, received = [-1] * partitions, 0, 0
    while received < count:
        messages: list[Any] = consumer.consume(10_000, SILENCE_S)
        if not messages:
            sys.exit("records are missing: nothing more arrives")
        for message in messages:
            sequence = checked_sequence(message)
            if sequence <= last[message.partition()]:
                sys.exit("a record came twice or out of order")
            last[message.partition()] = sequence
            total += sequence
        received += len(messages)
    elapsed_s = time.perf_counter() - started
    consumer.close()
    if total != count * (count - 1) // 2:
        sys.exit("the records received are not the records sent")
    return rates(received, elapsed_s)


def checked_sequence(message: Any) -> int:
    if message.error():
        sys.exit(str(message.error()))
    return int.from_bytes(message.value()[:8], "little")


def latency(options: Options) -> dict[str, float]:
    rate, warmup_s = options.number("rate", 20000), options.number("warmup_s", 1)
    count = int(rate * (options.number("seconds", 5) + warmup_s))
    consumer = open_consumer(options, [confluent_kafka.OFFSET_END])
    high = consumer.get_watermark_offsets(TopicPartition(options["topic"], 0), 10)[1]
    consumer.assign([TopicPartition(options["topic"], 0, high)])
    elapsed: list[float] = []
    sender = threading.Thread(target=lambda: elapsed.append(send_paced(options, count, rate)))
    sender.start()
    latencies_s: list[float] = []
    while len(latencies_s) < count:
        messages: list[Any] = consumer.consume(1000, 0.001)
        now_ns = time.monotonic_ns()
        for message in messages:
            if checked_sequence(message) != len(latencies_s):
                sys.exit("a record is missing, doubled or out of order")
            latencies_s.append((now_ns - int.from_bytes(message.value()[8:16], "little")) / 1e9)
    sender.join()
    consumer.close()
    return {**rates(count, elapsed[0]), **percentiles(latencies_s[int(rate * warmup_s) :])}


def send_paced(options: Options, count: int, rate: float) -> float:
    """Stamps each record with the tick at which it was due, so that a stall counts for all it delays."""
    producer, deliveries = Producer(options.settings("p")), Deliveries()
    producer.list_topics(options["topic"], 10)
    size_bytes = int(options.number("size", 100))
    send(producer, options, 0, payload(0, time.monotonic_ns(), size_bytes), deliveries)
    finish(producer, deliveries, 1)
    started, sent, tick = time.monotonic(), 1, 0
    while sent < count:
        due_s = started + tick * TICK_S
        time.sleep(max(0.0, due_s - time.monotonic()))
        while sent < min(count, int((tick + 1) * rate * TICK_S)):
            send(producer, options, 0, payload(sent, int(due_s * 1e9), size_bytes), deliveries)
            sent += 1
        producer.poll(0)
        tick += 1
    elapsed_s = time.monotonic() - started
    finish(producer, deliveries, count)
    return elapsed_s


def single(options: Options) -> dict[str, float]:
    producer, deliveries = Producer(options.settings("p")), Deliveries()
    window, size_bytes, sent = int(options.number("window", 1)), int(options.number("size", 100)), 0
    producer.list_topics(options["topic"], 10)
    started = time.perf_counter()
    ends = started + options.number("seconds", 5)
    while time.perf_counter() < ends:
        while sent - deliveries.done < window:
            send(producer, options, 0, payload(sent, 0, size_bytes), deliveries)
            sent += 1
        producer.poll(0.1)
    finish(producer, deliveries, sent)
    return {**rates(sent, time.perf_counter() - started), **percentiles(deliveries.latencies_s)}


def rates(records: int, elapsed_s: float) -> dict[str, float]:
    return {"records": records, "seconds": elapsed_s, "records_per_s": records / elapsed_s}


def percentiles(latencies_s: list[float]) -> dict[str, float]:
    ordered = sorted(latencies_s)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    return {name: ordered[int(len(ordered) * share)] * 1e3 for name, share in shares.items()}


def version(_: Options) -> dict[str, str]:
    return {"librdkafka": confluent_kafka.libversion()[0]}


def main() -> None:
    modes: dict[str, Callable[[Options], dict[str, Any]]] = {
        "produce": produce,
        "consume": consume,
        "latency": latency,
        "single": single,
        "version": version,
    }
    options = Options(argument.split("=", 1) for argument in sys.argv[2:])
    print(json.dumps(modes[sys.argv[1]](options)))


if __name__ == "__main__":
    main()
