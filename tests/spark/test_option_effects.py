"""What options change, beyond being read: how often is asked, what is waited for, which error ends it, what is sent.

A real broker behind a proxy that counts requests. Pauses are noted instead of slept, and nothing is timed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from harness.proxy import CuttingProxy
from runnel.client.errors import ClientError
from runnel.spark.planning import offsets as planning_offsets
from runnel.spark.reading import fetching
from runnel.wire.apis import ApiKey
from runnel.wire.fetch import FetchPartitionReply, FetchRequest, FetchResponse
from spark.records import numbered, produce, read_batch, stream_reader, values
from spark.test_fetching import change_replies

CURE = "raise the option kafkaConsumer.pollTimeoutMs if the broker is merely slow"
RECORDS = [b"0", b"1", b"2"]
NO_HOLD = {"kafka.fetch.max.wait.ms": "0"}


@pytest.fixture
def topic(bootstrap: str, new_topic: Callable[..., str]) -> str:
    name = new_topic()
    produce(bootstrap, name, numbered(3))
    return name


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[CuttingProxy]:
    with CuttingProxy(bootstrap, lambda *_: False) as made:
        yield made


class MutedProxy(CuttingProxy):
    """Passes on that many fetches less than it gets: their connections stay open, and silent."""

    def __init__(self, address: str, silent_fetches: int) -> None:
        self._silent_fetches = silent_fetches
        super().__init__(address, lambda *_: False)

    def _note(self, api_key: int) -> bool:
        cut = super()._note(api_key)
        if api_key == ApiKey.FETCH and self.requests_by_key[api_key] <= self._silent_fetches:
            self._closed.wait()
        return cut


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between questions about offsets, which nobody waits for here."""
    noted: list[float] = []
    monkeypatch.setattr(planning_offsets, "time", SimpleNamespace(sleep=noted.append))
    return noted


# kafkaConsumer.pollTimeoutMs ------------------------------------------------------------------------------------


