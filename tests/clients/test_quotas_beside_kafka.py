"""The same requests under the same quotas, to Runnel and to Apache Kafka in the same run.

What is compared are the throttle times that the brokers report and the bytes that went through, never the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from clients.quotas import RAW, quotas_of, send_produce, throttle_ms
from harness.kafka import running_small_kafka
from harness.process import BrokerProcess, external_bootstrap, watched
from harness.raw import RawConnection, decode_reply
from harness.topics import create_topic

pytestmark = pytest.mark.java

RATE = 100_000.0
WINDOW_S = 1.0  # quota.window.num=2: one full sample is forgiven
REQUEST_BYTES = 50_000
REQUESTS = 6
TOLERANCE = 0.5  # without throttling the rate would be three times the quota
SETTINGS = {"quota.window.num": "2"}

_numbers = count()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Runnel's address and Kafka's."""
    if external_bootstrap():
        pytest.skip("compares Runnel with Kafka, not with RUNNEL_TEST_BOOTSTRAP")
    with (
        running_small_kafka(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka,
        watched(BrokerProcess(tmp_path_factory.mktemp("runnel"), settings=SETTINGS)) as runnel,
    ):
        yield runnel.address, kafka.bootstrap


def new_topic(bootstrap: str) -> str:
    name = f"beside-{next(_numbers)}"
    create_topic(bootstrap, name)
    return name


def produced_rate(bootstrap: str) -> float:
    """Bytes a second that a quota let through, by the broker's own account of how long it made us wait."""
    topic = new_topic(bootstrap)
    sent_bytes, waited_ms = 0, 0
    with quotas_of(bootstrap, RAW, producer_byte_rate=RATE), RawConnection(bootstrap) as connection:
        for _ in range(REQUESTS):
            sent_bytes += send_produce(connection, topic, REQUEST_BYTES)
            waited_ms += throttle_ms(decode_reply(0, 9, connection.receive())[1])
    return sent_bytes / (WINDOW_S + waited_ms / 1000)


def fetched_rate(bootstrap: str) -> float:
    topic = new_topic(bootstrap)
    with RawConnection(bootstrap) as connection:
        for _ in range(REQUESTS):
            send_produce(connection, topic, REQUEST_BYTES)
            connection.receive()
    received_bytes, waited_ms, offset = 0, 0, 0
    with quotas_of(bootstrap, RAW, consumer_byte_rate=RATE), RawConnection(bootstrap) as connection:
        while offset < REQUESTS:
            reply = connection.request(1, 11, fetch_body(topic, offset))
            waited_ms += throttle_ms(reply)
            if throttle_ms(reply):
                assert reply.responses == ()
                continue
            received_bytes += len(reply.responses[0].partitions[0].records)
            offset += 1
    return received_bytes / (WINDOW_S + waited_ms / 1000)


def fetch_body(topic: str, offset: int) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": REQUEST_BYTES + 1000,
        "current_leader_epoch": -1,
    }
    limits = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return {"topics": [{"topic": topic, "partitions": [partition]}], **limits}


@pytest.mark.parametrize("measure", [produced_rate, fetched_rate])
def test_as_many_bytes_get_through(brokers: tuple[str, str], measure: Any) -> None:
    runnel, kafka = (measure(bootstrap) for bootstrap in brokers)
    assert runnel / RATE == pytest.approx(1, abs=TOLERANCE)
    assert kafka / RATE == pytest.approx(1, abs=TOLERANCE)
    assert runnel / kafka == pytest.approx(1, abs=TOLERANCE)


def mutations(bootstrap: str) -> list[tuple[list[int], int]]:
    """Codes and throttle times of a series of changes; the burst of 110 partitions is soon used up."""
    mark = f"made-{next(_numbers)}"
    names = (f"{mark}-{number}" for number in count())

    def create(version: int, *counts: int, validate_only: bool = False) -> tuple[list[int], int]:
        topics = [{"name": next(names), "num_partitions": n, "replication_factor": 1} for n in counts]
        body = {"topics": topics, "timeout": 30_000, "validate_only": validate_only}
        return outcome(connection.request(19, version, body), "topics")

    with quotas_of(bootstrap, RAW, controller_mutation_rate=10.0), RawConnection(bootstrap) as connection:
        seen = [create(7, 130, validate_only=True), create(7, 1)]  # a validation counts too: 20 are owed
        seen.append(create(5, 20))  # an old client is served, and waits afterwards
        seen += [create(7, 20, 1), create(6, 1)]
    return seen


def outcome(reply: Any, rows: str) -> tuple[list[int], int]:
    return [int(row.error_code) for row in getattr(reply, rows)], throttle_ms(reply)


def test_topics_are_refused_and_throttled_alike(brokers: tuple[str, str]) -> None:
    runnel, kafka = (mutations(bootstrap) for bootstrap in brokers)
    assert [codes for codes, _ in runnel] == [codes for codes, _ in kafka]
    assert {code for codes, _ in runnel for code in codes} == {0, 89}
    # The bucket refills while requests travel, and Kafka takes its time to make a topic.
    assert [wait_ms for _, wait_ms in runnel] == pytest.approx([wait_ms for _, wait_ms in kafka], abs=1000)
    assert max(wait_ms for _, wait_ms in runnel) > 1000
