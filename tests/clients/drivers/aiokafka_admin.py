"""aiokafka's AIOKafkaAdminClient: older versions of the admin APIs, answers as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import for_code

from clients.drivers.seen import ClusterSeen, ConfigSeen, GroupSeen, MemberSeen

KINDS = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
DEFAULT_SOURCE = 5  # DescribeConfigs v1 and later: this value is the default


def check(code: int, what: str) -> None:
    """Several calls hand the reply back as it is, errors and all."""
    if code:
        raise for_code(code)(what)


class AiokafkaAdmin:
    describing_creates = True  # its request lets the broker create what is not there
    full_alter_keeps_others = False

    def __init__(self, bootstrap: str, run: Callable[[Any], Any]) -> None:
        self._run = run
        self._admin = run(self._start(bootstrap))

    async def _start(self, bootstrap: str) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def close(self) -> None:
        self._run(self._admin.close())

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        wanted = NewTopic(name, partitions, 1, topic_configs=dict(configs or {}))
        reply = self._run(self._admin.create_topics([wanted], validate_only=validate_only))
        for topic, code, *_ in reply.topic_errors:
            check(code, topic)

    def delete_topic(self, name: str) -> None:
        for topic, code, *_ in self._run(self._admin.delete_topics([name])).topic_error_codes:
            check(code, topic)

    def topic_names(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def describe_topic(self, name: str) -> dict[int, int]:
        (found,) = self._run(self._admin.describe_topics([name]))
        check(found["error_code"], name)
        return {partition["partition"]: partition["leader"] for partition in found["partitions"]}

    def create_partitions(self, name: str, count: int) -> None:
        self._run(self._admin.create_partitions({name: NewPartitions(count)}))

    def configs(self, kind: str, name: str) -> dict[str, ConfigSeen]:
        (reply,) = self._run(self._admin.describe_configs([ConfigResource(KINDS[kind], name)]))
        (resource,) = reply.resources
        check(resource[0], name)
        # name, value, read only, source (v1 and later; a flag before), ...
        return {row[0]: ConfigSeen(row[1], row[3] == DEFAULT_SOURCE) for row in resource[4]}

    def alter_configs_full(self, name: str, values: Mapping[str, str]) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, name, configs=dict(values))
        (reply,) = self._run(self._admin.alter_configs([wanted]))
        check(reply.resources[0][0], name)

    def delete_records(self, topic: str, partition: int, offset: int) -> int:
        place = TopicPartition(topic, partition)
        asked = {place: RecordsToDelete(before_offset=offset)}
        return int(self._run(self._admin.delete_records(asked))[place])

    def group_names(self) -> set[str]:
        return {row[0] for row in self._run(self._admin.list_consumer_groups())}

    def describe_group(self, group: str) -> GroupSeen:
        (reply,) = self._run(self._admin.describe_consumer_groups([group]))
        (found,) = reply.groups
        check(found[0], group)
        members = [MemberSeen(member[1], _partitions(member[-1])) for member in found[5]]
        return GroupSeen(found[2], members)

    def group_offsets(self, group: str) -> dict[int, tuple[int, str]]:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {place.partition: (one.offset, one.metadata or "") for place, one in found.items()}

    def describe_cluster(self) -> ClusterSeen:
        found = self._run(self._admin.describe_cluster())
        addresses = {broker["node_id"]: f"{broker['host']}:{broker['port']}" for broker in found["brokers"]}
        return ClusterSeen(found["cluster_id"], found["controller_id"], addresses)


def _partitions(assignment: bytes) -> set[int]:
    decoded = ConsumerProtocolMemberAssignment.decode(assignment)
    return {partition for _, partitions in decoded.assignment for partition in partitions}
