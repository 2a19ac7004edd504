"""Produce, version by version, and every way a batch can be refused."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable

import pytest

from clients.protocol.calls import INIT_PRODUCER_ID, PRODUCE, fetch, list_offset, produce, random_id, versions
from harness.batches import CRC_POSITION, corrupt, decode_values, encode_batch
from harness.raw import RawConnection

NewTopic = Callable[..., str]
CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, INVALID_REQUIRED_ACKS = 2, 3, 10, 21
INVALID_TIMESTAMP, OUT_OF_ORDER, INVALID_RECORD, UNKNOWN_TOPIC_ID, INVALID_PRODUCER_EPOCH = 32, 45, 87, 100, 47
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43


@pytest.mark.parametrize("version", versions(PRODUCE, 3))
def test_every_version(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic()
    first = produce(raw, topic, encode_batch([b"a", b"b"]), version=version)
    second = produce(raw, topic, encode_batch([b"c"]), version=version)
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 2)
    if version >= 5:
        assert second.log_start_offset == 0
    assert decode_values(fetch(raw, topic, 0).records) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_append_time_is_answered(raw: RawConnection, new_topic: NewTopic) -> None:
    create_time = produce(raw, new_topic(), encode_batch([b"a"]))
    assert create_time.log_append_time is None
    append_time = produce(raw, new_topic(message_timestamp_type="LogAppendTime"), encode_batch([b"a"]))
    assert append_time.log_append_time is not None


def test_a_bad_crc_is_refused(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert produce(raw, topic, corrupt(encode_batch([b"a" * 100]))).error_code == CORRUPT_MESSAGE
    assert list_offset(raw, topic, -1).offset == 0


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_magics_are_refused(raw: RawConnection, new_topic: NewTopic, magic: int) -> None:
    topic = new_topic()
    batch = bytearray(encode_batch([b"a"]))
    batch[16] = magic
    raw.send(PRODUCE, 9, _body(topic, bytes(batch)))
    try:
        payload = raw.receive()
    except ConnectionError:
        payload = None  # Kafka may also hang up on what does not even parse
    if payload is not None:
        reply = _decode(payload)
        assert reply.error_code != 0
    with RawConnection(_address(raw)) as other:
        assert list_offset(other, topic, -1).offset == 0


def _body(topic: str, batch: bytes | None, acks: int = -1) -> dict[str, object]:
    partitions = [{"index": 0, "records": batch}]
    return {"acks": acks, "timeout": 30_000, "topic_data": [{"name": topic, "partition_data": partitions}]}


def _decode(payload: bytes) -> object:
    from harness.raw import decode_reply

    return decode_reply(PRODUCE, 9, payload)[1].responses[0].partition_responses[0]


def _address(raw: RawConnection) -> str:
    host, port = raw.socket.getpeername()[:2]
    return f"{host}:{port}"


def test_two_batches_in_one_partition_are_refused(raw: RawConnection, new_topic: NewTopic) -> None:
    """Since magic 2 a produce request has exactly one batch for each partition."""
    topic = new_topic()
    answer = produce(raw, topic, encode_batch([b"a"]) + encode_batch([b"b"]))
    assert answer.error_code == INVALID_RECORD
    assert list_offset(raw, topic, -1).offset == 0


def test_no_records_are_refused(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    raw.send(PRODUCE, 9, _body(topic, b""))
    try:
        assert _decode(raw.receive()).error_code == INVALID_RECORD
    except ConnectionError:
        pass
    with RawConnection(_address(raw)) as other:
        assert list_offset(other, topic, -1).offset == 0


def test_a_cut_batch_is_refused(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    raw.send(PRODUCE, 9, _body(topic, encode_batch([b"a" * 500])[:-100]))
    try:
        assert _decode(raw.receive()).error_code in (CORRUPT_MESSAGE, INVALID_RECORD)
    except ConnectionError:
        pass
    with RawConnection(_address(raw)) as other:
        assert list_offset(other, topic, -1).offset == 0


def test_too_large(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes=1000)
    assert produce(raw, topic, encode_batch([b"x" * 2000])).error_code == MESSAGE_TOO_LARGE
    assert produce(raw, topic, encode_batch([b"x" * 500])).error_code == 0


@pytest.mark.parametrize("excess", [0, 1])
def test_the_limit_counts_the_whole_batch(raw: RawConnection, new_topic: NewTopic, excess: int) -> None:
    batch = encode_batch([b"x" * 2000])
    topic = new_topic(max_message_bytes=len(batch) - excess)
    assert produce(raw, topic, batch).error_code == (MESSAGE_TOO_LARGE if excess else 0)


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(raw: RawConnection, new_topic: NewTopic, acks: int) -> None:
    topic = new_topic()
    assert produce(raw, topic, encode_batch([b"a"]), acks=acks).error_code == INVALID_REQUIRED_ACKS
    assert list_offset(raw, topic, -1).offset == 0


def test_unknown_topics_and_partitions(raw: RawConnection, new_topic: NewTopic) -> None:
    assert produce(raw, "no-such-topic", encode_batch([b"a"])).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert produce(raw, new_topic(), encode_batch([b"a"]), partition=7).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_topic_id(raw: RawConnection) -> None:
    topic_id = random_id()
    parts = [{"index": 0, "records": encode_batch([b"a"])}]
    body = {"acks": -1, "timeout": 1000, "topic_data": [{"topic_id": topic_id, "partition_data": parts}]}
    topic = raw.request(PRODUCE, 13, body).responses[0]
    assert topic.topic_id == topic_id
    assert topic.partition_responses[0].error_code == UNKNOWN_TOPIC_ID


def test_one_bad_partition_does_not_spoil_the_others(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    parts = [{"index": 0, "records": corrupt(encode_batch([b"bad"]))}, {"index": 1, "records": encode_batch([b"ok"])}]
    body = {"acks": -1, "timeout": 30_000, "topic_data": [{"name": topic, "partition_data": parts}]}
    answers = raw.request(PRODUCE, 9, body).responses[0].partition_responses
    assert {one.index: int(one.error_code) for one in answers} == {0: CORRUPT_MESSAGE, 1: 0}
    assert list_offset(raw, topic, -1, partition=1).offset == 1


def test_the_client_cannot_choose_offsets(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    batch = bytearray(encode_batch([b"a", b"b"]))
    struct.pack_into(">q", batch, 0, 12345)
    assert produce(raw, topic, bytes(batch)).error_code == INVALID_RECORD
    assert list_offset(raw, topic, -1).offset == 0


def test_the_broker_sets_offset_and_epoch(raw: RawConnection, new_topic: NewTopic) -> None:
    """Both lie outside the CRC, so that the rest of the batch stays as the client sent it."""
    topic = new_topic()
    batch = bytearray(encode_batch([b"a", b"b"]))
    struct.pack_into(">i", batch, 12, 99)
    assert produce(raw, topic, bytes(batch)).base_offset == 0
    records = fetch(raw, topic, 0).records
    assert struct.unpack_from(">q", records, 0)[0] == 0
    assert struct.unpack_from(">i", records, 12)[0] == 0
    assert records[CRC_POSITION:] == batch[CRC_POSITION:]


def test_timestamps_too_far_ahead_are_refused(raw: RawConnection, new_topic: NewTopic) -> None:
    """message.timestamp.after.max.ms is one hour by default."""
    topic = new_topic()
    tomorrow_ms = int(time.time() * 1000) + 86_400_000
    assert produce(raw, topic, encode_batch([b"a"], timestamp_ms=tomorrow_ms)).error_code == INVALID_TIMESTAMP
    assert list_offset(raw, topic, -1).offset == 0


def init_producer(raw: RawConnection, version: int = 4) -> tuple[int, int]:
    body = {"transactional_id": None, "transaction_timeout": 2**31 - 1, "producer_id": -1, "producer_epoch": -1}
    reply = raw.request(INIT_PRODUCER_ID, version, body)
    assert reply.error_code == 0
    return int(reply.producer_id), int(reply.producer_epoch)


@pytest.mark.parametrize("version", versions(INIT_PRODUCER_ID))
def test_producer_ids_are_unique(raw: RawConnection, version: int) -> None:
    given = [init_producer(raw, version) for _ in range(10)]
    assert len({producer_id for producer_id, _ in given}) == 10
    assert {epoch for _, epoch in given} == {0}


def test_sequences(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer_id, epoch = init_producer(raw)

    def send(sequence: int, epoch: int = epoch, count: int = 1) -> tuple[int, int]:
        values: list[bytes | None] = [f"{sequence + index}".encode() for index in range(count)]
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        answer = produce(raw, topic, encode_batch(values, **ids))
        return int(answer.error_code), int(answer.base_offset)

    assert send(0) == (0, 0)
    assert send(1, count=3) == (0, 1)
    assert send(1, count=3) == (0, 1)  # sent again: the old offset, nothing appended
    assert send(5)[0] == OUT_OF_ORDER
    assert send(4) == (0, 4)
    assert send(0) == (0, 0)  # still among the last five batches
    assert send(0, epoch=epoch + 1) == (0, 5)  # a new epoch starts at zero
    assert send(5)[0] == INVALID_PRODUCER_EPOCH
    assert list_offset(raw, topic, -1).offset == 6


def test_the_last_five_batches_are_known(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer_id, epoch = init_producer(raw)

    def send(sequence: int) -> tuple[int, int]:
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        answer = produce(raw, topic, encode_batch([b"x"], **ids))
        return int(answer.error_code), int(answer.base_offset)

    for sequence in range(8):
        assert send(sequence) == (0, sequence)
    for sequence in range(3, 8):
        assert send(sequence) == (0, sequence)
    assert send(0)[0] in (OUT_OF_ORDER, 46)  # forgotten: an error, never appended again
    assert list_offset(raw, topic, -1).offset == 8


def test_a_new_producer_may_start_anywhere(raw: RawConnection, new_topic: NewTopic) -> None:
    """With no state for the producer id Kafka accepts any sequence (the state may have expired)."""
    topic = new_topic()
    producer_id, epoch = init_producer(raw)
    batch = encode_batch([b"x"], producer_id=producer_id, producer_epoch=epoch, base_sequence=17)
    assert produce(raw, topic, batch).error_code == 0


def test_sequences_are_kept_for_each_partition(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    producer_id, epoch = init_producer(raw)
    batch = encode_batch([b"x"], producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    assert produce(raw, topic, batch, partition=0).base_offset == 0
    assert produce(raw, topic, batch, partition=1).base_offset == 0
    assert list_offset(raw, topic, -1, partition=1).offset == 1


def test_compression_passes_through_untouched(raw: RawConnection, new_topic: NewTopic) -> None:
    for compression in ("gzip", "snappy", "lz4", "zstd"):
        topic = new_topic()
        batch = encode_batch([b"hello " * 100] * 10, compression=compression)
        assert produce(raw, topic, batch).error_code == 0
        assert fetch(raw, topic, 0).records[CRC_POSITION:] == batch[CRC_POSITION:]


def test_a_topic_id_of_zero_is_unknown(raw: RawConnection) -> None:
    parts = [{"index": 0, "records": encode_batch([b"a"])}]
    zero = uuid.UUID(int=0)
    body = {"acks": -1, "timeout": 1000, "topic_data": [{"topic_id": zero, "partition_data": parts}]}
    assert raw.request(PRODUCE, 13, body).responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_ID
