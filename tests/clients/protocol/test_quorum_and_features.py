"""DescribeQuorum and UpdateFeatures. Passes on Apache Kafka too, but for what only one of the two has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.protocol.calls import API_VERSIONS, DESCRIBE_QUORUM, UPDATE_FEATURES, create, metadata, versions
from harness.conditions import wait_until
from harness.process import BrokerProcess
from harness.raw import RawConnection

UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION, INVALID_UPDATE_VERSION = 3, 35, 95
CONSUMER_GROUP_HEARTBEAT, LOADING = 68, (14, 15, 16)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NewTopic = Callable[..., str]


def quorum(raw: RawConnection, version: int, topic: str = "__cluster_metadata", *partitions: int) -> Any:
    asked = {"topic_name": topic, "partitions": [{"partition_index": index} for index in partitions or (0,)]}
    return raw.request(DESCRIBE_QUORUM, version, {"topics": [asked]})


@pytest.mark.parametrize("version", versions(DESCRIBE_QUORUM))
def test_the_quorum_has_one_voter(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    reply = quorum(raw, version)
    assert reply.error_code == 0
    partition = reply.topics[0].partitions[0]
    broker = metadata(raw, []).brokers[0].node_id
    assert (partition.error_code, partition.leader_id, partition.observers) == (0, broker, ())
    assert partition.leader_epoch >= 1
    (voter,) = partition.current_voters
    assert voter.replica_id == broker
    assert voter.log_end_offset >= partition.high_watermark > 0
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0
    if version >= 2:
        assert voter.replica_directory_id is not None
        (node,) = reply.nodes
        assert node.node_id == broker
        assert [(listener.host, listener.port > 0) for listener in node.listeners] == [("127.0.0.1", True)]
    new_topic()
    wait_until(
        lambda: quorum(raw, version).topics[0].partitions[0].high_watermark > partition.high_watermark,
        "a new topic moves the metadata log on",
    )


@pytest.mark.parametrize("version", versions(DESCRIBE_QUORUM))
@pytest.mark.parametrize("asked", [("orders", 0), ("__cluster_metadata", 1), ("__cluster_metadata", 0, 1)])
def test_only_the_metadata_log_has_a_quorum(raw: RawConnection, asked: tuple[Any, ...], version: int) -> None:
    reply = quorum(raw, version, *asked)
    codes = [partition.error_code for topic in reply.topics for partition in topic.partitions]
    assert codes == [UNKNOWN_TOPIC_OR_PARTITION] * (len(asked) - 1)


def update(
    raw: RawConnection, feature: str, level: int, kind: int, *, version: int = 2, validate_only: bool = False
) -> Any:
    wanted = {
        "feature": feature,
        "max_version_level": level,
        "upgrade_type": kind,
        "allow_downgrade": kind != UPGRADE,
    }
    body = {"timeout": 30_000, "feature_updates": [wanted], "validate_only": validate_only}
    return raw.request(UPDATE_FEATURES, version, body)


def finalized(raw: RawConnection) -> dict[str, int]:
    reply = raw.request(API_VERSIONS, 4, {"client_software_name": "raw", "client_software_version": "1"})
    return {feature.name: feature.max_version_level for feature in reply.finalized_features}


@pytest.mark.parametrize("version", versions(UPDATE_FEATURES))
def test_what_is_finalized_already_stays(raw: RawConnection, version: int) -> None:
    before = finalized(raw)
    assert (before["group.version"], before["metadata.version"]) == (1, 30)
    reply = update(raw, "group.version", 1, UPGRADE, version=version)
    assert reply.error_code == 0
    if version < 2:
        assert [(row.feature, row.error_code) for row in reply.results] == [("group.version", 0)]
    assert finalized(raw) == before


@pytest.mark.parametrize("version", versions(UPDATE_FEATURES))
@pytest.mark.parametrize(
    ("feature", "level", "kind"),
    [
        ("group.version", 2, UPGRADE),
        ("group.version", -1, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("no.such.feature", 1, UPGRADE),
        ("metadata.version", 31, UPGRADE),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 29, UNSAFE_DOWNGRADE),
    ],
)
def test_refused_updates(raw: RawConnection, feature: str, level: int, kind: int, version: int) -> None:
    reply = update(raw, feature, level, kind, version=version)
    assert reply.error_code == INVALID_UPDATE_VERSION
    assert feature in reply.error_message


def test_an_unknown_upgrade_type(raw: RawConnection) -> None:
    assert update(raw, "group.version", 1, 9).error_code == INVALID_UPDATE_VERSION


def test_a_downgrade_is_asked_first_done_then_and_kept(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with RawConnection(broker.address) as connection:
        assert update(connection, "group.version", 0, SAFE_DOWNGRADE, validate_only=True).error_code == 0
        assert finalized(connection)["group.version"] == 1
        assert update(connection, "group.version", 0, SAFE_DOWNGRADE).error_code == 0
        assert "group.version" not in finalized(connection)
        assert heartbeat(connection) == UNSUPPORTED_VERSION
    broker.terminate()
    broker.start()
    with RawConnection(broker.address) as connection:
        assert finalized(connection) == {"metadata.version": 30}
        assert heartbeat(connection) == UNSUPPORTED_VERSION
        assert update(connection, "group.version", 1, UPGRADE, version=0).error_code == 0
        assert heartbeat(connection) == 0
        # Version 0 only upgrades, whatever its allow_downgrade says.
        assert update(connection, "group.version", 0, SAFE_DOWNGRADE, version=0).error_code == INVALID_UPDATE_VERSION


def heartbeat(raw: RawConnection) -> int:
    """What a member that joins a group of the next-generation protocol (KIP-848) is answered."""
    body = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }
    return int(
        wait_until(
            lambda: next(
                (r for r in [raw.request(CONSUMER_GROUP_HEARTBEAT, 0, body)] if r.error_code not in LOADING), None
            ),
            "the coordinator is there",
        ).error_code
    )


def test_the_quorum_counts_on_after_a_restart(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with RawConnection(broker.address) as connection:
        create(connection, "orders")
        before = quorum(connection, 2).topics[0].partitions[0]
    broker.terminate()
    broker.start()
    with RawConnection(broker.address) as connection:
        after = quorum(connection, 2).topics[0].partitions[0]
    assert after.high_watermark > before.high_watermark
    assert after.current_voters[0].replica_directory_id == before.current_voters[0].replica_directory_id
