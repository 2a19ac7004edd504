"""The checks behind `runnel doctor`: names, addresses, versions, partitions, and a record there and back.

In: bootstrap addresses. Out: `Finding`s as they are made, each in plain words with what to do. The first
address that a client dials is only a bootstrap: the next ones are what the brokers advertise, so each of
those is dialled too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterable

from runnel.cli.findings import Finding, check_partitions
from runnel.cli.output import counted
from runnel.client import admin
from runnel.client.address import Address, parse_addresses
from runnel.client.cluster import Cluster
from runnel.client.connection import Connection
from runnel.client.errors import ClientError
from runnel.client.metadata import BrokerView, ClusterView, TopicPartition, read_cluster
from runnel.client.producer import Delivery, Producer, ProducerSettings
from runnel.client.reader import Reader
from runnel.wire.apis import ApiKey

NEEDED_APIS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS)
SKEW_MS_MAX = 2_000
CLIENT_ID = "runnel-doctor"
ADVERTISE_ADVICE = (
    "after the bootstrap address a client dials what the broker advertises; make that an address which "
    "clients can reach: `runnel serve --advertise HOST:PORT`, in Apache Kafka "
    "advertised.listeners=PLAINTEXT://HOST:PORT"
)


async def diagnose(bootstrap: str, *, timeout_s: float, write: bool) -> AsyncIterator[Finding]:
    """Everything that can be found out from here, in the order in which a client would meet it."""
    addresses = parse_addresses(bootstrap)
    views: dict[Address, ClusterView] = {}
    for address in addresses:
        async for finding in _check_bootstrap(address, timeout_s, views):
            yield finding
    if not views:
        return
    for finding in _check_same_cluster(views):
        yield finding
    used, view = next(iter(views.items()))
    reachable = True
    for broker in view.brokers.values():
        finding = await _check_advertised(broker, used, view, timeout_s)
        reachable = reachable and finding.status != "failure"
        yield finding
    for finding in _check_controller(view):
        yield finding
    for finding in check_partitions(view.topics.values()):
        yield finding
    if write and reachable:
        async for finding in _check_write(used, timeout_s):
            yield finding


async def _check_bootstrap(
    address: Address, timeout_s: float, views: dict[Address, ClusterView]
) -> AsyncIterator[Finding]:
    for finding in await _check_names(address, timeout_s):
        yield finding
    try:
        view, ranges, took_ms = await _ask(address, timeout_s)
    except ClientError as error:
        yield Finding("failure", "bootstrap", str(address), error.message)
        return
    views[address] = view
    missing = [api.name for api in NEEDED_APIS if api not in ranges]
    if missing:
        yield Finding("failure", "versions", str(address), f"does not offer {', '.join(missing)}")
    message = f"answers as a Kafka broker in {took_ms:.1f} ms, with {counted(len(ranges), 'API')}"
    yield Finding("ok", "bootstrap", str(address), message)


async def _ask(address: Address, timeout_s: float) -> tuple[ClusterView, dict[int, tuple[int, int]], float]:
    """Metadata and API versions from exactly this address, and how long a small request takes there."""
    connection = await Connection.open(address, client_id=CLIENT_ID, timeout_s=timeout_s)
    try:
        body = {"topics": None, "allow_auto_topic_creation": False}
        view = read_cluster(await connection.call(ApiKey.METADATA, body))
        started_s = time.monotonic()
        await connection.call(ApiKey.METADATA, {"topics": [], "allow_auto_topic_creation": False})
        return view, connection.ranges, (time.monotonic() - started_s) * 1000
    finally:
        await connection.close()


async def _check_names(address: Address, timeout_s: float) -> list[Finding]:
    """A name with several addresses of which only some work: clients differ in which they try first."""
    resolved = await _resolve(address)
    if len(resolved) < 2:
        return []
    dead = [ip for ip in resolved if not await _accepts(Address(ip, address.port), timeout_s)]
    if not dead or len(dead) == len(resolved):
        return []
    alive = [ip for ip in resolved if ip not in dead]
    return [
        Finding(
            "warning",
            "names",
            str(address),
            f"{address.host} is {' and '.join(resolved)}, but nothing answers on {' and '.join(dead)}",
            f"some clients try that one first: use {' or '.join(alive)} for the name, or listen on both",
        )
    ]


async def _resolve(address: Address) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _accepts(address: Address, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _check_same_cluster(views: dict[Address, ClusterView]) -> Iterable[Finding]:
    clusters = {view.cluster_id for view in views.values()}
    if len(clusters) > 1:
        names = ", ".join(f"{address} is of {view.cluster_id}" for address, view in views.items())
        message = f"the bootstrap list names several clusters: {names}"
        yield Finding("failure", "cluster", "bootstrap list", message, "keep the addresses of one cluster")
    else:
        count = counted(len(next(iter(views.values())).brokers), "broker")
        yield Finding("ok", "cluster", str(clusters.pop()), f"has {count}")


async def _check_advertised(broker: BrokerView, used: Address, view: ClusterView, timeout_s: float) -> Finding:
    """The number one support topic: what the broker tells clients to dial next."""
    subject = f"broker {broker.node_id} at {broker.address}"

    def failure(message: str, advice: str = ADVERTISE_ADVICE) -> Finding:
        return Finding("failure", "advertised", subject, message, advice)

    if not broker.address.host or _is_unspecified(broker.address.host):
        return failure("advertises an address that nobody can dial")
    if _is_loopback(broker.address.host) and not _is_loopback(used.host):
        return failure(
            f"advertises {broker.address.host}, which on every client's machine means that machine; "
            f"you reached it as {used.host}"
        )
    if not await _resolve(broker.address):
        return failure(f"advertises a name that does not resolve here: {broker.address.host}")
    try:
        theirs, _, _ = await _ask(broker.address, timeout_s)
    except ClientError as error:
        return failure(f"advertises an address that does not work from here: {error.message}")
    if theirs.cluster_id != view.cluster_id:
        return failure(f"what answers there belongs to another cluster ({theirs.cluster_id})")
    return Finding("ok", "advertised", subject, "the advertised address works from here")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in ("localhost", "localhost.localdomain", "ip6-localhost")


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _check_controller(view: ClusterView) -> Iterable[Finding]:
    if view.controller_id not in view.brokers:
        message = "the cluster names no controller: topics cannot be created or changed now"
        yield Finding("warning", "controller", str(view.cluster_id), message, "see the brokers' logs")


async def _check_write(used: Address, timeout_s: float) -> AsyncIterator[Finding]:
    """A record to a topic of our own and back; its append time also tells the broker's clock."""
    topic = f"runnel-doctor-{secrets.token_hex(4)}"
    async with Cluster(str(used), client_id=CLIENT_ID, timeout_s=timeout_s) as cluster:
        try:
            configs = {"message.timestamp.type": "LogAppendTime"}
            (outcome,) = await admin.create_topics(cluster, [admin.NewTopic(topic, 1, -1, configs)])
            if outcome.error is not None:
                raise outcome.error
            async for finding in _round_trip(cluster, topic):
                yield finding
        except ClientError as error:
            yield Finding("failure", "write", topic, error.message)
        finally:
            await admin.delete_topics(cluster, [topic])


