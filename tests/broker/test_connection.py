"""What a connection owes its client: order, and no loss of what has arrived."""

from __future__ import annotations

import itertools
import select
import socket
import struct

import pytest
from confluent_kafka import Consumer, TopicPartition

from runnel import Broker
from runnel.broker.receiving import OTHER_REQUEST_BYTES_MAX
from runnel.wire.batch import encode_batch
from runnel.wire.frames import encode_request_header
from runnel.wire.produce import PartitionRecords, ProduceRequest, TopicRecords, encode_produce_request
from runnel.wire.types import ZERO_UUID

PRODUCE = 0
VERSION = 9


def frame(topic: str, number: int, acks: int) -> bytes:
    batch = memoryview(encode_batch([(1_700_000_000_000, None, b"%d" % number, ())]))
    request = ProduceRequest(None, acks, 1000, [TopicRecords(topic, ZERO_UUID, [PartitionRecords(0, batch)])])
    message = encode_request_header(PRODUCE, VERSION, number, "test") + encode_produce_request(VERSION, request)
    return len(message).to_bytes(4, "big") + message


def test_what_was_sent_with_acks_0_arrives_though_the_client_hangs_up_at_once(
    runnel_broker: Broker, runnel_topic: str
) -> None:
    """The first request waits for the log to be opened; those behind it must not be forgotten meanwhile."""
    host, port = runnel_broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"".join(frame(runnel_topic, number, 0) for number in range(20)))
    consumer = Consumer(
        {"bootstrap.servers": runnel_broker.bootstrap_servers, "group.id": "t", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(runnel_topic, 0, 0)])
    values = [message.value() for message in consumer.consume(20, timeout=30)]
    consumer.close()
    assert values == [b"%d" % number for number in range(20)]


def test_pipelined_produces_are_answered_in_order(runnel_broker: Broker, runnel_topic: str) -> None:
    host, port = runnel_broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client, client.makefile("rb") as replies:
        client.sendall(b"".join(frame(runnel_topic, number, -1 if number % 3 else 1) for number in range(200)))
        for number in range(200):
            size = int.from_bytes(replies.read(4), "big")
            assert int.from_bytes(replies.read(size)[:4], "big") == number


@pytest.mark.parametrize("pieces", [(4, 6), (4, 5, 6), (6,)])
def test_only_a_produce_may_be_larger_than_requests_need_to_be(runnel_broker: Broker, pieces: tuple[int, ...]) -> None:
    """Judged when the first two bytes are there, however they come: not when 17 MiB have been taken."""
    host, port = runnel_broker.bootstrap_servers.split(":")
    for api_key, is_closed in ((3, True), (PRODUCE, False)):
        begun = struct.pack(">ih", OTHER_REQUEST_BYTES_MAX + 1, api_key)
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start, end in itertools.pairwise((0, *pieces)):
                client.sendall(begun[start:end])
                _answer_of_another(host, int(port))
            readable, _, _ = select.select([client], [], [], 15 if is_closed else 0)
            assert bool(readable) is is_closed


def _answer_of_another(host: str, port: int) -> None:
    """What was sent before on other connections has arrived when this one is answered."""
    with socket.create_connection((host, port), timeout=30) as bystander:
        bystander.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        assert bystander.recv(4)
