"""Quotas as real clients meet them: librdkafka, kafka-python, Kafka's own Java clients and kafka-configs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, ThrottleEvent, TopicPartition

from clients.quotas import (
    RAW,
    described,
    is_readable,
    open_socket,
    quotas_of,
    send_produce,
    set_quotas,
    throttle_ms,
)
from harness.conditions import wait_until
from harness.process import BrokerProcess, external_bootstrap, watched
from harness.raw import RawConnection, decode_reply, encode_frame
from java.jars import find_java

NewTopic = Callable[..., str]
RECORD = b"x" * 1000
RATE = 100_000.0
RECORDS = 250  # 250 kB at 100 kB a second, of which a window of one full sample forgives 100 kB
API_VERSIONS = (18, 3, {"client_software_name": "x", "client_software_version": "1"})


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a short window, so that a quota is exceeded within a second."""
    external = external_bootstrap()
    if external:
        yield external
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("quotas"), settings={"quota.window.num": 2})
    with watched(broker):
        yield broker.address


def client_id(name: str) -> tuple[tuple[str, str | None], ...]:
    return (("client-id", name),)


def test_librdkafka_is_told_and_loses_nothing(bootstrap: str, new_topic: NewTopic, new_name: Callable[[], str]) -> None:
    topic, name = new_topic(), new_name()
    events: list[ThrottleEvent] = []
    settings = {"bootstrap.servers": bootstrap, "client.id": name, "throttle_cb": events.append}
    with quotas_of(bootstrap, client_id(name), producer_byte_rate=RATE, consumer_byte_rate=RATE):
        producer = Producer({**settings, "batch.size": 100_000, "linger.ms": 50})
        for _ in range(RECORDS):
            producer.produce(topic, RECORD)
        assert producer.flush(120) == 0
        produce_events = len(events)
        assert produce_events > 0
        assert sum(event.throttle_time for event in events) > 0
        consumer = Consumer({**settings, "group.id": name, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = 0
        while seen < RECORDS:
            seen += len(consumer.consume(RECORDS, timeout=1))
        consumer.close()
    assert seen == RECORDS
    assert len(events) > produce_events


def test_kafka_python_is_told(bootstrap: str, new_topic: NewTopic, new_name: Callable[[], str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaProducer
    topic, name = new_topic(), new_name()
    with quotas_of(bootstrap, client_id(name), producer_byte_rate=RATE):
        producer = KafkaProducer(bootstrap_servers=bootstrap, client_id=name, batch_size=100_000, linger_ms=50)
        futures = [producer.send(topic, RECORD) for _ in range(RECORDS)]
        producer.flush(120)
        assert {future.get(60).offset for future in futures} == set(range(RECORDS))
        told_ms = producer.metrics()["producer-metrics"]["throttle-time-max"]
        producer.close()
    assert told_ms > 0


@pytest.mark.java
def test_java_clients_are_told(bootstrap: str, new_topic: NewTopic, new_name: Callable[[], str]) -> None:
    name = new_name()
    limits = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE, "controller_mutation_rate": 1.0}
    with quotas_of(bootstrap, client_id(name), **limits):
        program = str(Path(__file__).with_name("Throttled.java"))
        lines = find_java().run(program, bootstrap, new_topic(), name, str(RECORDS)).check().splitlines()
    told = dict(line.split(" ") for line in lines)
    assert float(told["produce-throttle-time-max"]) > 0
    assert float(told["fetch-throttle-time-max"]) > 0
    assert told["consumed"] == str(RECORDS)
    assert told["created"] == "ok,later:true"


@pytest.mark.java
def test_kafka_configs_sets_and_shows_them(bootstrap: str) -> None:
    java = find_java()

    def configs(*arguments: str) -> str:
        return java.run("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments).check()

    pair = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    configs(*pair, "--alter", "--add-config", "producer_byte_rate=1234,request_percentage=12.5")
    configs(*address, "--alter", "--add-config", "connection_creation_rate=7")
    assert "connection_creation_rate=7.0" in configs(*address, "--describe")
    with RawConnection(bootstrap) as connection:
        entity = (("client-id", None), ("user", "ann"))
        assert described(connection, entity) == {"producer_byte_rate": 1234.0, "request_percentage": 12.5}
        set_quotas(connection, entity, {"producer_byte_rate": None, "request_percentage": None})
        set_quotas(connection, (("ip", "127.0.0.9"),), {"connection_creation_rate": None})


def test_a_muted_channel_is_not_heard_while_another_is(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with (
        RawConnection(bootstrap) as muted,
        RawConnection(bootstrap) as other,
        quotas_of(bootstrap, RAW, producer_byte_rate=RATE),
    ):
        send_produce(muted, topic, 300_000)
        _, reply = decode_reply(0, 9, muted.receive())
        assert throttle_ms(reply) > 1000
        muted.send(*API_VERSIONS)
        for _ in range(50):
            other.request(*API_VERSIONS)
        assert not is_readable(muted)
        _, late = decode_reply(18, 3, muted.receive())
        assert late.error_code == 0


def test_request_time_throttles_any_request(bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection, quotas_of(bootstrap, RAW, request_percentage=0.0001):
        times_ms = [throttle_ms(connection.request(3, 9, {"topics": None})) for _ in range(3)]
    assert max(times_ms) == 1000  # one sample's length at most


def test_connections_beyond_their_rate_are_closed_unheard(bootstrap: str) -> None:
    frame = encode_frame(*API_VERSIONS[:2], 1, API_VERSIONS[2])
    with quotas_of(bootstrap, (("ip", "127.0.0.1"),), connection_creation_rate=1.0):
        sockets = [open_socket(bootstrap) for _ in range(14)]
        outcomes = []
        for connection in sockets:
            connection.sendall(frame)
            try:
                outcomes.append(bool(connection.recv(4)))
            except ConnectionResetError:
                outcomes.append(False)
            connection.close()
    assert outcomes[0]
    assert not all(outcomes)
    wait_until(lambda: _is_served(bootstrap, frame), "connections without the quota")


def _is_served(bootstrap: str, frame: bytes) -> bool:
    with open_socket(bootstrap) as connection:
        connection.sendall(frame)
        return connection.recv(4) != b""
