"""Fetch, version by version: limits, long polls, places, epochs, and the ends of segments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.protocol.calls import (
    API_VERSIONS,
    FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    fetch,
    fetch_body,
    fetch_topic,
    produce,
    random_id,
    topic_fields,
    versions,
)
from harness.batches import decode_values, encode_batch
from harness.raw import RawConnection, decode_reply

NewTopic = Callable[..., str]
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 1, 3, 74, 75
UNKNOWN_TOPIC_ID = 100


def fill(raw: RawConnection, topic: str, batches: int, records: int = 1, size: int = 10) -> None:
    for number in range(batches):
        values: list[bytes | None] = [f"{number}.{index}".encode().ljust(size, b".") for index in range(records)]
        assert produce(raw, topic, encode_batch(values)).error_code == 0


@pytest.mark.parametrize("version", versions(FETCH))
def test_every_version(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic()
    fill(raw, topic, batches=3, records=2)
    answer = fetch(raw, topic, 0, version=version)
    assert (answer.error_code, answer.high_watermark) == (0, 6)
    assert answer.last_stable_offset == 6
    if version >= 5:
        assert answer.log_start_offset == 0
    assert [offset for offset, _ in decode_values(answer.records)] == list(range(6))


@pytest.mark.parametrize("version", versions(FETCH))
def test_at_the_end_there_is_nothing(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic()
    fill(raw, topic, batches=1)
    answer = fetch(raw, topic, 1, version=version)
    assert (answer.error_code, answer.high_watermark, decode_values(answer.records)) == (0, 1, [])


def test_a_batch_is_sent_whole(raw: RawConnection, new_topic: NewTopic) -> None:
    """From the middle of a batch the broker sends all of it; the client drops what it did not ask for."""
    topic = new_topic()
    fill(raw, topic, batches=2, records=5)
    assert [offset for offset, _ in decode_values(fetch(raw, topic, 7).records)] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("offset", [-2, 3, 1000, 2**62])
def test_out_of_range(raw: RawConnection, new_topic: NewTopic, offset: int) -> None:
    topic = new_topic()
    fill(raw, topic, batches=2)
    answer = fetch(raw, topic, offset)
    assert answer.error_code == OFFSET_OUT_OF_RANGE
    assert decode_values(answer.records) == []


def test_partition_max_bytes(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(raw, topic, batches=10, size=1000)
    served = fetch(raw, topic, 0, partition_max_bytes=3500)
    assert 1 <= len(decode_values(served.records)) <= 3


def test_the_first_batch_comes_however_large(raw: RawConnection, new_topic: NewTopic) -> None:
    """KIP-74: a batch larger than the limits is still sent, or the consumer would be stuck."""
    topic = new_topic()
    fill(raw, topic, batches=2, size=10_000)
    served = fetch(raw, topic, 0, partition_max_bytes=100, max_bytes=100)
    assert [offset for offset, _ in decode_values(served.records)] == [0]


def test_max_bytes_bounds_the_whole_reply(raw: RawConnection, new_topic: NewTopic) -> None:
    """Only the first partition with data may exceed it."""
    topics = [new_topic() for _ in range(3)]
    for topic in topics:
        fill(raw, topic, batches=1, size=10_000)
    asked = [fetch_topic({"topic": topic}, 0) for topic in topics]
    reply = raw.request(FETCH, 11, fetch_body(asked, max_bytes=1000))
    sizes = [len(part.records or b"") for topic in reply.responses for part in topic.partitions]
    assert len([size for size in sizes if size]) == 1
    assert len(reply.responses) == 3


def test_a_long_poll_wakes_on_produce(raw: RawConnection, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    raw.send(FETCH, 11, fetch_body([fetch_topic({"topic": topic}, 0)], max_wait_ms=600_000))
    with RawConnection(bootstrap) as other:
        assert produce(other, topic, encode_batch([b"news"])).error_code == 0
    # Without the wake-up the socket's own timeout ends this long before the ten minutes.
    part = decode_reply(FETCH, 11, raw.receive())[1].responses[0].partitions[0]
    assert decode_values(part.records) == [(0, b"news")]


def test_min_bytes_are_gathered(raw: RawConnection, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    batch = encode_batch([b"x" * 1000])
    asked = fetch_body([fetch_topic({"topic": topic}, 0)], max_wait_ms=600_000, min_bytes=3 * len(batch))
    raw.send(FETCH, 11, asked)
    with RawConnection(bootstrap) as other:
        for _ in range(3):
            assert produce(other, topic, batch).error_code == 0
    part = decode_reply(FETCH, 11, raw.receive())[1].responses[0].partitions[0]
    assert len(decode_values(part.records)) == 3


def test_a_wait_ends_with_what_there_is(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(raw, topic, batches=1)
    served = fetch(raw, topic, 0, max_wait_ms=50, min_bytes=1 << 20)
    assert len(decode_values(served.records)) == 1


def test_an_error_ends_the_wait(raw: RawConnection, new_topic: NewTopic) -> None:
    asked = [fetch_topic({"topic": new_topic()}, 0), fetch_topic({"topic": new_topic()}, 99)]
    reply = raw.request(FETCH, 11, fetch_body(asked, max_wait_ms=600_000))
    assert [part.error_code for topic in reply.responses for part in topic.partitions] == [0, OFFSET_OUT_OF_RANGE]


def test_a_connection_that_goes_away_while_waiting(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    for _ in range(20):
        with RawConnection(bootstrap) as gone:
            gone.send(FETCH, 11, fetch_body([fetch_topic({"topic": topic}, 0)], max_wait_ms=600_000))
    with RawConnection(bootstrap) as raw:
        assert produce(raw, topic, encode_batch([b"a"])).error_code == 0
        assert raw.request(API_VERSIONS, 0, {}).error_code == 0


def test_unknown_topics(raw: RawConnection, new_topic: NewTopic) -> None:
    reply = raw.request(FETCH, 11, fetch_body([fetch_topic({"topic": "no-such-topic"}, 0)]))
    assert reply.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    reply = raw.request(FETCH, 11, fetch_body([fetch_topic({"topic": new_topic()}, 0, partition=5)]))
    assert reply.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", versions(FETCH, 13))
def test_an_unknown_topic_id(raw: RawConnection, version: int) -> None:
    topic_id = random_id()
    reply = raw.request(FETCH, version, fetch_body([fetch_topic({"topic_id": topic_id}, 0)]))
    assert reply.error_code == 0
    assert reply.responses[0].topic_id == topic_id
    assert reply.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


def test_leader_epochs(raw: RawConnection, new_topic: NewTopic) -> None:
    """KIP-320: a client with another idea of the leader is told so."""
    topic = new_topic()
    fill(raw, topic, batches=1)
    assert fetch(raw, topic, 0, epoch=0).error_code == 0
    assert fetch(raw, topic, 0, epoch=5).error_code == UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", versions(OFFSET_FOR_LEADER_EPOCH))
def test_offset_for_leader_epoch(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic()
    fill(raw, topic, batches=3)

    def ask(epoch: int, name: str = topic) -> tuple[int, int, int]:
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        body = {"replica_id": -1, "topics": [{"topic": name, "partitions": [partition]}]}
        part = raw.request(OFFSET_FOR_LEADER_EPOCH, version, body).topics[0].partitions[0]
        return int(part.error_code), int(part.leader_epoch), int(part.end_offset)

    assert ask(0) == (0, 0, 3)
    assert ask(7) == (0, -1, -1)
    assert ask(0, "no-such-topic")[0] == UNKNOWN_TOPIC_OR_PARTITION


def test_every_offset_is_reachable_across_segments(raw: RawConnection, new_topic: NewTopic) -> None:
    """A fetch must not stop or skip at the end of a sealed segment."""
    topic = new_topic(segment_bytes=1_048_576, max_message_bytes=1_000_000)
    fill(raw, topic, batches=30, records=3, size=50_000)  # some 4 MB: several segments
    seen: list[int] = []
    while len(seen) < 90:
        start = len(seen)
        values = decode_values(fetch(raw, topic, start, partition_max_bytes=400_000).records)
        fresh = [offset for offset, _ in values if offset >= start]
        assert fresh, f"nothing at offset {start}"
        seen += fresh
    assert seen == list(range(90))


def test_several_partitions_in_one_request(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    for index in range(3):
        assert produce(raw, topic, encode_batch([f"p{index}".encode()]), partition=index).error_code == 0
    where = topic_fields(raw, topic, by_id=True)
    parts = [fetch_topic(where, 0, partition=index)["partitions"][0] for index in range(3)]
    reply = raw.request(FETCH, 16, fetch_body([where | {"partitions": parts}]))
    served = {part.partition_index: decode_values(part.records) for part in reply.responses[0].partitions}
    assert served == {index: [(0, f"p{index}".encode())] for index in range(3)}
