"""librdkafka at the other end of a socket: its in-process mock cluster answers what our codecs write, and reads it.

The mock is librdkafka's own C code; nothing of the bytes here was made by us on both sides.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition

from runnel.wire.apis import ApiKey, request_header_version, response_header_version
from runnel.wire.batch import check_crc, decode_records, encode_batch, iterate_headers
from runnel.wire.fetch import FetchPartition, FetchRequest, FetchTopic, decode_fetch_response, encode_fetch_request
from runnel.wire.frames import decode_response_header, encode_request_frame, encode_request_header
from runnel.wire.messages import decode_response, encode_request
from runnel.wire.produce import (
    PartitionRecords,
    ProduceRequest,
    TopicRecords,
    decode_produce_response,
    encode_produce_request,
)
from runnel.wire.types import ZERO_UUID

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
WAIT_S = 20
QUIET = {"log_level": 0}


class Connection:
    """A blocking client of a few lines: one request, one reply."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._correlation_id = 100

    def call(self, api_key: int, version: int, body: bytes) -> tuple[bytes, int]:
        """The reply's bytes and where its body starts."""
        self._correlation_id += 1
        header = encode_request_header(api_key, version, self._correlation_id, "wire-test")
        assert request_header_version(api_key, version) == (2 if header.endswith(b"\0") else 1)
        self._socket.sendall(encode_request_frame(header, body))
        (size,) = struct.unpack(">i", self._exactly(4))
        reply = self._exactly(size)
        correlation_id, position = decode_response_header(reply, response_header_version(api_key, version))
        assert correlation_id == self._correlation_id
        return reply, position

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            assert chunk, "the mock closed the connection: it did not understand us"
            received += chunk
        return received

    def close(self) -> None:
        self._socket.close()


class Mock:
    def __init__(self) -> None:
        # The mock cluster lives as long as the client that made it.
        self.owner = Producer({"test.mock.num.brokers": 1, **QUIET})
        (broker,) = self.owner.list_topics(timeout=WAIT_S).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self.connection = Connection(self.address)
        reply, position = self.connection.call(18, 2, encode_request(18, 2, {}))
        listed = decode_response(18, 2, reply, position).api_keys
        self.ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in listed}

    def versions(self, api_key: int, lowest: int, highest: int) -> range:
        mock_lowest, mock_highest = self.ranges[api_key]
        return range(max(lowest, mock_lowest), min(highest, mock_highest) + 1)

    def create(self, topic: str) -> Any:
        """A metadata request creates the topic; returns its id."""
        reply, position = self.connection.call(3, 12, encode_request(3, 12, {"topics": [{"name": topic}]}))
        return decode_response(3, 12, reply, position).topics[0].topic_id

    def fetch_all(self, version: int, topic: str, count: int) -> bytes:
        """The mock answers with one batch at a time, and a loaded machine makes several of what lingers together."""
        found, offset = b"", 0
        while offset < count:
            batch = self.fetch(version, topic, offset=offset)
            found += batch
            offset = max(header.last_offset for _, header in iterate_headers(batch)) + 1
        return found

    def fetch(self, version: int, topic: str, topic_id: Any = ZERO_UUID, offset: int = 0) -> bytes:
        wanted = FetchTopic(topic, topic_id, [FetchPartition(0, offset, 1 << 20)])
        request = FetchRequest(-1, -1, 1000, 1, 1 << 20, 0, 0, -1, [wanted])
        reply, position = self.connection.call(1, version, encode_fetch_request(version, request))
        ((_, _, (partition,)),) = decode_fetch_response(version, reply, position).topics
        assert partition.error_code == 0
        return bytes(partition.records or b"")


@pytest.fixture(scope="module")
def mock() -> Iterator[Mock]:
    made = Mock()
    yield made
    made.connection.close()


