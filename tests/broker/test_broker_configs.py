"""The configuration of a running broker: what it shows, and what takes effect at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from runnel import Broker

WAIT_S = 30


def shown(admin: AdminClient) -> dict[str, str | None]:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return {name: entry.value for name, entry in future.result(WAIT_S).items()}


def test_what_the_broker_was_started_with_is_shown(tmp_path: Path) -> None:
    with Broker(tmp_path, configs={"num.partitions": "4"}) as broker:
        configs = shown(AdminClient({"bootstrap.servers": broker.bootstrap_servers}))
    assert configs["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert configs["log.dirs"] == str(tmp_path)
    assert configs["broker.id"] == "1"
    assert configs["num.partitions"] == "4"


def is_refused(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("limit", ["max.connections", "max.connections.per.ip"])
def test_a_limit_changed_on_the_running_broker_counts_at_once(limit: str) -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        entry = ConfigEntry(limit, "5", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([resource]).values()
        future.result(WAIT_S)
        host, port = broker.bootstrap_servers.split(":")
        clients = [socket.create_connection((host, int(port)), timeout=WAIT_S) for _ in range(6)]
        try:
            assert is_refused(clients[-1]), "the sixth is over the limit, whatever the admin client holds"
        finally:
            for client in clients:
                client.close()
