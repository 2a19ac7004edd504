"""What passes is waited for and what stays is told at once: leaders that are missing for a moment, peers that restart.

By the classes that Spark calls, on a real broker, without Spark itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

from harness.proxy import CuttingProxy
from harness.topics import read_all
from runnel.client.address import Address, parse_address
from runnel.client.errors import ClientError, refused
from runnel.client.metadata import NO_LEADER, ClusterView, TopicPartition, TopicView
from runnel.spark.brokers import cluster as cluster_module
from runnel.spark.brokers.cluster import Cluster
from runnel.spark.brokers.connection import Connection
from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import BrokerSettings
from runnel.spark.planning import offsets as planning_module
from runnel.spark.writers import Written
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode
from runnel.wire.messages import Struct
from spark.records import numbered, produce, read_batch, source, stream_reader
from spark.test_batch_reader import NEVER, delete_topic

MOMENT_S = 0.5
"""An election: longer than three attempts 10 ms apart, shorter than anyone's patience."""
AT_ONCE_S = 10.0
"""Far below the default patience of a minute, and generous to a busy machine."""
VALUE = StructType([StructField("value", BinaryType())])
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes a close a reset."""


# Offsets --------------------------------------------------------------------------------------------------------


def test_who_waits_for_long_is_told_once_what_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "QUIET_S", 0.0)
    options = {"subscribe": "t", "kafka.default.api.timeout.ms": "300"}
    with pytest.raises(ClientError, match="cannot connect to localhost:1"):
        read_batch("localhost:1", **options)
    assert [record.getMessage().partition(":1: ")[0] for record in caplog.records] == ["cannot connect to localhost"]
    assert caplog.records[0].getMessage().endswith("s more)")


def without_leaders(topic: TopicView) -> TopicView:
    partitions = tuple(dataclasses.replace(partition, leader_id=NO_LEADER) for partition in topic.partitions)
    return dataclasses.replace(topic, partitions=partitions)


def in_error(topic: TopicView) -> TopicView:
    return dataclasses.replace(topic, partitions=(), error_code=int(ErrorCode.LEADER_NOT_AVAILABLE))


@pytest.mark.parametrize("change", [without_leaders, in_error])
def test_an_election_does_not_end_a_stream(
    bootstrap: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, change: Callable[..., TopicView]
) -> None:
    topic = new_topic(partitions=2)
    produce(bootstrap, topic, numbered(3))
    reader = stream_reader(bootstrap, subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    over_s = time.monotonic() + MOMENT_S
    as_answered = cluster_module.read_cluster

    def read_cluster(reply: Struct) -> ClusterView:
        view = as_answered(reply)
        if time.monotonic() >= over_s:
            return view
        return dataclasses.replace(view, topics={name: change(found) for name, found in view.topics.items()})

    monkeypatch.setattr(cluster_module, "read_cluster", read_cluster)
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 3, "1": 0}}
    assert time.monotonic() >= over_s
    reader.stop()


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_leader_that_has_not_heard_of_a_new_partition_is_waited_for(
    bootstrap: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """Brokers learn of topics and partitions one after the other; who lists them may be ahead of who leads them."""
    topic = new_topic()
    produce(bootstrap, topic, numbered(3))
    as_answered = planning_module.list_offsets
    refusals = iter(range(6))

    def list_offsets(*args: Any, **options: Any) -> dict[TopicPartition, int]:
        for _ in refusals:
            raise refused(code, f"partition {topic}/0")
        return as_answered(*args, **options)

    monkeypatch.setattr(planning_module, "list_offsets", list_offsets)
    reader = stream_reader(bootstrap, subscribe=topic)
    assert reader.initialOffset() == {topic: {"0": 3}}
    reader.stop()


def test_connections_that_are_lost_while_offsets_are_asked_for(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(bootstrap, topic, numbered(3))
    with CuttingProxy(bootstrap, lambda api_key, number: api_key == ApiKey.LIST_OFFSETS and number <= 5) as proxy:
        reader = stream_reader(proxy.address, subscribe=topic)
        assert reader.initialOffset() == {topic: {"0": 3}}
        reader.stop()
    assert proxy.cuts == 5


def test_a_leader_that_stays_away_is_told_when_patience_ends(
    bootstrap: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    as_answered = cluster_module.read_cluster

    def read_cluster(reply: Struct) -> ClusterView:
        view = as_answered(reply)
        return dataclasses.replace(view, topics={name: without_leaders(row) for name, row in view.topics.items()})

    monkeypatch.setattr(cluster_module, "read_cluster", read_cluster)
    begun_s = time.monotonic()
    with pytest.raises(ClientError, match=f"{topic}/0 has no leader now"):
        read_batch(bootstrap, subscribe=topic, **{"kafka.default.api.timeout.ms": "700"})
    assert 0.7 <= time.monotonic() - begun_s < AT_ONCE_S


def test_a_topic_that_is_deleted_is_told_at_once(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    reader = stream_reader(bootstrap, subscribe=topic)
    start = reader.initialOffset()
    delete_topic(bootstrap, topic)
    begun_s = time.monotonic()
    with pytest.raises(ClientError, match=f"topic '{topic}' does not exist"):
        reader.latestOffset(start, ReadAllAvailable())
    assert time.monotonic() - begun_s < AT_ONCE_S
    reader.stop()


def test_records_written_while_a_batch_is_planned_are_nobodys_mistake(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    produce(bootstrap, topic, numbered(3))

    def write_between(api_key: int, number: int) -> bool:
        # The ends are asked for first, then the timestamp, then, as no record is as late, the end to begin at.
        if api_key == ApiKey.LIST_OFFSETS and number == 2:
            produce(bootstrap, topic, numbered(2))
        return False

    options = {"startingTimestamp": NEVER, "startingOffsetsByTimestampStrategy": "latest"}
    with CuttingProxy(bootstrap, write_between) as proxy:
        assert read_batch(proxy.address, subscribe=topic, **options) == []
        assert proxy.requests_by_key[ApiKey.LIST_OFFSETS] == 3
    with pytest.raises(OptionError, match=rf"the start of {topic}/0 \(50\) lies after its end \(5\)"):
        read_batch(bootstrap, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":50}}}}')


# The sink -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pauses_s", [(1.5, 0.0), (0.0, 1.5)], ids=["before the first rows", "while a reply is due"])
def test_rows_that_come_slowly_are_no_delivery_that_takes_long(
    bootstrap: str, new_topic: Callable[..., str], pauses_s: tuple[float, float]
) -> None:
    topic = new_topic()

    def rows() -> Iterator[pa.RecordBatch]:
        for number, pause_s in enumerate(pauses_s):
            time.sleep(pause_s)
            yield pa.record_batch([pa.array([b"%d" % number * 100] * 20)], names=["value"])

    options = {"topic": topic, "kafka.delivery.timeout.ms": "1000", "kafka.batch.size": "1000"}
    with CuttingProxy(bootstrap, lambda api_key, number: api_key == ApiKey.PRODUCE and number == 1) as proxy:
        source(proxy.address, options).writer(VALUE, overwrite=False).write(rows())
    assert proxy.cuts == 1
    expected = [b"0" * 100] * 20 + [b"1" * 100] * 20
    assert read_all(bootstrap, topic, keep=lambda message: message.value()) == expected


def test_what_is_sent_without_asking_for_replies_is_progress_too(
    bootstrap: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that takes its time: sending lasts longer than the delivery timeout, no single request does."""
    topic, as_sent, sent = new_topic(), Connection.send, iter(range(40))

    def send(connection: Connection, api_key: ApiKey, version: int, *payload: bytes) -> None:
        if api_key == ApiKey.PRODUCE:
            time.sleep(0.04)
            if next(sent) == 30:
                raise ClientError("lost the connection", code=ErrorCode.NETWORK_EXCEPTION)
        as_sent(connection, api_key, version, *payload)

    monkeypatch.setattr(Connection, "send", send)
    rows = [pa.record_batch([pa.array([b"%02d" % number * 100])], names=["value"]) for number in range(35)]
    options = {"kafka.acks": "0", "kafka.delivery.timeout.ms": "1000", "kafka.batch.size": "100"}
    written = source(bootstrap, {"topic": topic, **options}).writer(VALUE, overwrite=False).write(iter(rows))
    assert isinstance(written, Written)
    assert written.arrived == {TopicPartition(topic, 0): (35, -1)}


