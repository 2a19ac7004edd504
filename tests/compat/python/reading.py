"""Scenarios of the area "Reading": where a consumer may start, stop and wait."""

from __future__ import annotations

from clients.drivers import Received, Sent
from compat.python import INVALID_RECORD, Run, check_numbered, equal, numbered, read, scenario
from harness.conditions import wait_until

BASE_MS = 1_700_000_000_000
# Segments roll with the next record and are cleaned as soon as they have rolled.
COMPACT = {
    "cleanup.policy": "compact",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
}


@scenario("seek-time")
def seek_time(run: Run) -> None:
    topic = run.topic(configs={"retention.ms": "-1"})
    for later_ms in (0, 1, 2, 1000, 1001):
        run.client.produce(topic, [Sent(f"at {later_ms}".encode(), timestamp_ms=BASE_MS + later_ms)])
    for later_ms, offset in ((-1, 0), (1, 1), (3, 3), (1001, 4)):
        equal(run.client.offset_for_time(topic, BASE_MS + later_ms), offset, f"the offset at {later_ms} ms")
    equal(run.client.offset_for_time(topic, BASE_MS + 2000), None, "the offset after the last")
    reader = run.reader(topic)
    reader.seek(0, run.client.offset_for_time(topic, BASE_MS + 3) or 0)
    found = read(2, "two records", reader)
    equal([one.value for one in found if one.offset >= 3][:2], [b"at 1000", b"at 1001"], "what follows")


@scenario("seek-ends")
def seek_ends(run: Run) -> None:
    topic = run.topic()
    run.client.produce(topic, numbered(100), linger_ms=50, batch_bytes=100_000)
    reader = run.reader(topic)
    check_numbered(read(100, "all records", reader), 100)
    for start in (57, 3, 99):
        reader.seek(0, start)
        found = read(100 - start, f"records from {start}", reader)
        equal([one.offset for one in found], list(range(start, 100)), f"offsets from {start}")
        equal(found[0].key, f"key {start}".encode(), "the first key")
    reader.seek(0, "earliest")
    check_numbered(read(100, "all records again", reader), 100)
    reader.seek(0, "latest")
    found = []

    def told() -> bool:
        # Nothing outside shows when the position is set, so there is news until one is seen.
        run.client.produce(topic, [Sent(b"news")])
        found.extend(reader.poll())
        return bool(found)

    wait_until(told, "a record after the end")
    equal((found[0].offset >= 100, found[0].value), (True, b"news"), f"the next record, {found[0].offset}")
    equal(reader.position(0), found[-1].offset + 1, "the position")


@scenario("pause-resume")
def pause_resume(run: Run) -> None:
    topic = run.topic(partitions=2)
    reader = run.reader(topic, 2)
    run.client.produce(topic, [Sent(b"first", partition=index) for index in (0, 1)])
    equal(sorted(one.partition for one in read(2, "both partitions", reader)), [0, 1], "partitions")
    reader.pause(1)
    run.client.produce(topic, [Sent(b"second", partition=index) for index in (0, 1) for _ in range(5)])
    found = read(5, "the running partition", reader)
    for _ in range(3):
        found += reader.poll()
    equal([one.partition for one in found], [0] * 5, "partitions while 1 is paused")
    reader.resume(1)
    found = read(5, "the resumed partition", reader)
    equal([(one.partition, one.offset) for one in found], [(1, index) for index in range(1, 6)], "what was held back")


@scenario("tail")
def tail(run: Run) -> None:
    topic = run.topic()
    reader = run.reader(topic)
    equal(reader.poll(), [], "records of an empty topic")
    for number in range(3):
        run.client.produce(topic, [Sent(b"%d" % number)])
        found = read(1, f"record {number}", reader)
        equal([(one.offset, one.value) for one in found], [(number, b"%d" % number)], "the news")


@scenario("reset")
def reset(run: Run) -> None:
    topic = run.topic()
    run.client.produce(topic, numbered(10))
    reader = run.reader(topic, reset="earliest")
    read(10, "all records", reader)
    reader.seek(0, 1000)
    found = read(10, "all records again", reader)
    check_numbered(found, 10)


@scenario("watermarks")
def watermarks(run: Run) -> None:
    topic = run.topic()
    equal(run.client.watermarks(topic), (0, 0), "of the empty partition")
    run.client.produce(topic, numbered(7))
    equal(run.client.watermarks(topic), (0, 7), "of the filled partition")


@scenario("compacted")
def compacted(run: Run) -> None:
    topic = run.topic(configs=COMPACT)
    run.refused(INVALID_RECORD, lambda: run.client.produce(topic, [Sent(b"no key")]))
    for turn in range(20):
        run.client.produce(topic, [Sent(f"{turn}".encode(), key=f"k{index}".encode()) for index in range(10)])
    run.client.produce(topic, [Sent(None, key=b"k9")])
    found: list[Received] = []

    def cleaned() -> bool:
        # A record rolls the segment before it, which the cleaner may then take.
        run.client.produce(topic, [Sent(b"", key=b"tick")])
        _, end = run.client.watermarks(topic)
        reader = run.reader(topic)
        found[:] = []
        wait_until(lambda: found.extend(reader.poll()) or (found and found[-1].offset == end - 1), "the end")
        run.end(reader)
        return len([one for one in found if one.key != b"tick"]) == 9

    wait_until(cleaned, "a cleaned log")
    rows = [(one.offset, one.key, one.value) for one in found if one.key != b"tick"]
    equal(rows, [(190 + index, f"k{index}".encode(), b"19") for index in range(9)], "the last value of each key")