def test_a_broker_that_brings_no_record_is_given_up_with_the_cure(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_replies(monkeypatch, range(1_000_000), lambda row: row._replace(records=None))
    complaint = rf"no record from 127\.0\.0\.1:\d+ within 0\.001 s, at {topic}/0 offset 0; {CURE}"
    with pytest.raises(ClientError, match=complaint):
        read_batch(bootstrap, subscribe=topic, **NO_HOLD, **{"kafkaConsumer.pollTimeoutMs": "1"})


def test_a_broker_that_brings_records_later_is_waited_for(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_replies(monkeypatch, range(20), lambda row: row._replace(records=None))
    rows = read_batch(bootstrap, subscribe=topic, **NO_HOLD, **{"kafkaConsumer.pollTimeoutMs": "60000"})
    assert values(rows) == RECORDS


def read_through(proxy: CuttingProxy, topic: str, poll_timeout_ms: int) -> list[Any]:
    patience = {"kafka.request.timeout.ms": "200", "kafkaConsumer.pollTimeoutMs": str(poll_timeout_ms)}
    return values(read_batch(proxy.address, subscribe=topic, **NO_HOLD, **patience))


def test_a_broker_that_stops_answering_is_given_up_with_the_cure(bootstrap: str, topic: str) -> None:
    complaint = rf"no reply within 0\.2 s.* within 0\.001 s, at {topic}/0 offset 0; {CURE}"
    with MutedProxy(bootstrap, silent_fetches=1_000) as proxy, pytest.raises(ClientError, match=complaint):
        read_through(proxy, topic, poll_timeout_ms=1)
    assert proxy.requests_by_key[ApiKey.FETCH] <= 1


def test_a_broker_that_answers_again_is_waited_for(bootstrap: str, topic: str) -> None:
    with MutedProxy(bootstrap, silent_fetches=2) as proxy:
        assert read_through(proxy, topic, poll_timeout_ms=60_000) == RECORDS
    assert proxy.requests_by_key[ApiKey.FETCH] >= 3


def test_the_time_for_a_record_holds_also_where_the_broker_is_away_altogether(bootstrap: str, topic: str) -> None:
    """Longer than the client's patience with a single question, which is none at all here."""
    metadata_of_plan = 2  # for the ends, and for the starts

    def is_away(api_key: int, number: int) -> bool:
        return api_key == ApiKey.METADATA and metadata_of_plan < number <= metadata_of_plan + 4

    with CuttingProxy(bootstrap, is_away) as proxy:
        rows = read_batch(proxy.address, subscribe=topic, **{"kafka.default.api.timeout.ms": "0"})
    assert values(rows) == RECORDS
    assert proxy.cuts == 4


# fetchOffset.numRetries, fetchOffset.retryIntervalMs ------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_missing_topic_is_asked_for_as_often_as_wanted(
    proxy: CuttingProxy, new_name: Callable[[], str], pauses: list[float], attempts: int
) -> None:
    retries = {"fetchOffset.numRetries": str(attempts), "fetchOffset.retryIntervalMs": "1500"}
    with pytest.raises(ClientError, match="does not exist"):
        read_batch(proxy.address, subscribe=new_name(), **retries)
    assert proxy.requests_by_key[ApiKey.METADATA] == attempts
    assert pauses == [1.5] * (attempts - 1)


def test_a_topic_that_turns_up_between_two_questions(
    bootstrap: str, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_name()
    creating = SimpleNamespace(sleep=lambda _: produce(bootstrap, topic, numbered(3)))
    monkeypatch.setattr(planning_offsets, "time", creating)
    assert values(read_batch(bootstrap, subscribe=topic, **{"fetchOffset.numRetries": "2"})) == RECORDS


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_an_end_that_lies_before_the_start_is_asked_for_again(
    proxy: CuttingProxy, topic: str, pauses: list[float], attempts: int
) -> None:
    """A broker that has just become leader may not know yet how far the log goes."""
    retries = {"fetchOffset.numRetries": str(attempts), "fetchOffset.retryIntervalMs": "70"}
    reader = stream_reader(proxy.address, subscribe=topic, commitOffsets="false", **retries)
    assert reader.latestOffset({topic: {"0": 5}}, ReadAllAvailable()) == {topic: {"0": 3}}
    assert proxy.requests_by_key[ApiKey.LIST_OFFSETS] == attempts
    assert pauses == [0.07] * (attempts - 1)
    reader.stop()


def test_an_end_that_catches_up_is_taken(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = SimpleNamespace(sleep=lambda _: produce(bootstrap, topic, numbered(4)))
    monkeypatch.setattr(planning_offsets, "time", writing)
    reader = stream_reader(bootstrap, subscribe=topic, commitOffsets="false", **{"fetchOffset.numRetries": "9"})
    assert reader.latestOffset({topic: {"0": 5}}, ReadAllAvailable()) == {topic: {"0": 7}}
    reader.stop()


# kafka.fetch.min.bytes, kafka.fetch.max.wait.ms -----------------------------------------------------------------


def test_a_fetch_is_held_until_there_is_enough(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are written after the fetch has reached the broker come with its reply: it was waiting for them."""
    sizes: list[int] = []
    decode = fetching.decode_fetch_response

    def noting(version: int, body: memoryview) -> FetchResponse:
        reply = decode(version, body)
        sizes.extend(len(row.records or b"") for _, _, rows in reply.topics for row in rows)
        return reply

    def write_more(api_key: int, number: int) -> bool:
        if api_key == ApiKey.FETCH and number == 1:
            produce(bootstrap, topic, numbered(300))
        return False

    monkeypatch.setattr(fetching, "decode_fetch_response", noting)
    held = {"kafka.fetch.min.bytes": "3000", "kafka.fetch.max.wait.ms": "600000"}
    with CuttingProxy(bootstrap, write_more) as proxy:
        assert values(read_batch(proxy.address, subscribe=topic, **held)) == RECORDS
    assert len(sizes) == 1
    assert sizes[0] >= 3000


def test_a_fetch_is_held_no_longer_than_wanted(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more bytes wanted than there will ever be, it is the wait that ends the fetch, and records come."""
    asked: list[tuple[int, int]] = []
    encode = fetching.encode_fetch_request

    def noting(version: int, request: FetchRequest) -> Any:
        asked.append((request.min_bytes, request.max_wait_ms))
        return encode(version, request)

    monkeypatch.setattr(fetching, "encode_fetch_request", noting)
    held = {"kafka.fetch.min.bytes": str(1 << 30), "kafka.fetch.max.wait.ms": "1"}
    assert values(read_batch(bootstrap, subscribe=topic, **held)) == RECORDS
    assert asked == [(1 << 30, 1)]


# kafka.fetch.max.bytes, kafka.max.partition.fetch.bytes, kafka.check.crcs, kafka.client.id ----------------------


def test_a_fetch_asks_for_no_more_bytes_than_wanted(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, set[int]]] = []
    encode = fetching.encode_fetch_request

    def noting(version: int, request: FetchRequest) -> Any:
        asked.append(
            (request.max_bytes, {row.partition_max_bytes for each in request.topics for row in each.partitions})
        )
        return encode(version, request)

    monkeypatch.setattr(fetching, "encode_fetch_request", noting)
    sizes = {"kafka.fetch.max.bytes": "70000", "kafka.max.partition.fetch.bytes": "30000"}
    assert values(read_batch(bootstrap, subscribe=topic, **sizes)) == RECORDS
    assert asked == [(70_000, {30_000})]


def test_checksums_are_looked_at_unless_that_is_not_wanted(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(row: FetchPartitionReply) -> FetchPartitionReply:
        records = bytearray(row.records or b"")
        records[-2] = ord("7")  # the last value; behind it is only how many headers there are
        return row._replace(records=memoryview(records))

    change_replies(monkeypatch, range(1_000_000), damaged)
    with pytest.raises(ClientError, match="checksum of the batch at offset 0"):
        read_batch(bootstrap, subscribe=topic)
    rows = read_batch(bootstrap, subscribe=topic, **{"kafka.check.crcs": "false"})
    assert values(rows) == [b"0", b"1", b"7"]


def test_brokers_are_told_the_client_id() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        impatient = {"kafka.request.timeout.ms": "200", "kafka.default.api.timeout.ms": "0"}
        with pytest.raises(ClientError):
            read_batch(address, subscribe="t", **impatient, **{"kafka.client.id": "reports"})
        with silent.accept()[0] as connection:
            assert b"reports" in connection.recv(1024)
