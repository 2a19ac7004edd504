"""`runnel doctor`: healthy brokers pass, and each common trouble is named with what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cli.conftest import Runnel
from client.scripted import read_frame, scripted_server
from runnel.cli.diagnosis import diagnose
from runnel.cli.findings import Finding
from runnel.client.address import Address
from runnel.wire.apis import ApiKey, response_header_version
from runnel.wire.frames import decode_request_header, response_prefix
from runnel.wire.messages import encode_response

Reply = dict[str, Any]


def test_a_healthy_broker(runnel: Runnel) -> None:
    done = runnel("doctor", "--write").ok()
    assert all(line.startswith("ok ") for line in done.lines[:-1])
    assert [line.split()[1] for line in done.lines[:-1]] == [
        "bootstrap", "cluster", "advertised", "partitions", "write", "clock"
    ]  # fmt: skip
    assert done.lines[-1].startswith("nothing stands in a client's way")
    assert not any("runnel-doctor" in line for line in runnel("topic", "list").ok().lines)


def test_json(runnel: Runnel, bootstrap: str) -> None:
    document = runnel("doctor", "--json").ok().document
    assert (document["ok"], document["failures"], document["bootstrap_server"]) == (True, 0, bootstrap)
    assert set(document["findings"][0]) == {"status", "check", "subject", "message", "advice"}
    failed = runnel("doctor", "--json", "-b", "127.0.0.1:1")
    assert failed.exit_code == 1
    assert failed.document["findings"][0]["status"] == "failure"


def test_nobody_is_there(runnel: Runnel) -> None:
    done = runnel("doctor", "-b", "127.0.0.1:1")
    assert done.exit_code == 1
    assert done.lines[0].startswith("FAIL  bootstrap")
    assert "start one with `runnel serve`" in done.lines[0]


def test_one_of_two_bootstrap_servers_is_down(runnel: Runnel, bootstrap: str) -> None:
    done = runnel("doctor", "-b", f"127.0.0.1:1,{bootstrap}")
    assert done.exit_code == 1
    assert [line.split()[0] for line in done.lines[:2]] == ["FAIL", "ok"]


def diagnosed(broker: Callable[[Address], Reply]) -> list[Finding]:
    """What the doctor finds at a broker that answers Metadata with what `broker` makes of its own address."""

    async def work() -> list[Finding]:
        own: list[Address] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await _answer(await read_frame(reader), writer, lambda: broker(own[0]))

        async with scripted_server(serve) as address:
            own.append(address)
            return [finding async for finding in diagnose(str(address), timeout_s=5, write=False)]

    return asyncio.run(work())


async def _answer(frame: bytes, writer: asyncio.StreamWriter, metadata: Callable[[], Reply]) -> None:
    header, _ = decode_request_header(frame)
    api = ApiKey(header.api_key)
    ranges = [{"api_key": key, "min_version": 0, "max_version": 9} for key in (0, 1, 2, 3, 18, 19)]
    body: Reply = {"api_keys": ranges} if api is ApiKey.API_VERSIONS else metadata()
    encoded = encode_response(api, header.api_version, body)
    prefix = response_prefix(header.correlation_id, response_header_version(api, header.api_version), len(encoded))
    writer.write(prefix + encoded)
    await writer.drain()


def cluster_of(host: str, port: int, **extra: Any) -> Reply:
    return {
        "brokers": [{"node_id": 1, "host": host, "port": port, "rack": None}],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [],
        **extra,
    }


def only(findings: list[Finding], check: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.check == check]
    return finding


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("0.0.0.0", 9092, "an address that nobody can dial"),
        ("", 9092, "an address that nobody can dial"),
        ("kafka-0.kafka.invalid", 9092, "a name that does not resolve here"),
        ("127.0.0.1", 1, "connection refused"),
    ],
)
def test_an_advertised_address_that_does_not_work(host: str, port: int, message: str) -> None:
    finding = only(diagnosed(lambda _: cluster_of(host, port)), "advertised")
    assert finding.status == "failure"
    assert message in finding.message
    assert "advertise" in (finding.advice or "")


def test_an_advertised_address_that_leads_elsewhere() -> None:
    answers = iter(["mine", "mine", "other", "other"])

    def broker(address: Address) -> Reply:
        return {**cluster_of(address.host, address.port), "cluster_id": next(answers)}

    finding = only(diagnosed(broker), "advertised")
    assert finding.status == "failure"
    assert "another cluster" in finding.message


def test_offline_and_lagging_partitions() -> None:
    def partition(index: int, leader: int, isr: list[int]) -> Reply:
        return {
            "partition_index": index,
            "error_code": 5 if leader < 0 else 0,
            "leader_id": leader,
            "leader_epoch": 0,
            "replica_nodes": [1, 2],
            "isr_nodes": isr,
            "offline_replicas": [],
        }

    rows = [partition(0, 1, [1, 2]), partition(1, -1, []), partition(2, 1, [1])]
    topics = [{"name": "orders", "is_internal": False, "error_code": 0, "partitions": rows}]
    findings = diagnosed(lambda address: cluster_of(address.host, address.port, topics=topics, controller_id=-1))
    partitions = [finding for finding in findings if finding.check == "partitions"]
    assert [(finding.status, finding.subject) for finding in partitions] == [
        ("failure", "orders/1"),
        ("warning", "orders/2"),
    ]
    assert only(findings, "controller").status == "warning"


def test_loopback_advertised_to_a_remote_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.cli.diagnosis._is_loopback", lambda host: host == "localhost")
    finding = only(diagnosed(lambda address: cluster_of("localhost", address.port)), "advertised")
    assert finding.status == "failure"
    assert "on every client's machine means that machine" in finding.message
