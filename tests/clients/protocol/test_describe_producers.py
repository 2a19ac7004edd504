"""DescribeProducers: what a partition remembers of idempotent producers. Passes on Apache Kafka too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clients.protocol.calls import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID, produce
from harness.batches import encode_batch
from harness.conditions import wait_until
from harness.raw import RawConnection

NewTopic = Callable[..., str]
UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION = 3, 17


def describe(raw: RawConnection, topic: str, *partitions: int) -> list[Any]:
    asked = {"name": topic, "partition_indexes": list(partitions)}
    return list(raw.request(DESCRIBE_PRODUCERS, 0, {"topics": [asked]}).topics[0].partitions)


def new_producer_id(raw: RawConnection) -> int:
    """Kafka has none to give until it has fetched its first block."""
    body = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    asked = wait_until(
        lambda: next((reply for reply in [raw.request(INIT_PRODUCER_ID, 4, body)] if reply.error_code == 0), None),
        "a producer id",
    )
    return int(asked.producer_id)


def test_a_partition_tells_of_its_producers(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    first, second = new_producer_id(raw), new_producer_id(raw)
    for producer, sequence, values in ((first, 0, [b"a", b"b"]), (second, 0, [b"c"]), (first, 2, [b"d"])):
        batch = encode_batch(
            values, producer_id=producer, producer_epoch=0, base_sequence=sequence, timestamp_ms=1_700_000_000_000
        )
        assert produce(raw, name, batch).error_code == 0
    assert produce(raw, name, encode_batch([b"of nobody"])).error_code == 0
    busy, quiet = describe(raw, name, 0, 1)
    assert (busy.error_code, quiet.error_code, quiet.active_producers) == (0, 0, ())
    found = {
        state.producer_id: (
            state.producer_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
        for state in busy.active_producers
    }
    assert found == {first: (0, 2, 1_700_000_000_000, -1, -1), second: (0, 0, 1_700_000_000_000, -1, -1)}


def test_what_is_not_there_has_no_producers(raw: RawConnection, new_topic: NewTopic) -> None:
    assert [row.error_code for row in describe(raw, new_topic(), 0, 7)] == [0, UNKNOWN_TOPIC_OR_PARTITION]
    assert [row.error_code for row in describe(raw, "no-such-topic", 0)] == [UNKNOWN_TOPIC_OR_PARTITION]
    assert [row.error_code for row in describe(raw, "bad name", 0)] == [INVALID_TOPIC_EXCEPTION]
    assert raw.request(DESCRIBE_PRODUCERS, 0, {"topics": []}).topics == ()
