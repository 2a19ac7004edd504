"""Short forms of raw requests that the protocol tests share. Everything returns kio's entities."""

from __future__ import annotations

import uuid
from typing import Any

from harness.raw import RawConnection, topic_id_of

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 21, 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 35, 37, 44
DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS = 60, 75
ALTER_REPLICA_LOG_DIRS, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 34, 43, 45, 46
DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS, DESCRIBE_CREDENTIALS, ALTER_CREDENTIALS = 48, 49, 50, 51
DESCRIBE_QUORUM, UPDATE_FEATURES, DESCRIBE_PRODUCERS, LIST_CONFIG_RESOURCES = 55, 57, 61, 74

# What Apache Kafka 4.3 advertises on a broker's listener for the APIs of the broker core and of admin clients.
RANGES = {
    PRODUCE: (0, 13),
    FETCH: (4, 18),
    LIST_OFFSETS: (1, 11),
    METADATA: (0, 13),
    FIND_COORDINATOR: (0, 6),
    API_VERSIONS: (0, 4),
    CREATE_TOPICS: (2, 7),
    DELETE_TOPICS: (1, 6),
    DELETE_RECORDS: (0, 2),
    INIT_PRODUCER_ID: (0, 5),
    OFFSET_FOR_LEADER_EPOCH: (2, 4),
    DESCRIBE_CONFIGS: (1, 4),
    ALTER_CONFIGS: (0, 2),
    DESCRIBE_LOG_DIRS: (1, 5),
    CREATE_PARTITIONS: (0, 3),
    INCREMENTAL_ALTER_CONFIGS: (0, 1),
    DESCRIBE_CLUSTER: (0, 2),
    DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ALTER_REPLICA_LOG_DIRS: (1, 2),
    ELECT_LEADERS: (0, 2),
    ALTER_REASSIGNMENTS: (0, 1),
    LIST_REASSIGNMENTS: (0, 0),
    DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ALTER_CLIENT_QUOTAS: (0, 1),
    DESCRIBE_CREDENTIALS: (0, 0),
    ALTER_CREDENTIALS: (0, 0),
    DESCRIBE_QUORUM: (0, 2),
    UPDATE_FEATURES: (0, 2),
    DESCRIBE_PRODUCERS: (0, 0),
    LIST_CONFIG_RESOURCES: (0, 1),
}


def versions(api_key: int, low: int | None = None) -> range:
    """The versions to try: the advertised ones, from `low` where only later ones are served."""
    first, last = RANGES[api_key]
    return range(first if low is None else low, last + 1)


def topic_fields(connection: RawConnection, topic: str, *, by_id: bool, field: str = "name") -> dict[str, Any]:
    return {"topic_id": topic_id_of(connection, topic)} if by_id else {field: topic}


def produce(
    connection: RawConnection,
    topic: str,
    batch: bytes | None,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
) -> Any:
    """The partition's part of the reply."""
    body = produce_body(connection, topic, batch, version=version, acks=acks, partition=partition)
    return connection.request(PRODUCE, version, body).responses[0].partition_responses[0]


def produce_body(
    connection: RawConnection,
    topic: str,
    batch: bytes | None,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
) -> dict[str, Any]:
    where = topic_fields(connection, topic, by_id=version >= 13)
    where["partition_data"] = [{"index": partition, "records": batch}]
    return {"acks": acks, "timeout": 30_000, "topic_data": [where]}


def fetch_body(
    topics: list[dict[str, Any]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    session: tuple[int, int] = (0, -1),
    forgotten: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": topics,
        "forgotten_topics_data": forgotten or [],
        "rack_id": "",
    }


def fetch_topic(
    where: dict[str, Any], offset: int, *, partition: int = 0, partition_max_bytes: int = 1 << 20, epoch: int = -1
) -> dict[str, Any]:
    part = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": partition_max_bytes,
        "current_leader_epoch": epoch,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    return where | {"partitions": [part]}


def fetch(
    connection: RawConnection, topic: str, offset: int, *, version: int = 11, epoch: int = -1, **options: Any
) -> Any:
    """The partition's part of the reply, outside any session."""
    partition_max_bytes = options.pop("partition_max_bytes", 1 << 20)
    where = topic_fields(connection, topic, by_id=version >= 13, field="topic")
    body = fetch_body([fetch_topic(where, offset, partition_max_bytes=partition_max_bytes, epoch=epoch)], **options)
    reply = connection.request(FETCH, version, body)
    assert getattr(reply, "error_code", 0) == 0, reply
    return reply.responses[0].partitions[0]


def list_offset(connection: RawConnection, topic: str, timestamp: int, *, version: int = 7, partition: int = 0) -> Any:
    """-2 earliest, -1 latest, -3 the record with the largest timestamp (v7+), otherwise a time in ms."""
    partitions = [{"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}]
    topics = [{"name": topic, "partitions": partitions}]
    reply = connection.request(LIST_OFFSETS, version, {"replica_id": -1, "topics": topics, "timeout": 30_000})
    return reply.topics[0].partitions[0]


def create(
    connection: RawConnection, name: str, *, version: int = 7, validate_only: bool = False, **fields: Any
) -> Any:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} | fields
    body = {"topics": [topic], "timeout": 30_000, "validate_only": validate_only}
    return connection.request(CREATE_TOPICS, version, body).topics[0]


def metadata(
    connection: RawConnection, names: list[str] | None, *, version: int = 12, auto_create: bool = False
) -> Any:
    topics = None if names is None else [{"topic_id": None, "name": name} for name in names]
    return connection.request(METADATA, version, {"topics": topics, "allow_auto_topic_creation": auto_create})


def random_id() -> uuid.UUID:
    return uuid.uuid4()
