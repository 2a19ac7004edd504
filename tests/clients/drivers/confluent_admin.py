"""librdkafka's AdminClient: answers as plain values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from clients.drivers.seen import ClusterSeen, ConfigSeen, GroupSeen, MemberSeen

CALL_SECONDS = 60.0
KINDS = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}
SPECS = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest, "max-timestamp": OffsetSpec.max_timestamp}


def done(futures: Mapping[Any, Any]) -> Any:
    """The one result of a call about one thing."""
    (future,) = futures.values()
    return future.result(CALL_SECONDS)


class ConfluentAdmin:
    describing_creates = False
    full_alter_keeps_others = False

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    # ---- topics and configs

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        done(
            self._admin.create_topics(
                [NewTopic(name, partitions, 1, config=dict(configs or {}))], validate_only=validate_only
            )
        )

    def delete_topic(self, name: str) -> None:
        done(self._admin.delete_topics([name]))

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=CALL_SECONDS).topics)

    def describe_topic(self, name: str) -> dict[int, int]:
        """Each partition's leader."""
        found = done(self._admin.describe_topics(TopicCollection([name])))
        return {partition.id: partition.leader.id for partition in found.partitions}

    def create_partitions(self, name: str, count: int) -> None:
        done(self._admin.create_partitions([NewPartitions(name, count)]))

    def configs(self, kind: str, name: str) -> dict[str, ConfigSeen]:
        found = done(self._admin.describe_configs([ConfigResource(KINDS[kind], name)]))
        return {key: ConfigSeen(entry.value, entry.is_default) for key, entry in found.items()}

    def alter_configs(self, kind: str, name: str, change: Mapping[str, str], reset: Sequence[str] = ()) -> None:
        changes = [
            *(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in change.items()),
            *(ConfigEntry(key, "", incremental_operation=AlterConfigOpType.DELETE) for key in reset),
        ]
        done(self._admin.incremental_alter_configs([ConfigResource(KINDS[kind], name, incremental_configs=changes)]))

    def alter_configs_full(self, name: str, values: Mapping[str, str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            done(self._admin.alter_configs([ConfigResource(ResourceType.TOPIC, name, set_config=dict(values))]))

    def delete_records(self, topic: str, partition: int, offset: int) -> int:
        """The low watermark that the answer tells."""
        return int(done(self._admin.delete_records([TopicPartition(topic, partition, offset)])).low_watermark)

    def list_offset(self, topic: str, spec: str | int) -> int:
        wanted = SPECS[spec]() if isinstance(spec, str) else OffsetSpec.for_timestamp(spec)
        asked = {TopicPartition(topic, 0): wanted}
        return int(done(self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)).offset)

    # ---- groups

    def group_names(self) -> set[str]:
        listed = self._admin.list_consumer_groups(request_timeout=CALL_SECONDS).result(CALL_SECONDS)
        return {group.group_id for group in listed.valid}

    def describe_group(self, group: str) -> GroupSeen:
        found = done(self._admin.describe_consumer_groups([group], request_timeout=CALL_SECONDS))
        members = [
            MemberSeen(member.client_id, {place.partition for place in member.assignment.topic_partitions})
            for member in found.members
        ]
        return GroupSeen(found.state.name.title(), members)

    def group_offsets(self, group: str) -> dict[int, tuple[int, str]]:
        found = done(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {place.partition: (place.offset, place.metadata or "") for place in found.topic_partitions}

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        done(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]))

    def delete_group(self, group: str) -> None:
        done(self._admin.delete_consumer_groups([group]))

    # ---- cluster

    def describe_cluster(self) -> ClusterSeen:
        found = self._admin.describe_cluster().result(CALL_SECONDS)
        addresses = {node.id: f"{node.host}:{node.port}" for node in found.nodes}
        return ClusterSeen(found.cluster_id, found.controller.id, addresses)

    def elect_leader(self, topic: str, partition: int) -> int:
        """Kafka's error code of the one partition."""
        places = [TopicPartition(topic, partition)]
        (error,) = self._admin.elect_leaders(ElectionType.PREFERRED, places).result(CALL_SECONDS).values()
        return 0 if error is None else int(error.code())

    def set_scram(self, user: str, iterations: int, password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations)
        done(self._admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, password.encode())]))

    def scram(self, user: str) -> list[tuple[str, int]]:
        found = done(self._admin.describe_user_scram_credentials([user]))
        return [(info.mechanism.name, info.iterations) for info in found.scram_credential_infos]

    def delete_scram(self, user: str) -> None:
        done(
            self._admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)])
        )
