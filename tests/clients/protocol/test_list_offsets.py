"""ListOffsets in every version: earliest, latest, by time, the largest timestamp, and the ends of empty logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clients.protocol.calls import DELETE_RECORDS, LIST_OFFSETS, list_offset, produce, versions
from harness.batches import encode_batch
from harness.raw import RawConnection

NewTopic = Callable[..., str]
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 3, 35, 74, 75
BASE_MS = 1_700_000_000_000


@pytest.fixture
def topic(raw: RawConnection, new_topic: NewTopic) -> str:
    """Six records in three batches; times +0 +1, +1000 +1001, +500 +501 (the last batch is older)."""
    name = new_topic()
    for later_ms in (0, 1000, 500):
        assert produce(raw, name, encode_batch([b"a", b"b"], timestamp_ms=BASE_MS + later_ms)).error_code == 0
    return name


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
def test_earliest_and_latest(raw: RawConnection, topic: str, version: int) -> None:
    earliest = list_offset(raw, topic, EARLIEST, version=version)
    latest = list_offset(raw, topic, LATEST, version=version)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 6, -1)
    if version >= 4:
        assert earliest.leader_epoch == 0
        assert latest.leader_epoch == 0


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
@pytest.mark.parametrize(
    ("later_ms", "offset", "found_ms"), [(-5, 0, 0), (0, 0, 0), (1, 1, 1), (2, 2, 1000), (1001, 3, 1001)]
)
def test_by_time(raw: RawConnection, topic: str, version: int, later_ms: int, offset: int, found_ms: int) -> None:
    answer = list_offset(raw, topic, BASE_MS + later_ms, version=version)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, BASE_MS + found_ms)


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
def test_after_the_last_time(raw: RawConnection, topic: str, version: int) -> None:
    answer = list_offset(raw, topic, BASE_MS + 5000, version=version)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("version", versions(LIST_OFFSETS, 7))
def test_the_largest_timestamp(raw: RawConnection, topic: str, version: int) -> None:
    answer = list_offset(raw, topic, MAX_TIMESTAMP, version=version)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, 3, BASE_MS + 1001)


def test_the_largest_timestamp_of_nothing(raw: RawConnection, new_topic: NewTopic) -> None:
    answer = list_offset(raw, new_topic(), MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("version", versions(LIST_OFFSETS, 8))
def test_earliest_local(raw: RawConnection, topic: str, version: int) -> None:
    """KIP-405: without tiers the same as earliest."""
    assert list_offset(raw, topic, EARLIEST_LOCAL, version=version).offset == 0


def test_an_empty_log(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    assert list_offset(raw, name, EARLIEST).offset == 0
    assert list_offset(raw, name, LATEST).offset == 0
    assert list_offset(raw, name, BASE_MS).offset == -1


def test_after_everything_was_deleted(raw: RawConnection, topic: str) -> None:
    """Changelog recovery of stream libraries hangs on watermarks that are not exact."""
    partitions = [{"partition_index": 0, "offset": -1}]
    body = {"topics": [{"name": topic, "partitions": partitions}], "timeout": 30_000}
    part = raw.request(DELETE_RECORDS, 2, body).topics[0].partitions[0]
    assert (part.error_code, part.low_watermark) == (0, 6)
    assert list_offset(raw, topic, EARLIEST).offset == 6
    assert list_offset(raw, topic, LATEST).offset == 6
    assert list_offset(raw, topic, BASE_MS).offset == -1


def test_times_before_the_start_are_not_found_below_it(raw: RawConnection, topic: str) -> None:
    partitions = [{"partition_index": 0, "offset": 3}]
    body = {"topics": [{"name": topic, "partitions": partitions}], "timeout": 30_000}
    assert raw.request(DELETE_RECORDS, 2, body).topics[0].partitions[0].low_watermark == 3
    assert list_offset(raw, topic, BASE_MS).offset == 3


def test_unknown_topics(raw: RawConnection, new_topic: NewTopic) -> None:
    assert list_offset(raw, "no-such-topic", LATEST).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(raw, new_topic(), LATEST, partition=9).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_epochs(raw: RawConnection, topic: str) -> None:
    partitions = [{"partition_index": 0, "current_leader_epoch": 9, "timestamp": LATEST}]
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
    assert raw.request(LIST_OFFSETS, 7, body).topics[0].partitions[0].error_code == UNKNOWN_LEADER_EPOCH
