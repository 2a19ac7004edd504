"""A running Apache Kafka that takes the commands of our metadata machine, for tests that compare the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from harness.kafka import running_small_kafka
from harness.raw import RawConnection
from runnel.core.metadata import (
    AlterClientQuotas,
    AlterConfigs,
    AlterPartitionReassignments,
    AlterUserScramCredentials,
    Command,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    IncrementalAlterConfigs,
    UpdateFeatures,
)

TIMEOUT_MS = 30_000
LOOKS_MAX = 2_000
__all__ = ["Answer", "KafkaBeside", "running_kafka"]


class Answer(NamedTuple):
    """What Kafka said of one item of a request."""

    key: object
    code: int
    partition_count: int = -1
    replication_factor: int = -1


@contextmanager
def running_kafka(folder: Path, settings: Mapping[str, str]) -> Iterator[KafkaBeside]:
    """Skips where there is no Java or no Kafka."""
    with running_small_kafka(folder, settings) as broker, RawConnection(broker.bootstrap) as connection:
        yield KafkaBeside(connection)


class KafkaBeside:
    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    def do(self, command: Command) -> list[Answer]:
        """Send the command as the request that stands for it."""
        return _SENDERS[type(command)](self._connection, command)

    # Kafka's broker follows its controller with a delay, so what it shows is asked for until it is as expected; if it
    # never is, the last answer comes back for the test to complain about.

    def describe_until(self, resource: ConfigResource, expected: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The rows of DescribeConfigs by name, with synonyms."""
        return _until(lambda: self.describe(resource), expected)

    def partition_counts_until(self, expected: dict[str, int]) -> dict[str, int]:
        return _until(self._partition_counts, lambda counts: counts == expected)

    def describe(self, resource: ConfigResource, *, documented: bool = False) -> dict[str, Any]:
        wanted = {"resource_type": resource.type, "resource_name": resource.name, "configuration_keys": None}
        body = {"resources": [wanted], "include_synonyms": True, "include_documentation": documented}
        (result,) = self._connection.request(32, 4, body).results
        return {row.name: row for row in result.configs}

    def _partition_counts(self) -> dict[str, int]:
        reply = self._connection.request(3, 12, {"topics": None})
        return {topic.name: len(topic.partitions) for topic in reply.topics}


Seen = TypeVar("Seen")


def _until(look: Callable[[], Seen], expected: Callable[[Seen], bool]) -> Seen:
    for _ in range(LOOKS_MAX):
        seen = look()
        if expected(seen):
            break
    return seen


def _create_topics(connection: RawConnection, command: CreateTopics) -> list[Answer]:
    topics = [
        {
            "name": topic.name,
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "assignments": [
                {"partition_index": index, "broker_ids": list(replicas)} for index, replicas in topic.assignments
            ],
            "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
        }
        for topic in command.topics
    ]
    body = {"topics": topics, "timeout": TIMEOUT_MS, "validate_only": command.validate_only}
    return [
        Answer(topic.name, int(topic.error_code), topic.num_partitions, topic.replication_factor)
        for topic in connection.request(19, 7, body).topics
    ]


def _delete_topics(connection: RawConnection, command: DeleteTopics) -> list[Answer]:
    topics = [
        {"name": key, "topic_id": None} if isinstance(key, str) else {"name": None, "topic_id": key}
        for key in command.topics
    ]
    reply = connection.request(20, 6, {"topics": topics, "timeout": TIMEOUT_MS})
    return [Answer(topic.name, int(topic.error_code)) for topic in reply.responses]


def _create_partitions(connection: RawConnection, command: CreatePartitions) -> list[Answer]:
    topics = [
        {
            "name": topic.name,
            "count": topic.count,
            "assignments": None
            if topic.assignments is None
            else [{"broker_ids": list(replicas)} for replicas in topic.assignments],
        }
        for topic in command.topics
    ]
    body = {"topics": topics, "timeout": TIMEOUT_MS, "validate_only": command.validate_only}
    return [Answer(topic.name, int(topic.error_code)) for topic in connection.request(37, 3, body).results]


