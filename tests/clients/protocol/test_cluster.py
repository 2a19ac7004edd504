"""DescribeCluster, DescribeLogDirs, FindCoordinator, InitProducerId."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clients.protocol.calls import (
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    metadata,
    produce,
    versions,
)
from harness.batches import encode_batch
from harness.raw import RawConnection

NewTopic = Callable[..., str]
ALL_OPERATIONS_UNKNOWN = -(2**31)


@pytest.mark.parametrize("version", versions(DESCRIBE_CLUSTER))
def test_describe_cluster(raw: RawConnection, bootstrap: str, version: int) -> None:
    reply = raw.request(DESCRIBE_CLUSTER, version, {"endpoint_type": 1})
    seen = metadata(raw, [])
    assert reply.error_code == 0
    assert (reply.cluster_id, reply.controller_id) == (seen.cluster_id, seen.controller_id)
    assert [f"{broker.host}:{broker.port}" for broker in reply.brokers] == [bootstrap]
    assert reply.brokers[0].broker_id == seen.brokers[0].node_id
    assert reply.cluster_authorized_operations == ALL_OPERATIONS_UNKNOWN


def test_authorized_operations_only_when_asked(raw: RawConnection) -> None:
    asked = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    assert raw.request(DESCRIBE_CLUSTER, 1, asked).cluster_authorized_operations > 0


@pytest.mark.parametrize("version", versions(DESCRIBE_LOG_DIRS))
def test_log_dirs(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    name = new_topic(partitions=2)
    batch = encode_batch([b"x" * 1000])
    for _ in range(3):
        assert produce(raw, name, batch, partition=1).error_code == 0
    reply = raw.request(DESCRIBE_LOG_DIRS, version, {"topics": [{"topic": name, "partitions": [0, 1]}]})
    assert len(reply.results) == 1
    directory = reply.results[0]
    assert directory.error_code == 0
    assert directory.log_dir
    sizes = {part.partition_index: part.partition_size for topic in directory.topics for part in topic.partitions}
    assert sizes == {0: 0, 1: 3 * len(batch)}
    assert all(part.offset_lag == 0 for topic in directory.topics for part in topic.partitions)
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0


def test_all_log_dirs(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    reply = raw.request(DESCRIBE_LOG_DIRS, 4, {"topics": None})
    assert name in [topic.name for result in reply.results for topic in result.topics]


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_find_coordinator(raw: RawConnection, version: int) -> None:
    """Groups come later: the one broker is their coordinator, or it says that there is none yet."""
    body: dict[str, Any] = {"key_type": 0, "key": "some-group", "coordinator_keys": ["some-group"]}
    reply = raw.request(FIND_COORDINATOR, version, body)
    answer = reply.coordinators[0] if version >= 4 else reply
    assert answer.error_code in (0, 15)
    if answer.error_code == 0:
        assert answer.node_id == metadata(raw, []).brokers[0].node_id
    if version >= 4:
        assert answer.key == "some-group"


@pytest.mark.parametrize("version", versions(INIT_PRODUCER_ID))
def test_init_producer_id(raw: RawConnection, version: int) -> None:
    body = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    reply = raw.request(INIT_PRODUCER_ID, version, body)
    assert (reply.error_code, reply.producer_epoch) == (0, 0)
    assert reply.producer_id >= 0
