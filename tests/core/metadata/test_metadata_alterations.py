"""Dynamic configs: set, unset, append, subtract, replace; and what is refused."""

from __future__ import annotations

import pytest
from metadata_cluster import Cluster

from runnel.core.metadata import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ConfigOutcome,
    ConfigResource,
    CreateTopics,
    IncrementalAlterConfigs,
    NewTopic,
    ResourceType,
)
from runnel.wire.errors import ErrorCode

TOPIC = ConfigResource(ResourceType.TOPIC, "orders")
BROKER = ConfigResource(ResourceType.BROKER, "1")
GROUP = ConfigResource(ResourceType.GROUP, "g")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.do(CreateTopics([NewTopic("orders", configs={"retention.ms": "1000"})]))
    return cluster


def change(cluster: Cluster, resource: ConfigResource, *changes: ConfigChange) -> ConfigOutcome:
    (outcome,) = cluster.do(IncrementalAlterConfigs([(resource, changes)]))
    assert isinstance(outcome, ConfigOutcome)
    return outcome


def configs(cluster: Cluster) -> dict[str, str]:
    return dict(cluster.machine.image.topics["orders"].configs)


def test_single_configs_are_set_and_unset(cluster: Cluster) -> None:
    assert change(cluster, TOPIC, ConfigChange("segment.bytes", SET, "2000000")).code is ErrorCode.NONE
    assert configs(cluster) == {"retention.ms": "1000", "segment.bytes": "2000000"}
    change(cluster, TOPIC, ConfigChange("retention.ms", DELETE, None))
    assert configs(cluster) == {"segment.bytes": "2000000"}


def test_replacing_drops_what_is_not_named(cluster: Cluster) -> None:
    cluster.do(AlterConfigs([(TOPIC, [("segment.bytes", "2000000")])]))
    assert configs(cluster) == {"segment.bytes": "2000000"}
    cluster.do(AlterConfigs([(TOPIC, [])]))
    assert configs(cluster) == {}


def test_lists_grow_and_shrink_from_their_default(cluster: Cluster) -> None:
    change(cluster, TOPIC, ConfigChange("cleanup.policy", APPEND, "compact"))
    assert configs(cluster)["cleanup.policy"] == "delete,compact"
    change(cluster, TOPIC, ConfigChange("cleanup.policy", APPEND, "compact"))
    assert configs(cluster)["cleanup.policy"] == "delete,compact"
    change(cluster, TOPIC, ConfigChange("cleanup.policy", SUBTRACT, "delete"))
    assert configs(cluster)["cleanup.policy"] == "compact"


def test_what_does_not_change_is_not_logged(cluster: Cluster) -> None:
    changes = [ConfigChange("retention.ms", SET, "1000"), ConfigChange("segment.ms", DELETE, None)]
    assert cluster.decide(IncrementalAlterConfigs([(TOPIC, changes)])).records == []


def test_validate_only_judges_and_changes_nothing(cluster: Cluster) -> None:
    command = IncrementalAlterConfigs([(TOPIC, [ConfigChange("retention.ms", SET, "5")])], validate_only=True)
    assert cluster.do(command)[0].code is ErrorCode.NONE
    assert configs(cluster) == {"retention.ms": "1000"}