def _alter_configs(connection: RawConnection, command: AlterConfigs) -> list[Answer]:
    resources = [
        {
            "resource_type": resource.type,
            "resource_name": resource.name,
            "configs": [{"name": name, "value": value} for name, value in changes],
        }
        for resource, changes in command.resources
    ]
    body = {"resources": resources, "validate_only": command.validate_only}
    return _config_answers(connection.request(33, 2, body))


def _change_configs(connection: RawConnection, command: IncrementalAlterConfigs) -> list[Answer]:
    resources = [
        {
            "resource_type": resource.type,
            "resource_name": resource.name,
            "configs": [
                {"name": change.name, "config_operation": change.operation, "value": change.value} for change in changes
            ],
        }
        for resource, changes in command.resources
    ]
    body = {"resources": resources, "validate_only": command.validate_only}
    return _config_answers(connection.request(44, 1, body))


def _config_answers(reply: Any) -> list[Answer]:
    return [
        Answer(ConfigResource(row.resource_type, row.resource_name), int(row.error_code)) for row in reply.responses
    ]


def _alter_quotas(connection: RawConnection, command: AlterClientQuotas) -> list[Answer]:
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in alteration.entity],
            "ops": [
                {"key": change.key, "value": change.value or 0.0, "remove": change.value is None}
                for change in alteration.changes
            ],
        }
        for alteration in command.alterations
    ]
    reply = connection.request(49, 1, {"entries": entries, "validate_only": command.validate_only})
    return [
        Answer(tuple(sorted((part.entity_type, part.entity_name) for part in row.entity)), int(row.error_code))
        for row in reply.entries
    ]


def _alter_credentials(connection: RawConnection, command: AlterUserScramCredentials) -> list[Answer]:
    body = {
        "deletions": [{"name": change.user, "mechanism": change.mechanism} for change in command.deletions],
        "upsertions": [
            {
                "name": change.user,
                "mechanism": change.mechanism,
                "iterations": change.iterations,
                "salt": change.salt,
                "salted_password": change.salted_password,
            }
            for change in command.upsertions
        ],
    }
    return [Answer(row.user, int(row.error_code)) for row in connection.request(51, 0, body).results]


def _update_features(connection: RawConnection, command: UpdateFeatures) -> list[Answer]:
    updates = [
        {"feature": update.feature, "max_version_level": update.level, "upgrade_type": update.upgrade_type}
        for update in command.updates
    ]
    body = {"feature_updates": updates, "timeout": TIMEOUT_MS, "validate_only": command.validate_only}
    return [Answer(None, int(connection.request(57, 2, body).error_code))]


def _elect_leaders(connection: RawConnection, command: ElectLeaders) -> list[Answer]:
    asked = None
    if command.partitions is not None:
        asked = [{"topic": topic, "partitions": [index]} for topic, index in command.partitions]
    body = {"election_type": command.election_type, "topic_partitions": asked, "timeout": TIMEOUT_MS}
    return [
        Answer((topic.topic, row.partition_id), int(row.error_code))
        for topic in connection.request(43, 2, body).replica_election_results
        for row in topic.partition_result
    ]


def _reassign(connection: RawConnection, command: AlterPartitionReassignments) -> list[Answer]:
    topics = [
        {"name": wanted.topic, "partitions": [{"partition_index": wanted.partition, "replicas": wanted.replicas}]}
        for wanted in command.reassignments
    ]
    allow = command.replication_factor_may_change
    body = {"topics": topics, "timeout": TIMEOUT_MS, "allow_replication_factor_change": allow}
    return [
        Answer((topic.name, row.partition_index), int(row.error_code))
        for topic in connection.request(45, 1, body).responses
        for row in topic.partitions
    ]


_SENDERS: dict[type, Callable[[RawConnection, Any], list[Answer]]] = {
    CreateTopics: _create_topics,
    DeleteTopics: _delete_topics,
    CreatePartitions: _create_partitions,
    AlterConfigs: _alter_configs,
    IncrementalAlterConfigs: _change_configs,
    AlterClientQuotas: _alter_quotas,
    AlterUserScramCredentials: _alter_credentials,
    UpdateFeatures: _update_features,
    ElectLeaders: _elect_leaders,
    AlterPartitionReassignments: _reassign,
}