# Leaders --------------------------------------------------------------------------------------------------------


def test_each_leader_of_many_partitions_is_found_in_a_few_looks() -> None:
    """A topic may have thousands of partitions, and every trigger asks the leaders of all."""
    count, looks = 3000, 0

    class Noted:
        leader_id, is_offline = 7, False

        def __init__(self, index: int) -> None:
            self._index = index

        @property
        def index(self) -> int:
            nonlocal looks
            looks += 1
            return self._index

    partitions: Any = tuple(Noted(index) for index in range(count))
    targets = [TopicPartition("t", index) for index in range(count)]
    with Cluster(BrokerSettings("127.0.0.1:1")) as cluster:
        cluster.view = ClusterView(None, -1, {}, {"t": TopicView("t", uuid4(), False, partitions)})
        assert cluster.by_leader(targets) == {7: targets}
        assert looks < 20 * count
        with pytest.raises(ClientError, match="t/3000"):
            cluster.partition(TopicPartition("t", count))


# Connections ----------------------------------------------------------------------------------------------------


def test_any_broker_is_one_whose_connection_is_open(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that are gone cost a timeout each: they are dialled when nothing else is left."""
    dialled: list[Address] = []

    class Noted(Connection):
        def __init__(self, address: Address, settings: BrokerSettings) -> None:
            dialled.append(address)
            super().__init__(address, settings)

    monkeypatch.setattr(cluster_module, "Connection", Noted)
    with CuttingProxy(bootstrap, lambda *_: False) as proxy, CuttingProxy(bootstrap, lambda *_: False) as other:
        gone, alive = parse_address(proxy.address), parse_address(other.address)
        with Cluster(BrokerSettings(f"{proxy.address},{other.address}")) as cluster:
            assert cluster.connect().address == gone
            cluster._dial(alive)
            assert cluster.connect().address == gone, "still open"
            cluster._dial(gone).close()
            dialled.clear()
            assert cluster.connect().address == alive
            assert dialled == []


def test_a_broker_that_has_left_is_dialled_last(bootstrap: str) -> None:
    with CuttingProxy(bootstrap, lambda *_: False) as other, Cluster(BrokerSettings(bootstrap)) as cluster:
        left = cluster._dial(parse_address(other.address))
        given = cluster._dial(parse_address(bootstrap))
        assert cluster.connect() is left, "while it is open"
        left.close()
        given.close()
        assert cluster.connect().address == given.address


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A port; every connection to it is handed to `serve`, and closed when that returns."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                serve(client)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # Closing alone does not wake a thread that is blocked in accept().
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def close(client: socket.socket) -> None:
    """As a proxy does whose broker is away: the hello is taken, and that is all."""
    client.recv(4096)


def reset(client: socket.socket) -> None:
    client.recv(1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def say_nothing(client: socket.socket) -> None:
    while client.recv(4096):
        pass


def test_junk_is_told_as_what_it_is() -> None:
    def answer(client: socket.socket) -> None:
        request = client.recv(4096)
        client.sendall(struct.pack(">i", 4) + request[8:12])  # a header of ApiVersions, and nothing behind it

    with listening(answer) as address, pytest.raises(ClientError, match="does not speak the Kafka protocol"):
        Connection(parse_address(address), BrokerSettings(address))


def test_a_reply_without_a_whole_header_is_junk(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(BrokerSettings(bootstrap)) as cluster:
        connection = cluster.connect()
        cut = memoryview(bytearray((connection._correlation_id + 1).to_bytes(4, "big")))
        monkeypatch.setattr(connection, "_read_frame", lambda: cut)  # the tags of a flexible header are missing
        with pytest.raises(ClientError, match=r"answered METADATA version \d+ with junk"):
            connection.call(ApiKey.METADATA, {"topics": [], "allow_auto_topic_creation": False})
        assert not connection.is_open


def test_a_listener_that_answers_nothing_but_its_versions_may_want_a_login(bootstrap: str) -> None:
    with CuttingProxy(bootstrap, lambda api_key, _: api_key == ApiKey.METADATA) as proxy:
        settings = BrokerSettings(proxy.address, patience_s=0.0)
        with Cluster(settings) as cluster, pytest.raises(ClientError, match=r"set kafka.security.protocol"):
            cluster.refresh([])


def test_a_certificate_that_does_not_load_leaves_no_socket(bootstrap: str) -> None:
    security = {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem", "ssl.truststore.type": "PEM"}
    with CuttingProxy(bootstrap, lambda *_: False) as proxy, pytest.raises(ClientError, match="does not load"):
        Connection(parse_address(proxy.address), BrokerSettings(proxy.address, security=security))


def test_passwords_are_not_printed() -> None:
    one, other = (BrokerSettings("h:1", security={"sasl.jaas.config": word}) for word in ("secret", "changed"))
    assert "secret" not in repr(one)
    assert one != other
    assert {one: 1}.get(other) is None


def failure_of(address: str, certificate: Path | None) -> ClientError:
    security = {"security.protocol": "SSL"}
    if certificate is not None:
        security |= {"ssl.truststore.location": str(certificate), "ssl.truststore.type": "PEM"}
    with pytest.raises(ClientError, match="no TLS with") as caught:
        Connection(parse_address(address), BrokerSettings(address, request_timeout_s=1.0, security=security))
    return caught.value


@pytest.mark.parametrize("serve", [close, reset, say_nothing])
def test_a_peer_that_goes_away_in_the_handshake_is_tried_again(
    serve: Callable[[socket.socket], None], certificate: Path
) -> None:
    with listening(serve) as address:
        assert failure_of(address, certificate).retriable


def test_what_tls_objects_to_is_told_at_once(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def secure(client: socket.socket) -> None:
        context.wrap_socket(client, server_side=True).close()

    with listening(secure) as address:
        stranger = failure_of(address, None)
        assert "certificate verify failed" in stranger.message
        assert not stranger.retriable
    with listening(lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        assert not failure_of(address, certificate).retriable


def test_a_listener_behind_tls_that_restarts(bootstrap: str, new_topic: Callable[..., str], certificate: Path) -> None:
    """A proxy that ends TLS, as in front of many brokers: it closes its first connections, then passes bytes on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    seen: list[int] = []

    def serve(client: socket.socket) -> None:
        seen.append(client.fileno())
        if len(seen) <= 3:
            close(client)
            return
        host, port = parse_address(bootstrap)
        with context.wrap_socket(client, server_side=True) as secured, socket.create_connection((host, port)) as broker:
            back = threading.Thread(target=pass_on, args=(broker, secured), daemon=True)
            back.start()
            pass_on(secured, broker)
            broker.shutdown(socket.SHUT_RDWR)
            back.join(10)

    with listening(serve) as address:
        security = {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(certificate),
            "ssl.truststore.type": "PEM",
        }
        with Cluster(BrokerSettings(address, security=security)) as cluster:
            assert cluster.refresh([]).brokers
    assert len(seen) == 4


def pass_on(origin: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := origin.recv(65536):
            target.sendall(chunk)
