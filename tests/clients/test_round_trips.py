"""What goes in comes out: every client, every compression, every shape of record."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from clients.drivers import COMPRESSIONS, Driver, Sent
from harness.conditions import wait_until

pytestmark = pytest.mark.compat()

NewTopic = Callable[..., str]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compression(client: Driver, new_topic: NewTopic, compression: str) -> None:
    topic = new_topic()
    # Long enough to make several compressed batches of several records.
    messages = [Sent(f"value {index} ".encode() * 20, key=f"key {index}".encode()) for index in range(500)]
    client.produce(topic, messages, compression=compression)
    received = client.consume(topic, len(messages))
    assert [(one.key, one.value) for one in received] == [(one.key, one.value) for one in messages]
    assert [one.offset for one in received] == list(range(len(messages)))


def test_headers(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    headers = (("trace", b"abc"), ("repeated", b"1"), ("repeated", b"2"), ("empty", b""))
    client.produce(topic, [Sent(b"v", key=b"k", headers=headers)])
    assert client.consume(topic, 1)[0].headers == headers


def test_null_header_values(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    headers = (("nothing", None), ("something", b"x"))
    client.produce(topic, [Sent(b"v", key=b"k", headers=headers)])
    assert client.consume(topic, 1)[0].headers == headers


def test_null_keys(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"a"), Sent(b"b")])
    assert [(one.key, one.value) for one in client.consume(topic, 2)] == [(None, b"a"), (None, b"b")]


def test_empty_values_and_keys(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"", key=b"k"), Sent(b"v", key=b"")])
    assert [(one.key, one.value) for one in client.consume(topic, 2)] == [(b"k", b""), (b"", b"v")]


def test_null_values(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(None, key=b"k")])
    received = client.consume(topic, 1)[0]
    assert (received.key, received.value) == (b"k", None)


def test_one_megabyte_records(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=3_000_000)
    values = [bytes([65 + index]) * 1_048_576 for index in range(3)]
    client.produce(topic, [Sent(value) for value in values], request_bytes_max=3_000_000)
    assert [one.value for one in client.consume(topic, 3)] == values


def test_a_record_over_the_limit_is_refused(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=100_000)
    with pytest.raises(Exception, match=r"(?i)large|size|RECORD_?TOO|MSG_SIZE"):
        client.produce(topic, [Sent(b"x" * 200_000)], request_bytes_max=3_000_000)
    assert client.watermarks(topic) == (0, 0)


def test_one_hundred_partitions(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=100)
    assert client.partition_count(topic) == 100
    chosen = range(100) if client.name != "kcat" else (0, 57, 99)  # one kcat process for each partition
    client.produce(topic, [Sent(f"for {index}".encode(), partition=index) for index in chosen])
    for index in (0, 57, 99):
        assert [one.value for one in client.consume(topic, 1, partition=index)] == [f"for {index}".encode()]


def test_create_time(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    now_ms = int(time.time() * 1000)
    client.produce(topic, [Sent(b"a", timestamp_ms=now_ms - 5000), Sent(b"b", timestamp_ms=now_ms - 7000)])
    received = client.consume(topic, 2)
    assert [one.timestamp_ms for one in received] == [now_ms - 5000, now_ms - 7000]
    assert not any(one.is_log_append_time for one in received)


def test_log_append_time(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    client.produce(topic, [Sent(b"a"), Sent(b"b")])
    received = client.consume(topic, 2)
    assert all(one.is_log_append_time for one in received)
    assert all(one.timestamp_ms >= before_ms for one in received)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(client: Driver, new_topic: NewTopic, acks: int | str) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"a"), Sent(b"b")], acks=acks)
    # With acks=0 nothing says that the records have arrived.
    wait_until(lambda: client.watermarks(topic) == (0, 2), "both records in the log")
    assert [one.value for one in client.consume(topic, 2)] == [b"a", b"b"]


def test_idempotent_producer(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    messages = [Sent(str(index).encode()) for index in range(300)]
    client.produce(topic, messages, idempotent=True, batch_bytes=1000)
    client.produce(topic, messages, idempotent=True, batch_bytes=1000)
    assert [one.value for one in client.consume(topic, 600)] == [one.value for one in messages * 2]


def test_offsets_are_answered_in_order(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    offsets = client.produce(topic, [Sent(str(index).encode()) for index in range(100)])
    if not offsets:
        pytest.skip(f"{client.name} does not tell offsets")
    assert offsets == list(range(100))
    assert client.produce(topic, [Sent(b"next")]) == [100]


def test_topics_are_created_on_first_use(client: Driver, new_name: Callable[[], str]) -> None:
    topic = new_name()
    client.produce(topic, [Sent(b"first")])
    assert [one.value for one in client.consume(topic, 1)] == [b"first"]
    assert client.partition_count(topic) == 1
