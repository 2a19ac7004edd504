"""What `runnel cluster health` says of clusters that are not well: by a broker that plays a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.scripted import Answer, Ranges, answering, scripted_server
from runnel.cli.findings import Finding
from runnel.cli.health import CAUGHT_UP_MS_MAX, examine
from runnel.client.cluster import Cluster
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode

RANGES: Ranges = {
    ApiKey.METADATA: (0, 12),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
}
FAR_FUTURE_MS = 1 << 45


def partition(leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> dict[str, Any]:
    return {
        "error_code": 0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": 0,
        "leader_id": leader,
        "leader_epoch": 0,
        "replica_nodes": [1, 2],
        "isr_nodes": list(isr),
        "offline_replicas": [],
    }


def findings(ranges: Ranges = RANGES, part: dict[str, Any] | None = None, **changes: Any) -> list[Finding]:
    """A cluster of one broker and one topic that is well, but for what is changed."""

    async def session() -> list[Finding]:
        here: dict[str, Any] = {}
        topic = {"error_code": 0, "name": "t", "is_internal": False, "partitions": [part or partition()]}
        voter = {
            "replica_id": 2,
            "log_end_offset": 5,
            "last_caught_up_timestamp": FAR_FUTURE_MS,
            **changes.get("voter", {}),
        }
        raft = {"partition_index": 0, "leader_id": 1, "leader_epoch": 1, "high_watermark": 5, "current_voters": [voter]}
        disk = {"error_code": 0, "log_dir": "/d", "topics": [], "total_bytes": 1000, "usable_bytes": 500}
        config = {"name": "min.insync.replicas", "value": "2", "config_source": 5}
        answers: dict[ApiKey, Answer] = {
            ApiKey.METADATA: {"brokers": [here], "controller_id": 1, "cluster_id": "c", "topics": [topic]},
            ApiKey.DESCRIBE_CLUSTER: {"cluster_id": "c", "controller_id": 1, "brokers": [changes.get("broker", here)]},
            ApiKey.DESCRIBE_QUORUM: {
                "topics": [{"topic_name": "__cluster_metadata", "partitions": [{**raft, "observers": []}]}]
            },
            ApiKey.DESCRIBE_LOG_DIRS: {"results": [{**disk, **changes.get("disk", {})}]},
            ApiKey.DESCRIBE_CONFIGS: {"results": [{"resource_type": 2, "resource_name": "t", "configs": [config]}]},
            ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": changes.get("moves", [])},
        }
        async with scripted_server(answering(ranges, answers)) as address:
            here |= {"node_id": 1, "broker_id": 1, "host": address.host, "port": address.port}
            for answer in answers.values():
                _only_known(answer)
            async with Cluster(str(address), timeout_s=5) as cluster:
                return [finding async for finding in examine(cluster)]

    return asyncio.run(session())


def _only_known(answer: Answer) -> None:
    """Metadata names a broker's number `node_id`, DescribeCluster `broker_id`."""
    if isinstance(answer, dict) and "brokers" in answer:
        drop = "broker_id" if "topics" in answer else "node_id"
        answer["brokers"] = [{key: row[key] for key in row if key != drop} for row in answer["brokers"]]


def bad(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.status, finding.check, finding.subject) for finding in found if finding.status != "ok"]


def test_a_cluster_that_is_well() -> None:
    found = findings()
    assert bad(found) == []
    assert [finding.check for finding in found] == ["brokers", "controller", "partitions", "disks"]


def test_a_broker_that_does_not_heartbeat() -> None:
    fenced = {"broker_id": 7, "host": "gone.example", "port": 9092, "is_fenced": True}
    found = findings(broker=fenced)
    assert bad(found) == [("failure", "brokers", "broker 7 at gone.example:9092")]
    assert "heartbeat" in (found[0].advice or "")


def test_a_partition_without_a_leader() -> None:
    assert bad(findings(part=partition(leader=-1))) == [("failure", "partitions", "t/0")]


def test_replicas_that_are_missing() -> None:
    found = findings(part=partition(isr=(1,)))
    assert bad(found) == [("warning", "partitions", "t/0"), ("failure", "partitions", "t/0")]
    assert "writes with acks=all are refused" in found[3].message


def test_a_voter_that_is_behind() -> None:
    found = findings(voter={"last_caught_up_timestamp": 0})
    assert bad(found) == [("warning", "controller", "2")]
    assert f"not caught up for {CAUGHT_UP_MS_MAX // 1000} s" in found[1].message


@pytest.mark.parametrize(
    ("disk", "status", "message"),
    [
        ({"error_code": ErrorCode.KAFKA_STORAGE_ERROR}, "failure", "the broker's disk failed"),
        ({"usable_bytes": 10}, "failure", "almost full: 10 B of 1000 B free"),
        ({"usable_bytes": 50}, "warning", "filling up: 50 B of 1000 B free"),
        ({"total_bytes": -1, "usable_bytes": -1}, "ok", "0 partitions, 0 B"),
    ],
)
def test_disks(disk: dict[str, Any], status: str, message: str) -> None:
    found = findings(disk=disk)[-1]
    assert (found.status, found.check, found.subject) == (status, "disks", "broker 1, /d")
    assert message in found.message
    assert (found.advice is None) == (status == "ok")


def test_moves_are_told() -> None:
    moves = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1], "adding_replicas": [2]}]}]
    found = findings(moves=moves)
    assert (found[-1].status, found[-1].check, found[-1].subject) == ("ok", "moves", "t/0")


def test_an_older_cluster_that_tells_less() -> None:
    found = findings({ApiKey.METADATA: (0, 5), ApiKey.DESCRIBE_LOG_DIRS: (1, 1)})
    assert bad(found) == []
    assert [finding.check for finding in found] == ["brokers", "controller", "partitions", "disks"]