async def _round_trip(cluster: Cluster, topic: str) -> AsyncIterator[Finding]:
    await cluster.topic(topic, create=False)
    deliveries: list[Delivery] = []
    payload = secrets.token_bytes(32)
    async with Producer(cluster, ProducerSettings(linger_ms=0), deliveries.append) as producer:
        before_ms = time.time() * 1000
        await producer.send(topic, payload)
        await producer.flush()
        after_ms = time.time() * 1000
    target = TopicPartition(topic, 0)
    values: list[bytes | None] = []
    started_s = time.monotonic()
    async with Reader(cluster, {target: 0}) as reader:
        async for chunk in reader.chunks():
            values += [record.value for record in chunk.records]
            break
    read_ms = (time.monotonic() - started_s) * 1000
    if values != [payload]:
        yield Finding("failure", "write", topic, "a record came back changed, or not at all")
        return
    times = f"written with acks=all in {after_ms - before_ms:.0f} ms, read back in {read_ms:.0f} ms"
    yield Finding("ok", "write", "a record there and back", times)
    yield _clock_finding(deliveries[0].log_append_time_ms, before_ms, after_ms)


def _clock_finding(append_time_ms: int, before_ms: float, after_ms: float) -> Finding:
    if append_time_ms < 0:
        return Finding("warning", "clock", "the broker's clock", "unknown: the broker sent no append time")
    skew_ms = append_time_ms - (before_ms + after_ms) / 2
    slack_ms = (after_ms - before_ms) / 2
    if abs(skew_ms) <= SKEW_MS_MAX + slack_ms:
        return Finding("ok", "clock", "the broker's clock", "agrees with this machine's")
    direction = "ahead of" if skew_ms > 0 else "behind"
    message = f"is {abs(skew_ms) / 1000:.1f} s {direction} this machine's"
    advice = "set both by NTP: retention and reading by time depend on it"
    return Finding("warning", "clock", "the broker's clock", message, advice)
