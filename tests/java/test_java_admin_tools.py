"""Kafka's own tools where they need a broker or a file of their own; the rest is on the compatibility card."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest

from harness.process import BrokerProcess
from harness.raw import RawConnection
from java.jars import Finished, Java

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
BROKER_LOGGER, GROUP = 8, 32


class Tools:
    """The tools against one broker."""

    def __init__(self, java: Java, bootstrap: str) -> None:
        self._java = java
        self._bootstrap = bootstrap

    def run(self, tool: str, *arguments: str) -> Finished:
        return self._java.run(tool, "--bootstrap-server", self._bootstrap, *arguments)

    def __call__(self, tool: str, *arguments: str) -> str:
        return self.run(tool, *arguments).check()


@pytest.fixture
def tools(java: Java, bootstrap: str) -> Tools:
    return Tools(java, bootstrap)


def shown(bootstrap: str, kind: int, name: str, key: str) -> str:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
    with RawConnection(bootstrap) as connection:
        (config,) = connection.request(32, 4, {"resources": [resource]}).results[0].configs
    return str(config.value)


def test_configs_of_groups_and_loggers(tools: Tools, bootstrap: str) -> None:
    group, session = f"group-{uuid.uuid4().hex[:8]}", "consumer.session.timeout.ms"
    tools(CONFIGS, "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", f"{session}=50000")
    assert shown(bootstrap, GROUP, group, session) == "50000"
    logger = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tools(CONFIGS, "--alter", *logger, "--add-config", "runnel.housekeeping=ERROR")
    assert shown(bootstrap, BROKER_LOGGER, "1", "runnel.housekeeping") == "ERROR"


def test_features(java: Java, start_broker: Callable[..., BrokerProcess]) -> None:
    tools = Tools(java, start_broker().address)
    command = f"{TOOLS}.FeatureCommand"
    assert "group.version was downgraded to 0." in tools(command, "downgrade", "--feature", "group.version=0")
    described = tools(command, "describe")
    assert "FinalizedVersionLevel: 4.3-IV0" in described
    assert "FinalizedVersionLevel: 0" in described
    refused = tools.run(command, "upgrade", "--feature", "group.version=3")
    assert refused.code != 0
    assert "only supports versions 0-1" in refused.stdout


def test_the_metadata_log_is_readable(java: Java, start_broker: Callable[..., BrokerProcess]) -> None:
    """What was asked over the wire lies in the log as Kafka's own records, and without the password."""
    broker = start_broker()
    entity, quota = {"entity_type": "user", "entity_name": "alice"}, {"key": "producer_byte_rate", "value": 5.0}
    credential = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"hashed"}
    config = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}
    group = {"resource_type": GROUP, "resource_name": "g", "configs": [config]}
    with RawConnection(broker.address) as connection:
        connection.request(49, 1, {"entries": [{"entity": [entity], "ops": [{**quota, "remove": False}]}]})
        connection.request(51, 0, {"deletions": [], "upsertions": [credential]})
        connection.request(51, 0, {"deletions": [{"name": "alice", "mechanism": 1}], "upsertions": []})
        connection.request(44, 1, {"resources": [group]})
    broker.terminate()
    log = broker.data_dir / "__cluster_metadata-0" / f"{0:020d}.log"
    printed = java.run(
        f"{TOOLS}.DumpLogSegments", "--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(log)
    ).check()
    records = [json.loads(line.partition("payload: ")[2]) for line in printed.splitlines() if "payload: " in line]
    by_type = {record["type"]: record["data"] for record in records}
    assert by_type["CLIENT_QUOTA_RECORD"]["entity"] == [{"entityType": "user", "entityName": "alice"}]
    assert by_type["USER_SCRAM_CREDENTIAL_RECORD"]["iterations"] == 4096
    assert by_type["REMOVE_USER_SCRAM_CREDENTIAL_RECORD"] == {"name": "alice", "mechanism": 1}
    assert (by_type["CONFIG_RECORD"]["resourceType"], by_type["CONFIG_RECORD"]["resourceName"]) == (GROUP, "g")
    features = {r["data"]["name"]: r["data"]["featureLevel"] for r in records if r["type"] == "FEATURE_LEVEL_RECORD"}
    assert features == {"metadata.version": 30, "group.version": 1}
    assert by_type["REGISTER_BROKER_RECORD"]["logDirs"]
