"""Scenarios of the area "Records": what goes in comes out."""

from __future__ import annotations

import time
from collections.abc import Callable

from clients.drivers import Sent
from compat.python import MESSAGE_TOO_LARGE, Run, check_numbered, equal, numbered, scenario
from harness.conditions import wait_until


@scenario("round-trip")
def round_trip(run: Run) -> None:
    topic = run.topic()
    equal(run.client.produce(topic, numbered(500)), list(range(500)), "offsets told to the producer")
    check_numbered(run.client.consume(topic, 500), 500)


def _compression(codec: str) -> Callable[[Run], None]:
    def compressed(run: Run) -> None:
        topic = run.topic()
        run.client.produce(topic, numbered(500), compression=codec)
        check_numbered(run.client.consume(topic, 500), 500)

    return compressed


for codec in ("gzip", "snappy", "lz4", "zstd"):
    scenario(codec)(_compression(codec))


@scenario("acks")
def acks(run: Run) -> None:
    for level in (0, 1, "all"):
        topic = run.topic(part=str(level))
        run.client.produce(topic, numbered(10), acks=level)
        # With acks=0 nothing says that the records have arrived.
        wait_until(lambda topic=topic: run.client.watermarks(topic) == (0, 10), "ten records in the log")
        check_numbered(run.client.consume(topic, 10), 10)


@scenario("idempotent")
def idempotent(run: Run) -> None:
    topic = run.topic()
    offsets = run.client.produce(topic, numbered(1000), idempotent=True, batch_bytes=2000)
    equal(offsets, list(range(1000)), "offsets told to the producer")
    check_numbered(run.client.consume(topic, 1000), 1000)


@scenario("batching")
def batching(run: Run) -> None:
    topic = run.topic()
    run.client.produce(topic, numbered(2000), linger_ms=50, batch_bytes=100_000)
    check_numbered(run.client.consume(topic, 2000), 2000)


@scenario("headers")
def headers(run: Run) -> None:
    topic = run.topic()
    wanted = (("trace", b"abc"), ("repeated", b"1"), ("repeated", b"2"), ("empty", b""))
    run.client.produce(topic, [Sent(b"v", key=b"k", headers=wanted)])
    equal(run.client.consume(topic, 1)[0].headers, wanted, "headers")


@scenario("null-headers")
def null_headers(run: Run) -> None:
    topic = run.topic()
    wanted = (("nothing", None), ("something", b"x"))
    run.client.produce(topic, [Sent(b"v", key=b"k", headers=wanted)])
    equal(run.client.consume(topic, 1)[0].headers, wanted, "headers")


@scenario("nulls")
def nulls(run: Run) -> None:
    topic = run.topic()
    pairs = [(None, b"v"), (b"k", None), (b"", b"v"), (b"k", b"")]
    run.client.produce(topic, [Sent(value, key=key) for key, value in pairs])
    equal([(one.key, one.value) for one in run.client.consume(topic, 4)], pairs, "keys and values")


@scenario("large")
def large(run: Run) -> None:
    topic = run.topic(configs={"max.message.bytes": "3000000"})
    values = [bytes([65 + index]) * 1_048_576 for index in range(3)]
    run.client.produce(topic, [Sent(value) for value in values], request_bytes_max=3_000_000)
    equal([one.value for one in run.client.consume(topic, 3)], values, "values")


@scenario("too-large")
def too_large(run: Run) -> None:
    topic = run.topic(configs={"max.message.bytes": "100000"})
    wanted = [Sent(b"x" * 200_000)]
    run.refused(MESSAGE_TOO_LARGE, lambda: run.client.produce(topic, wanted, request_bytes_max=3_000_000))
    equal(run.client.watermarks(topic), (0, 0), "watermarks")


@scenario("partitions")
def partitions(run: Run) -> None:
    topic = run.topic(partitions=100)
    equal(run.client.partition_count(topic), 100, "partitions")
    run.client.produce(topic, [Sent(f"for {index}".encode(), partition=index) for index in range(100)])
    for index in (0, 57, 99):
        found = [(one.partition, one.value) for one in run.client.consume(topic, 1, partition=index)]
        equal(found, [(index, f"for {index}".encode())], "the record of its partition")


@scenario("timestamps")
def timestamps(run: Run) -> None:
    now_ms = int(time.time() * 1000)
    kept, stamped = run.topic(part="create"), run.topic(part="append", configs=APPEND_TIME)
    for topic in (kept, stamped):
        run.client.produce(topic, [Sent(b"a", timestamp_ms=now_ms - 5000), Sent(b"b", timestamp_ms=now_ms - 7000)])
    found = [(one.timestamp_ms, one.is_log_append_time) for one in run.client.consume(kept, 2)]
    equal(found, [(now_ms - 5000, False), (now_ms - 7000, False)], "create times")
    for one in run.client.consume(stamped, 2):
        equal((one.timestamp_ms >= now_ms, one.is_log_append_time), (True, True), f"append time {one.timestamp_ms}")


APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


@scenario("auto-create")
def auto_create(run: Run) -> None:
    topic = run.name()
    equal(run.client.produce(topic, [Sent(b"first")]), [0], "its offset")
    equal([one.value for one in run.client.consume(topic, 1)], [b"first"], "values")
    equal(run.client.partition_count(topic), 1, "partitions")