@pytest.mark.parametrize(
    ("resource", "changes", "code", "words"),
    [
        (TOPIC, [("nope", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (TOPIC, [("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "not a whole number"),
        (TOPIC, [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value"),
        (TOPIC, [("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "not LIST"),
        (TOPIC, [("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG, "not LIST"),
        (TOPIC, [("cleanup.policy", APPEND, "keep")], ErrorCode.INVALID_CONFIG, "compact, delete"),
        (TOPIC, [("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST, "operation 4"),
        (TOPIC, [("segment.ms", SET, "5"), ("segment.ms", SET, "6")], ErrorCode.INVALID_REQUEST, "duplicate"),
        (TOPIC, [("segment.ms", SET, "5"), ("segment.bytes", SET, "x")], ErrorCode.INVALID_CONFIG, "segment.bytes"),
        (ConfigResource(ResourceType.TOPIC, "nope"), [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'nope'"),
        (ConfigResource(ResourceType.TOPIC, "a b"), [], ErrorCode.INVALID_TOPIC_EXCEPTION, "'a b'"),
        (ConfigResource(ResourceType.TOPIC, ""), [], ErrorCode.INVALID_REQUEST, "Default topic"),
        (ConfigResource(ResourceType.BROKER, "2"), [], ErrorCode.INVALID_REQUEST, "no broker 2"),
        (ConfigResource(ResourceType.BROKER, "one"), [], ErrorCode.INVALID_REQUEST, "must be an integer"),
        (ConfigResource(ResourceType.BROKER_LOGGER, "1"), [], ErrorCode.INVALID_REQUEST, "resource type 8"),
        (ConfigResource(ResourceType.GROUP, ""), [], ErrorCode.INVALID_REQUEST, "Default group resources"),
        (GROUP, [("nope", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config name: nope"),
        (GROUP, [("consumer.session.timeout.ms", SET, "1")], ErrorCode.INVALID_CONFIG, "from 45000 to 60000"),
        (GROUP, [("consumer.session.timeout.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "not a whole number"),
        (GROUP, [("consumer.session.timeout.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value"),
        (GROUP, [("consumer.session.timeout.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG, "not LIST"),
        (GROUP, [("share.auto.offset.reset", SET, "none")], ErrorCode.INVALID_CONFIG, "by_duration"),
        (METRICS, [("nope", SET, "1")], ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration"),
        (METRICS, [("interval.ms", SET, "99")], ErrorCode.INVALID_REQUEST, "from 100 to 3600000"),
        (METRICS, [("interval.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "not a whole number"),
        (METRICS, [("match", SET, "client_id=[")], ErrorCode.INVALID_CONFIG, "property=regular expression"),
        (METRICS, [("match", SET, "nope=a")], ErrorCode.INVALID_CONFIG, "client_software_name"),
        (METRICS, [("match", SET, "client_id")], ErrorCode.INVALID_CONFIG, "property=regular expression"),
        (METRICS, [("metrics", APPEND, "b.")], ErrorCode.INVALID_CONFIG, "not LIST"),
        (ConfigResource(ResourceType.CLIENT_METRICS, ""), [], ErrorCode.INVALID_REQUEST, "can't be empty"),
        (BROKER, [("num.partitions", SET, "5")], ErrorCode.INVALID_REQUEST, "start-up"),
        (BROKER, [("log.retention.ms", SET, "x")], ErrorCode.INVALID_REQUEST, "not a whole number"),
        (BROKER, [("log.retention.ms", SET, "0")], ErrorCode.INVALID_REQUEST, "-1 for no limit"),
        (BROKER, [("log.retentoin.ms", SET, "5")], ErrorCode.INVALID_REQUEST, "did you mean log.retention.ms"),
        (BROKER, [("log.retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG, "not LIST"),
    ],
)
def test_what_cannot_be_altered_is_refused(
    cluster: Cluster,
    resource: ConfigResource,
    changes: list[tuple[str, int, str | None]],
    code: ErrorCode,
    words: str,
) -> None:
    before = cluster.machine.image
    outcome = change(cluster, resource, *(ConfigChange(*item) for item in changes))
    assert outcome.code is code
    assert words in str(outcome.message)
    assert cluster.machine.image == before


def test_a_resource_named_twice_is_refused_and_the_others_are_not(cluster: Cluster) -> None:
    changes = [ConfigChange("log.roll.ms", SET, "5000")]
    command = IncrementalAlterConfigs([(BROKER, changes), (ALL_BROKERS, changes), (BROKER, [])])
    codes = [outcome.code for outcome in cluster.do(command)]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert cluster.machine.image.broker_configs == {"": {"log.roll.ms": "5000"}}


def test_brokers_are_configured_one_by_one_and_all_at_once(cluster: Cluster) -> None:
    change(cluster, BROKER, ConfigChange("log.retention.ms", SET, "5000"))
    change(cluster, ALL_BROKERS, ConfigChange("log.retention.ms", SET, "6000"))
    change(cluster, ConfigResource(ResourceType.BROKER, "01"), ConfigChange("log.roll.ms", SET, "7000"))
    assert cluster.machine.image.broker_configs == {
        "1": {"log.retention.ms": "5000", "log.roll.ms": "7000"},
        "": {"log.retention.ms": "6000"},
    }
    change(cluster, ALL_BROKERS, ConfigChange("log.retention.ms", DELETE, None))
    assert set(cluster.machine.image.broker_configs) == {"1"}


def test_groups_and_subscriptions_keep_their_configs(cluster: Cluster) -> None:
    assert change(cluster, GROUP, ConfigChange("consumer.session.timeout.ms", SET, "50000")).code == 0
    assert change(cluster, METRICS, ConfigChange("metrics", SET, "org.apache.kafka.")).code == 0
    assert cluster.machine.image.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    assert cluster.machine.image.client_metrics_configs == {"m": {"metrics": "org.apache.kafka."}}
    assert change(cluster, GROUP, ConfigChange("consumer.session.timeout.ms", DELETE, None)).code == 0
    cluster.do(AlterConfigs([(METRICS, [])]))
    assert cluster.machine.image.group_configs == cluster.machine.image.client_metrics_configs == {}
