"""Kafka's own tools for users, quotas, features, the quorum, leaders, replicas, producers and configs of all kinds.

A JVM takes over a second to start, so each tool says little here; the protocol tests say the rest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.drivers import Sent
from clients.drivers.confluent_driver import ConfluentDriver
from harness.process import BrokerProcess
from harness.raw import RawConnection
from java.jars import Finished, Java

pytestmark = pytest.mark.java

NewTopic = Callable[..., str]
TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
BROKER_LOGGER, GROUP = 8, 32


def feature(name: str) -> pytest.MarkDecorator:
    return pytest.mark.compat(client="java tools", feature=name)


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


@feature("kafka-configs: SCRAM users")
def test_users(tools: Tools) -> None:
    user = ("--entity-type", "users", "--entity-name", f"user-{uuid.uuid4().hex[:8]}")
    credential = "SCRAM-SHA-256=[iterations=8192,password=a secret]"
    assert "Completed updating" in tools(CONFIGS, "--alter", *user, "--add-config", credential)
    described = tools(CONFIGS, "--describe", *user)
    assert f"SCRAM credential configs for user-principal '{user[3]}' are SCRAM-SHA-256=iterations=8192" in described
    refused = tools.run(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
    assert refused.code != 0
    assert "Attempt to delete a user credential that does not exist" in refused.stderr


@feature("kafka-configs: client quotas")
def test_quotas(tools: Tools) -> None:
    name = f"user-{uuid.uuid4().hex[:8]}"
    entity = ("--entity-type", "users", "--entity-name", name, "--entity-type", "clients", "--entity-name", "app")
    quotas = "producer_byte_rate=1048576,request_percentage=200"
    assert "Completed updating" in tools(CONFIGS, "--alter", *entity, "--add-config", quotas)
    described = tools(CONFIGS, "--describe", *entity)
    assert f"Quota configs for user-principal '{name}', client-id 'app' are" in described
    assert "producer_byte_rate=1048576.0" in described
    assert "request_percentage=200.0" in described


def shown(bootstrap: str, kind: int, name: str, key: str) -> str:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
    with RawConnection(bootstrap) as connection:
        (config,) = connection.request(32, 4, {"resources": [resource]}).results[0].configs
    return str(config.value)


@feature("kafka-configs: groups and loggers")
def test_configs_of_groups_and_loggers(tools: Tools, bootstrap: str) -> None:
    group, session = f"group-{uuid.uuid4().hex[:8]}", "consumer.session.timeout.ms"
    tools(CONFIGS, "--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", f"{session}=50000")
    assert shown(bootstrap, GROUP, group, session) == "50000"
    logger = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tools(CONFIGS, "--alter", *logger, "--add-config", "runnel.housekeeping=ERROR")
    assert shown(bootstrap, BROKER_LOGGER, "1", "runnel.housekeeping") == "ERROR"


@feature("kafka-client-metrics")
def test_client_metrics(tools: Tools) -> None:
    name = f"metrics-{uuid.uuid4().hex[:8]}"
    command = f"{TOOLS}.ClientMetricsCommand"
    tools(command, "--alter", "--name", name, "--metrics", "org.apache.", "--interval", "1000")
    described = tools(command, "--describe")
    assert f"Client metrics configs for {name} are:" in described
    assert "metrics=org.apache." in described


@feature("kafka-features")
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


@feature("kafka-metadata-quorum")
def test_quorum(tools: Tools) -> None:
    command = f"{TOOLS}.MetadataQuorumCommand"
    status = dict(line.split(":", 1) for line in tools(command, "describe", "--status").splitlines() if ":" in line)
    assert status["LeaderId"].strip() == "1"
    assert int(status["HighWatermark"]) > 0
    assert '"id": 1' in status["CurrentVoters"]
    rows = tools(command, "describe", "--replication").splitlines()
    assert (rows[1].split()[0], rows[1].split()[-1]) == ("1", "Leader")


@feature("kafka-leader-election")
def test_leader_election(tools: Tools, new_topic: NewTopic) -> None:
    name = new_topic()
    command = f"{TOOLS}.LeaderElectionCommand"
    said = tools(command, "--election-type", "preferred", "--topic", name, "--partition", "0")
    assert f"Valid replica already elected for partitions {name}-0" in said
    refused = tools.run(command, "--election-type", "unclean", "--topic", "no-such-topic", "--partition", "0")
    assert refused.code != 0
    assert "No such topic as no-such-topic" in refused.stdout + refused.stderr


@feature("kafka-reassign-partitions")
def test_reassign_partitions(tools: Tools, new_topic: NewTopic, tmp_path: Path) -> None:
    name = new_topic(partitions=2)
    command = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    plan = tmp_path / "plan.json"
    partitions = [{"topic": name, "partition": index, "replicas": [1]} for index in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    file = ("--reassignment-json-file", str(plan))
    done = tools(command, *file, "--execute", "--throttle", "1000000")
    assert "Successfully started partition reassignments" in done
    assert f"Reassignment of partition {name}-1 is completed." in tools(command, *file, "--verify")


@feature("kafka-transactions describe-producers")
def test_describe_producers(tools: Tools, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()
    ConfluentDriver(bootstrap).produce(name, [Sent(value=b"a"), Sent(value=b"b")], idempotent=True)
    rows = tools(f"{TOOLS}.TransactionsCommand", "describe-producers", "--topic", name, "--partition", "0").splitlines()
    assert rows[0].split() == [
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    ]
    (producer,) = [row.split() for row in rows[1:]]
    assert (producer[1], producer[3], producer[5]) == ("0", "1", "None")


@feature("kafka-dump-log: cluster metadata")
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
