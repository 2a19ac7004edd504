"""kafka-python's KafkaAdminClient: answers as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import (
    ConfigResource,
    KafkaAdminClient,
    OffsetSpec,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from clients.drivers.seen import ClusterSeen, ConfigSeen, GroupSeen, MemberSeen, QuorumSeen

SPECS = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST, "max-timestamp": OffsetSpec.MAX_TIMESTAMP}
PREFERRED = 0


def check(error: type[Exception] | None) -> None:
    """Several calls answer with an error's class."""
    if error is not None and error is not kafka_errors.NoError:
        raise error


class KafkaPythonAdmin:
    describing_creates = False
    full_alter_keeps_others = True  # the client asks for what is set and sends it along

    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    # ---- topics and configs

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, validate_only: bool = False
    ) -> None:
        wanted = {name: {"num_partitions": partitions, "configs": dict(configs or {})}}
        self._admin.create_topics(wanted, validate_only=validate_only, wait_for_metadata=not validate_only)

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe_topic(self, name: str) -> dict[int, int]:
        (found,) = self._admin.describe_topics([name])
        check(kafka_errors.for_code(found["error_code"]))
        return {partition["partition_index"]: partition["leader_id"] for partition in found["partitions"]}

    def create_partitions(self, name: str, count: int) -> None:
        self._admin.create_partitions({name: count})

    def configs(self, kind: str, name: str) -> dict[str, ConfigSeen]:
        asked = [ConfigResource(kind.upper(), name)]
        found = self._admin.describe_configs(asked, config_filter="all")[kind][name]
        return {key: ConfigSeen(row["value"], row["config_source"] == "DEFAULT_CONFIG") for key, row in found.items()}

    def alter_configs(self, kind: str, name: str, change: Mapping[str, str], reset: Sequence[str] = ()) -> None:
        if reset:
            self._alter(self._admin.reset_configs, kind, name, list(reset))
        self._alter(self._admin.alter_configs, kind, name, dict(change))

    def _alter(self, call: Any, kind: str, name: str, configs: Any, **options: Any) -> None:
        said = call([ConfigResource(kind.upper(), name, configs)], **options)[kind][name]
        if said != "OK":
            # The client turns the error into text: "[Error 40] InvalidConfigurationError: ..."
            raise kafka_errors.for_code(int(said.split("]")[0].removeprefix("[Error ")))(said)

    def alter_configs_full(self, name: str, values: Mapping[str, str]) -> None:
        self._alter(self._admin.alter_configs, "topic", name, dict(values), incremental=False)

    def config_resources(self) -> dict[str, set[str]]:
        """Names by kind."""
        return {kind: set(names) for kind, names in self._admin.list_config_resources().items()}

    def delete_records(self, topic: str, partition: int, offset: int) -> int:
        place = TopicPartition(topic, partition)
        return int(self._admin.delete_records({place: offset})[place]["low_watermark"])

    def list_offset(self, topic: str, spec: str | int) -> int:
        place = TopicPartition(topic, 0)
        wanted = SPECS[spec] if isinstance(spec, str) else spec
        return int(self._admin.list_partition_offsets({place: wanted})[place].offset)

    # ---- groups

    def group_names(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def describe_group(self, group: str) -> GroupSeen:
        found = self._admin.describe_groups([group])[group]
        members = [MemberSeen(member["client_id"], _partitions(member)) for member in found["members"]]
        return GroupSeen(found["group_state"], members)

    def group_offsets(self, group: str) -> dict[int, tuple[int, str]]:
        found = self._admin.list_group_offsets(group)[group]
        return {place.partition: (one.offset, one.metadata) for place, one in found.items()}

    def alter_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, index): OffsetAndMetadata(offset, "", -1) for index, offset in offsets.items()}
        for error in self._admin.alter_group_offsets(group, wanted).values():
            check(error)

    def delete_group_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        places = [TopicPartition(topic, index) for index in partitions]
        for error in self._admin.delete_group_offsets(group, places).values():
            check(error)

    def delete_group(self, group: str) -> None:
        said = self._admin.delete_groups([group])[group]
        if said != "OK":
            raise getattr(kafka_errors, said)

    # ---- cluster

    def describe_cluster(self) -> ClusterSeen:
        found = self._admin.describe_cluster()
        addresses = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in found["brokers"]}
        return ClusterSeen(found["cluster_id"], found["controller_id"], addresses)

    def log_dir_bytes(self, topic: str) -> int:
        (found,) = self._admin.describe_log_dirs([topic])[0]["log_dirs"]
        check(kafka_errors.for_code(found["error_code"]))
        return int(found["topics"][0]["partitions"][0]["partition_size"])

    def producers(self, topic: str) -> list[tuple[int, int, int]]:
        """Id, epoch and last sequence of each producer of partition 0."""
        place = TopicPartition(topic, 0)
        active = self._admin.describe_producers([place])[place].active_producers
        return [(one.producer_id, one.producer_epoch, one.last_sequence) for one in active]

    def elect_leader(self, topic: str, partition: int) -> int:
        reply = self._admin.elect_leaders(PREFERRED, {topic: [partition]})
        return int(reply.replica_election_results[0].partition_result[0].error_code)

    def reassign(self, topic: str, partition: int, replicas: list[int] | None) -> None:
        place = TopicPartition(topic, partition)
        check(self._admin.alter_partition_reassignments({place: replicas})[place])

    def reassignments(self) -> dict[Any, Any]:
        found: dict[Any, Any] = self._admin.list_partition_reassignments()
        return found

    def quorum(self) -> QuorumSeen:
        (found,) = self._admin.describe_metadata_quorum()["topics"][0]["partitions"]
        if found["error"] is not None:
            raise AssertionError(found["error"])
        voters = {voter["replica_id"] for voter in found["current_voters"]}
        return QuorumSeen(found["leader_id"], voters, found["high_watermark"])

    def features(self) -> dict[str, int]:
        """The finalized level of each feature."""
        found = self._admin.describe_features()
        return {name: row["finalized"][1] for name, row in found.items() if "finalized" in row}

    def update_feature(self, name: str, level: int, *, validate_only: bool) -> None:
        said = self._admin.update_features({name: level}, validate_only=validate_only)[name]
        if said != "OK":
            raise AssertionError(said)

    def set_scram(self, user: str, iterations: int, password: str) -> None:
        self._scram(user, UserScramCredentialUpsertion(user, "SCRAM-SHA-256", password, iterations=iterations))

    def scram(self, user: str) -> list[tuple[str, int]]:
        found = self._admin.describe_user_scram_credentials([user])[user]
        if found["error"] is not None:
            raise kafka_errors.ResourceNotFoundError(found["error"])
        return [(info["mechanism"].name, info["iterations"]) for info in found["credential_infos"]]

    def delete_scram(self, user: str) -> None:
        self._scram(user, UserScramCredentialDeletion(user, "SCRAM-SHA-256"))

    def _scram(self, user: str, change: Any) -> None:
        problem = self._admin.alter_user_scram_credentials([change])[user]
        if problem is not None:
            raise AssertionError(problem)


def _partitions(member: Mapping[str, Any]) -> set[int]:
    assignment = member["member_assignment"]
    return {partition for topic in assignment["assigned_partitions"] for partition in topic["partitions"]}
