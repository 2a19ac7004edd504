"""Produce (0), InitProducerId (22): acks, batches of every kind, idempotent sequences."""

from __future__ import annotations

import struct
from typing import Any

from crc32c import crc32c

from differential.plays import START_MS, Play, batch, batch_of, scenario, topic_id
from differential.shapes import STRANGER
from differential.sides import SILENCE_SECONDS
from harness.batches import corrupt

PRODUCE, INIT_PRODUCER_ID = 0, 22
SERVED_FROM = 3


def produce(play: Play, topic: str, records: Any, *, partition: int = 0, acks: int = -1, **options: Any) -> None:
    rows = [{"index": partition, "records": records}]
    where: dict[str, Any] = {"topic_id": topic_id(topic)} if play.version >= 13 else {"name": topic}
    play.ask({"acks": acks, "timeout_ms": 30_000, "topic_data": [{**where, "partition_data": rows}], **options})


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_plain(play: Play) -> None:
    topic = play.topic("plain", 2)
    produce(play, topic, batch(b"a", b"b", b"c"))
    produce(play, topic, batch(b"d"), acks=1)
    produce(play, topic, batch(b"other partition"), partition=1)
    produce(play, topic, batch(None, key=b"tombstone"))
    produce(play, topic, batch(b"", key=b""))
    for compression in ("gzip", "snappy", "lz4"):
        produce(play, topic, batch(b"x" * 100, b"y" * 100, compression=compression))
    produce(play, topic, batch(b"x" * 100, compression="zstd"))
    for acks in (2, -2, 5):
        produce(play, topic, batch(), acks=acks)


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_where_nothing_is(play: Play) -> None:
    topic, _ = play.shared("produce-absent", 2)
    for partition in (2, -1, 2**31 - 1):
        produce(play, topic, batch(), partition=partition)
    body = {"acks": 1, "timeout_ms": 1000}
    rows = [{"index": 0, "records": batch()}]
    for where in ({"name": "nope", "topic_id": STRANGER}, {"name": "a b"}, {"name": ""}, {"name": "é" * 300}):
        play.ask({**body, "topic_data": [{**where, "partition_data": rows}]})
    play.ask({**body, "topic_data": []})
    play.ask({**body, "topic_data": [{"name": topic, "topic_id": topic_id(topic), "partition_data": []}]})


