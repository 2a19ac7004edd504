"""Where a consumer may start: earliest, latest, the middle of a batch, by time; and exact watermarks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from clients.drivers import Driver, Received, Sent, load_driver
from harness.batches import encode_batch
from harness.conditions import wait_until
from harness.raw import RawConnection

pytestmark = pytest.mark.compat()

NewTopic = Callable[..., str]
BASE_MS = 1_700_000_000_000


def produce_batch(bootstrap: str, topic: str, values: list[bytes | None], timestamp_ms: int = BASE_MS) -> int:
    """One batch exactly, whatever a client would have made of it. Returns its base offset."""
    with RawConnection(bootstrap) as connection:
        batch = encode_batch(values, timestamp_ms=timestamp_ms)
        partitions = [{"index": 0, "records": batch}]
        topics = [{"name": topic, "partition_data": partitions}]
        reply = connection.request(0, 9, {"acks": -1, "timeout": 30_000, "topic_data": topics})
        answer = reply.responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        return int(answer.base_offset)


def test_watermarks_of_an_empty_partition(client: Driver, new_topic: NewTopic) -> None:
    assert client.watermarks(new_topic()) == (0, 0)


def test_fetch_from_the_middle_of_a_batch(client: Driver, new_topic: NewTopic, bootstrap: str) -> None:
    topic = new_topic()
    produce_batch(bootstrap, topic, [str(index).encode() for index in range(10)])
    produce_batch(bootstrap, topic, [str(index).encode() for index in range(10, 20)])
    for start in (0, 3, 9, 10, 19):
        received = client.consume(topic, 20 - start, start=start)
        assert [one.offset for one in received] == list(range(start, 20))
        assert [one.value for one in received] == [str(index).encode() for index in range(start, 20)]


def test_offsets_by_timestamp(client: Driver, new_topic: NewTopic, bootstrap: str) -> None:
    topic = new_topic()
    produce_batch(bootstrap, topic, [b"a", b"b", b"c"], BASE_MS)  # times +0, +1, +2
    produce_batch(bootstrap, topic, [b"d", b"e"], BASE_MS + 1000)
    assert client.offset_for_time(topic, BASE_MS - 1) == 0
    assert client.offset_for_time(topic, BASE_MS + 1) == 1
    assert client.offset_for_time(topic, BASE_MS + 3) == 3
    assert client.offset_for_time(topic, BASE_MS + 1001) == 4
    after_the_last = client.offset_for_time(topic, BASE_MS + 2000)
    # librdkafka's query turns "none" into the end of the partition; the others say none.
    assert after_the_last in (None, 5)


def test_latest_starts_after_what_is_there(client: Driver, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"old")])
    received: list[Received] = []
    reader = threading.Thread(target=lambda: received.extend(client.consume(topic, 1, start="latest")), daemon=True)
    reader.start()

    def produce_until_read() -> bool:
        # The reader's position is set some time after it starts, and nothing outside shows when.
        client.produce(topic, [Sent(b"new")])
        reader.join(0.05)
        return not reader.is_alive()

    wait_until(produce_until_read, "a record produced after the reader came")
    assert received[0].value == b"new"
    assert received[0].offset >= 1


def test_what_one_client_writes_every_other_reads(client: Driver, new_topic: NewTopic, bootstrap: str) -> None:
    topic = new_topic()
    client.produce(topic, [Sent(b"shared", key=b"k", headers=(("h", b"1"),))], compression="lz4")
    for name in ("confluent", "aiokafka", "kafka-python"):
        received = load_driver(name, bootstrap).consume(topic, 1)[0]
        assert (received.key, received.value, received.headers) == (b"k", b"shared", (("h", b"1"),))
