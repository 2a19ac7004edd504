"""Retention as clients see it: the start moves, the end never does, and nothing is forgotten that must be known."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from clients.drivers import load_driver
from clients.protocol.calls import create, fetch, list_offset, produce
from harness.batches import decode_values, encode_batch
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection

StartBroker = Callable[..., BrokerProcess]
MEGABYTE = 1 << 20
OFFSET_OUT_OF_RANGE, OUT_OF_ORDER = 1, 45
BASE_MS = 1_700_000_000_000  # years ago: expired by any retention.ms


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    return start_broker({"log.retention.check.interval.ms": 100})


def configs(**values: object) -> list[dict[str, str]]:
    return [{"name": key.replace("_", "."), "value": str(value)} for key, value in values.items()]


def test_by_size(broker: BrokerProcess) -> None:
    with RawConnection(broker.address) as raw:
        limits = configs(segment_bytes=MEGABYTE, retention_bytes=2 * MEGABYTE, retention_ms=-1)
        assert create(raw, "t", configs=limits).error_code == 0
        for number in range(60):
            assert produce(raw, "t", encode_batch([b"%d" % number + b"x" * 100_000])).base_offset == number
        wait_until(lambda: list_offset(raw, "t", -2).offset >= 30, "old segments gone")
        start = list_offset(raw, "t", -2).offset
        assert start < 50, "more was deleted than retention.bytes allows"
        assert list_offset(raw, "t", -1).offset == 60
        assert fetch(raw, "t", 0).error_code == OFFSET_OUT_OF_RANGE
        assert decode_values(fetch(raw, "t", start).records)[0][0] == start
        assert produce(raw, "t", encode_batch([b"next"])).base_offset == 60


@pytest.mark.parametrize("client_name", ["confluent", "aiokafka", "kafka-python"])
def test_a_fully_expired_partition_has_exact_watermarks(broker: BrokerProcess, client_name: str) -> None:
    """Changelog recovery of stream libraries waits for the end for ever if these are not exact."""
    with RawConnection(broker.address) as raw:
        assert create(raw, "t", configs=configs(retention_ms=1000)).error_code == 0
        for number in range(10):
            # Appended at once or removed at once: the log may be swept between any two.
            assert produce(raw, "t", encode_batch([b"old"], timestamp_ms=BASE_MS)).base_offset == number
        wait_until(lambda: list_offset(raw, "t", -2).offset == 10, "everything expired")
    client = load_driver(client_name, broker.address)
    assert client.watermarks("t") == (10, 10)
    assert client.offset_for_time("t", BASE_MS) in (None, 10)


def test_idempotence_outlives_the_records(broker: BrokerProcess) -> None:
    """The producer's state is not in the deleted segments only."""
    ids = {"producer_id": 4711, "producer_epoch": 0}

    def send(raw: RawConnection, sequence: int) -> tuple[int, int]:
        batch = encode_batch([b"old"], timestamp_ms=BASE_MS, base_sequence=sequence, **ids)
        answer = produce(raw, "t", batch)
        return int(answer.error_code), int(answer.base_offset)

    with RawConnection(broker.address) as raw:
        assert create(raw, "t", configs=configs(retention_ms=1000)).error_code == 0
        for sequence in range(4):
            assert send(raw, sequence) == (0, sequence)
        wait_until(lambda: list_offset(raw, "t", -2).offset == 4, "everything expired")
        assert send(raw, 3) == (0, 3)  # a retry is still known
        assert list_offset(raw, "t", -1).offset == 4
        assert send(raw, 9)[0] == OUT_OF_ORDER
    broker.port = 0
    assert broker.terminate() == 0
    broker.start()
    with RawConnection(broker.address) as raw:
        assert send(raw, 3) == (0, 3)
        assert send(raw, 4) == (0, 4)


def test_old_segments_go_and_young_ones_stay(broker: BrokerProcess) -> None:
    with RawConnection(broker.address) as raw:
        limits = configs(segment_bytes=MEGABYTE, retention_ms=86_400_000, message_timestamp_type="CreateTime")
        assert create(raw, "t", configs=limits).error_code == 0
        for number in range(30):
            batch = encode_batch([b"x" * 100_000], timestamp_ms=BASE_MS if number < 20 else _now_ms())
            assert produce(raw, "t", batch).base_offset == number
        wait_until(lambda: list_offset(raw, "t", -2).offset > 0, "old segments gone")
        start = list_offset(raw, "t", -2).offset
        assert start <= 20
        assert list_offset(raw, "t", -1).offset == 30


def _now_ms() -> int:
    return int(time.time() * 1000)


def test_time_rolls_segments(broker: BrokerProcess) -> None:
    """segment.ms counts by the records' times, so that it can be tested without waiting."""
    with RawConnection(broker.address) as raw:
        assert create(raw, "t", configs=configs(segment_ms=1000, retention_ms=-1)).error_code == 0
        for number in range(3):
            batch = encode_batch([b"x"], timestamp_ms=BASE_MS + 10_000 * number)
            assert produce(raw, "t", batch).base_offset == number
    assert len(list((broker.data_dir / "t-0").glob("*.log"))) == 3
