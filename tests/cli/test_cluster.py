"""`runnel cluster info|health`. Against Kafka too, but for what needs a broker of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from click.testing import CliRunner

from cli.conftest import DEADLINE_S, Runnel, command, environment
from harness.process import BrokerProcess, free_port
from runnel.cli.main import cli

NewTopic = Callable[..., str]


def test_info(runnel: Runnel, bootstrap: str, new_topic: NewTopic) -> None:
    new_topic(3)
    document = runnel("cluster", "info", "--json").ok().document
    (broker,) = document["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert (broker["id"], broker["fenced"], document["controller"]) == (1, False, 1)
    assert document["partitions"] >= broker["leads"] >= 3
    assert broker["size_bytes"] >= 0
    assert document["features"]["metadata.version"] > 0
    shown = runnel("cluster", "info").ok()
    assert shown.lines[0].startswith(f"cluster {document['cluster_id']}: 1 broker, ")
    assert shown.lines[1].split() == ["BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS", "SIZE", "FREE"]


def test_a_healthy_cluster(runnel: Runnel, bootstrap: str) -> None:
    document = runnel("cluster", "health", "--json").ok().document
    assert (document["healthy"], document["failures"]) == (True, 0)
    assert {finding["check"] for finding in document["findings"]} == {"brokers", "controller", "partitions", "disks"}
    shown = runnel("cluster", "health").ok()
    assert shown.lines[-1].startswith("healthy")
    assert f"broker 1 at {bootstrap}: answers" in shown.text
    assert runnel("cluster", "health", "--exit-when-healthy").exit_code == 0


def test_a_cluster_that_is_not_there() -> None:
    result = CliRunner().invoke(cli, ["cluster", "health", "-b", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stdout.startswith("FAIL  brokers     cannot connect to 127.0.0.1:1")
    assert result.stdout.splitlines()[-1] == "not healthy: 1 problem"


def test_waiting_for_a_broker_to_come_up(start_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    arguments = ("cluster", "health", "-b", f"127.0.0.1:{port}", "-e", "--every", "0.1", "--json")
    waiting = subprocess.Popen(command(arguments), stdout=subprocess.PIPE, env=environment(None))
    assert waiting.stdout is not None
    assert b'"healthy":false' in waiting.stdout.readline()
    start_broker(port=port)
    output, _ = waiting.communicate(timeout=DEADLINE_S)
    assert waiting.returncode == 0
    assert b'"healthy":true' in output.splitlines()[-1]