def test_metadata_in_every_version_that_the_mock_speaks(mock: Mock) -> None:
    seen = set()
    for version in mock.versions(ApiKey.METADATA, 0, 13):
        body = encode_request(
            3, version, {"topics": [{"name": "meta", "topic_id": ZERO_UUID}], "allow_auto_topic_creation": True}
        )
        reply, position = mock.connection.call(3, version, body)
        metadata = decode_response(3, version, reply, position)
        (broker,) = metadata.brokers
        assert f"{broker.host}:{broker.port}" == mock.address
        (topic,) = metadata.topics
        assert topic.name == "meta"
        assert topic.partitions[0].leader_id == broker.node_id
        seen.add(version)
    assert len(seen) > 5


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_librdkafka_writes(mock: Mock, codec: str) -> None:
    topic = f"theirs-{codec}"
    producer = Producer({"bootstrap.servers": mock.address, "compression.type": codec, "linger.ms": 200, **QUIET})
    values = [None if index % 10 == 9 else b"value %d " % index * 20 for index in range(50)]
    for index, value in enumerate(values):
        headers = [("h", b"x"), ("none", None)] if index % 2 else []
        producer.produce(topic, value, key=b"k%d" % index, headers=headers, partition=0, timestamp=1_000 + index)
    assert producer.flush(WAIT_S) == 0

    fetched = mock.fetch_all(11, topic, len(values))
    batches = list(iterate_headers(fetched))
    assert all(check_crc(fetched, position, header) for position, header in batches)
    assert all(header.compression == CODECS[codec] for _, header in batches)
    records = [record for position, _ in batches for record in decode_records(fetched, position)]
    assert [record.value for record in records] == values
    assert [record.key for record in records] == [b"k%d" % index for index in range(50)]
    assert [record.timestamp for record in records] == [1_000 + index for index in range(50)]
    assert records[1].headers == (("h", b"x"), ("none", None))
    assert [record.offset for record in records] == list(range(50))


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_what_we_write(mock: Mock, codec: str) -> None:
    topic = f"ours-{codec}"
    mock.create(topic)
    records = [(5_000 + index, b"k%d" % index, b"v" * index, [("h", b"%d" % index)]) for index in range(20)]
    batch = memoryview(encode_batch(records, compression=CODECS[codec]))
    # The mock leaves the log start offset out of its replies of version 5, which have it by Kafka's schema.
    versions = [version for version in mock.versions(ApiKey.PRODUCE, 3, 12) if version != 5]
    for version in versions:
        request = ProduceRequest(None, -1, 10_000, [TopicRecords(topic, ZERO_UUID, [PartitionRecords(0, batch)])])
        reply, position = mock.connection.call(0, version, encode_produce_request(version, request))
        ((name, _, (partition,)),) = decode_produce_response(version, reply, position).topics
        assert (name, partition.error_code) == (topic, 0)

    consumer = Consumer(
        {
            "bootstrap.servers": mock.address,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            **QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for version in versions:
            for timestamp, key, value, headers in records:
                message = consumer.poll(WAIT_S)
                assert message is not None, f"nothing came of version {version}"
                assert message.error() is None
                assert (message.key(), message.value(), message.headers()) == (key, value, headers)
                assert message.timestamp() == (TIMESTAMP_CREATE_TIME, timestamp)
    finally:
        consumer.close()


def test_fetch_in_every_version_that_the_mock_speaks(mock: Mock) -> None:
    topic = "fetch-versions"
    topic_id = mock.create(topic)
    batch = memoryview(encode_batch([(1, None, b"only", [])]))
    request = ProduceRequest(None, -1, 10_000, [TopicRecords(topic, ZERO_UUID, [PartitionRecords(0, batch)])])
    mock.connection.call(0, 7, encode_produce_request(7, request))
    versions = mock.versions(ApiKey.FETCH, 4, 18)
    for version in versions:
        (record,) = decode_records(mock.fetch(version, topic, topic_id))
        assert record.value == b"only"
    assert len(versions) > 5