@scenario(PRODUCE, lowest=SERVED_FROM, highest=12)
def produce_to_an_internal_topic(play: Play) -> None:
    for records, partition in (
        (batch(b"v", key=b"k"), 0),
        (batch(b"no key"), 0),
        (corrupt(batch()), 0),
        (batch(), 999),
    ):
        produce(play, "__consumer_offsets", records, partition=partition)
    produce(play, "__consumer_offsets", batch(), acks=5)


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_several(play: Play) -> None:
    one, two = play.topic("one", 3), play.topic("two")
    rows = [{"index": index, "records": batch(f"{index}".encode())} for index in (0, 2, 7)]
    topics = [
        {"name": one, "topic_id": topic_id(one), "partition_data": rows},
        {"name": two, "topic_id": topic_id(two), "partition_data": rows[:1]},
        {"name": "nope", "topic_id": STRANGER, "partition_data": rows[:1]},
    ]
    play.ask({"acks": -1, "timeout_ms": 30_000, "topic_data": topics})


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_bad_batches(play: Play) -> None:
    topic = play.topic("bad")
    good = batch(b"a", b"b")
    for records in (
        b"",
        b"\0" * 10,
        b"\0" * 61,
        b"\xff" * 80,
        corrupt(good),
        good[:-1],
        good + good,
        _patched(good, 0, ">q", 5),
        _patched(good, 12, ">i", 7),
        *(_patched(good, 16, ">b", magic) for magic in (0, 1, 3, -1)),
        _patched(good, 8, ">i", 0),
        _patched(good, 8, ">i", -1),
    ):
        produce(play, topic, records)
    # After these the log must be as if they had never come.
    produce(play, topic, good)


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_more_than_a_batch(play: Play) -> None:
    for rest in (b"\0", b"\0" * 30):
        produce(play, play.topic(), batch(b"a") + rest)


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_odd_headers(play: Play) -> None:
    topic = play.topic("odd")
    for at, layout, value in (
        (21, ">h", 0x05),  # a codec that does not exist
        (21, ">h", 0x07),
        (21, ">h", 0x20),  # control
        (21, ">h", 0x10),  # transactional without a producer
        (21, ">h", 0x08),  # says log append time
        (21, ">h", 0x40),  # a bit nobody knows
        (23, ">i", 5),  # last offset delta
        (23, ">i", -1),
        (57, ">i", 0),  # record count
        (57, ">i", -1),
        (57, ">i", 1),
        (57, ">i", 3),
        (43, ">q", 5),  # producer id without epoch and sequence
        (51, ">h", 3),
        (53, ">i", 0),
        (27, ">q", -5),
        (35, ">q", -1),
    ):
        produce(play, topic, with_crc(_patched(batch(b"a", b"b"), at, layout, value)))
    produce(play, topic, batch())


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_limits(play: Play) -> None:
    small = play.topic("small", configs={"max.message.bytes": "200"})
    produce(play, small, batch(b"x" * 50))
    produce(play, small, batch(b"x" * 500))
    produce(play, small, batch(b"x" * 129))
    produce(play, small, batch(b"x" * 130))
    produce(play, small, batch(*[b"x" * 100] * 50, compression="gzip"))
    compacted = play.topic("compacted", configs={"cleanup.policy": "compact"})
    produce(play, compacted, batch(b"v", key=b"k"))
    produce(play, compacted, batch(b"no key"))
    produce(play, compacted, batch(None, key=b"k"))
    produce(play, compacted, batch(b"no key", b"either", compression="gzip"))


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_timestamps(play: Play) -> None:
    topic = play.topic("times")
    for at_ms in (-1, 0, 1, START_MS, 4_000_000_000_000):
        produce(play, topic, batch(b"a", at_ms=at_ms))
    stamped = play.topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    produce(play, stamped, batch(b"a", b"b"))
    produce(play, stamped, batch(b"a", at_ms=4_000_000_000_000))
    narrow = play.topic(
        "narrow", configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    )
    produce(play, narrow, batch(b"old"))
    produce(play, narrow, batch(b"none", at_ms=-1))


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_idempotent(play: Play) -> None:
    topic = play.topic("sequences")
    one = play.producer("one")
    for epoch, sequence, count in (
        (0, 0, 2),
        (0, 0, 2),  # again
        (0, 2, 1),
        (0, 4, 1),  # a gap
        (0, 3, 1),
        (0, 1, 1),  # inside what is there
        (0, 2, 1),  # an old one, still remembered
        (0, 1, 3),
        (1, 5, 1),  # a new epoch starts at 0
        (1, 0, 1),
        (0, 4, 1),  # the old epoch
        (1, 1, 1),
        (-1, 2, 1),
        (1, -1, 1),
    ):
        produce(play, topic, batch_of(one, epoch, sequence, count))
    two = play.producer("two")
    produce(play, topic, batch_of(two, 0, 5))
    produce(play, topic, batch_of(two, 0, 6))
    produce(play, topic, batch_of(two, 7, 0))
    for sequence in range(1, 9):
        produce(play, topic, batch_of(two, 7, sequence))
    produce(play, topic, batch_of(two, 7, 0))  # too old to be remembered: five batches are
    produce(play, topic, batch_of(two, 7, 4))


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_sequences_wrap(play: Play) -> None:
    topic = play.topic("wraps")
    one = play.producer("one")
    last = 2**31 - 1
    for sequence, count in ((last - 1, 1), (last, 1), (0, 1), (1, 1)):
        produce(play, topic, batch_of(one, 0, sequence, count))


@scenario(PRODUCE, lowest=SERVED_FROM)
def produce_with_a_transactional_id(play: Play) -> None:
    topic, _ = play.shared("produce-transactional-id")
    produce(play, topic, batch(), transactional_id="t", acks=1)


@scenario(PRODUCE, lowest=13)
def produce_null(play: Play) -> None:
    topic, _ = play.shared("produce-null")
    rows = [{"index": 0, "records": None}]
    body = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"topic_id": topic_id(topic), "partition_data": rows}]}
    play.ask(body, patience_s=SILENCE_SECONDS)


@scenario(INIT_PRODUCER_ID)
def producer_ids(play: Play) -> None:
    for timeout_ms in (60_000, 0, -1, 2**31 - 1):
        pair = play.ask({"transactional_id": None, "transaction_timeout_ms": timeout_ms, "producer_id": -1})
        play.both.learn("producer", play.name(), pair, lambda reply: reply["producer_id"])
    play.ask({"transactional_id": "", "transaction_timeout_ms": 60_000})
    for producer_id, epoch in ((5, 1), (-1, 5), (5, -1), (-2, -2)):
        play.ask(
            {
                "transactional_id": None,
                "transaction_timeout_ms": 1000,
                "producer_id": producer_id,
                "producer_epoch": epoch,
            }
        )


@scenario(INIT_PRODUCER_ID)
def producer_ids_of_transactions(play: Play) -> None:
    play.ask({"transactional_id": play.name(), "transaction_timeout_ms": 60_000})


def _patched(data: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


def with_crc(data: bytes) -> bytes:
    return _patched(data, 17, ">I", crc32c(data[21:]))
