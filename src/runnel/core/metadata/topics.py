"""Decisions about topics: create, delete, add partitions.

In: the image, the rules, a command. Out: records and an outcome per topic; each topic stands for itself, and a
refused one leaves no record. A topic named twice in one request is refused and answered once. Checks, codes and
messages follow Apache Kafka's controller.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID

from runnel.core.metadata.commands import (
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    PartitionsOutcome,
    ResourceType,
    TopicOutcome,
)
from runnel.core.metadata.image import ClusterImage, TopicImage
from runnel.core.metadata.names import check_topic_name, collision_key, may_collide
from runnel.core.metadata.placement import Replicas, check_replicas, partition_record, spread
from runnel.core.metadata.records import ConfigRecord, MetadataRecord, RemoveTopicRecord, TopicRecord
from runnel.core.metadata.rules import ClusterLimits, ConfigJudge
from runnel.wire.errors import ErrorCode, Refusal
from runnel.wire.types import ZERO_UUID

METADATA_TOPIC = "__cluster_metadata"


class _Budget:
    """How many partitions this request may still make. Asked before anything of that size is built."""

    def __init__(self, image: ClusterImage, limits: ClusterLimits) -> None:
        self._limits = limits
        self._request = limits.partitions_per_request_max
        self._cluster = limits.partitions_per_broker_max * max(1, len(image.brokers)) - image.partition_count

    def take(self, partitions: int) -> None:
        if partitions > self._request:
            raise _too_many(self._limits)
        if partitions > self._cluster:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} more partition(s) would pass the limit of {self._limits.partitions_per_broker_max} "
                "per broker (max.partitions.per.broker).",
            )
        self._request -= partitions
        self._cluster -= partitions


def _too_many(limits: ClusterLimits) -> Refusal:
    most = limits.partitions_per_request_max
    message = f"Excessively large number of partitions per request; the limit is {most}."
    return Refusal(ErrorCode.POLICY_VIOLATION, message)


# ------------------------------------------------------------------------------------------------ create


def create_topics(
    image: ClusterImage,
    judge: ConfigJudge,
    limits: ClusterLimits,
    command: CreateTopics,
    new_uuid: Callable[[], UUID],
) -> Decision[tuple[TopicOutcome, ...]]:
    """Each new topic becomes a TopicRecord, its ConfigRecords and its PartitionRecords, in Kafka's order."""
    counts = Counter(topic.name for topic in command.topics)
    creation = _Creation(image, judge, limits, command)
    records: list[MetadataRecord] = []
    outcomes = []
    for topic in {topic.name: topic for topic in command.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            outcome, topic_records = creation.create(topic, new_uuid)
        except Refusal as refusal:
            outcome, topic_records = TopicOutcome(topic.name, ZERO_UUID, refusal.code, refusal.message), []
        outcomes.append(outcome)
        records += topic_records
    return Decision([] if command.validate_only else records, tuple(outcomes))


class _Creation:
    """The creation of the topics of one request; they share the budget and the names that may collide."""

    def __init__(self, image: ClusterImage, judge: ConfigJudge, limits: ClusterLimits, command: CreateTopics) -> None:
        self._image = image
        self._judge = judge
        self._limits = limits
        self._budget = _Budget(image, limits)
        self._admit = command.admit
        # Like Kafka, a request that is too large in all is refused in all.
        self._too_large = sum(self._wanted_count(topic) for topic in command.topics) > limits.partitions_per_request_max
        # Folding the names is a pass over all topics: done once, and only where a new name can collide.
        collidable = any(may_collide(topic.name) for topic in command.topics)
        self._folded = {collision_key(name): name for name in image.topics if may_collide(name)} if collidable else {}

    def create(self, topic: NewTopic, new_uuid: Callable[[], UUID]) -> tuple[TopicOutcome, list[MetadataRecord]]:
        self._check_name(topic.name)
        configs = self._checked_configs(topic.configs)
        _check_numbers(topic)
        if self._too_large:
            raise _too_many(self._limits)
        self._budget.take(self._wanted_count(topic))
        topic_id = new_uuid()
        placed = self._placed(topic, topic_id)
        self._admit(len(placed))
        records: list[MetadataRecord] = [TopicRecord(topic.name, topic_id)]
        records += [ConfigRecord(ResourceType.TOPIC, topic.name, name, value) for name, value in configs.items()]
        records += [partition_record(self._image, topic_id, index, replicas) for index, replicas in enumerate(placed)]
        outcome = TopicOutcome(
            topic.name, topic_id, partition_count=len(placed), replication_factor=len(placed[0]), configs=configs
        )
        return outcome, records

    def _wanted_count(self, topic: NewTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return self._limits.partitions_default if topic.partitions == -1 else max(0, topic.partitions)

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
        check_topic_name(name)
        if name in self._image.topics:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        rival = self._folded.get(collision_key(name))
        if rival is not None:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {rival}")

    def _checked_configs(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        unset = [name for name, value in configs.items() if value is None]
        if unset:
            message = f"Null value not supported for topic configs: {','.join(unset)}"
            raise Refusal(ErrorCode.INVALID_CONFIG, message)
        checked = {name: value for name, value in configs.items() if value is not None}
        refusal = self._judge.refusal(ResourceType.TOPIC, checked) if checked else None
        if refusal is not None:
            raise refusal
        return checked

    def _placed(self, topic: NewTopic, topic_id: UUID) -> list[Replicas]:
        if topic.assignments:
            return _manual(self._image, topic)
        factor = topic.replication_factor
        if factor == -1:
            factor = self._limits.replication_factor_default
        return spread(self._image, 0, self._wanted_count(topic), factor, topic_id.int)


def _check_numbers(topic: NewTopic) -> None:
    if topic.assignments:
        for number, what in ((topic.replication_factor, "replication factor"), (topic.partitions, "numPartitions")):
            if number != -1:
                message = f"A manual partition assignment was specified, but {what} was not set to -1."
                raise Refusal(ErrorCode.INVALID_REQUEST, message)
        return
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.partitions < -1 or topic.partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise Refusal(ErrorCode.INVALID_PARTITIONS, message)


def _manual(image: ClusterImage, topic: NewTopic) -> list[Replicas]:
    by_index: dict[int, Replicas] = {}
    factor: int | None = None
    for index, replicas in topic.assignments:
        if index in by_index:
            message = f"Found multiple manual partition assignments for partition {index}"
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        by_index[index] = check_replicas(image, replicas, factor)
        factor = len(replicas)
    if sorted(by_index) != list(range(len(by_index))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [by_index[index] for index in range(len(by_index))]


# ------------------------------------------------------------------------------------------------ delete


def delete_topics(
    image: ClusterImage, limits: ClusterLimits, command: DeleteTopics
) -> Decision[tuple[TopicOutcome, ...]]:
    """Each topic that may go becomes a RemoveTopicRecord, which takes its partitions and configs with it."""
    groups: dict[str | UUID, list[str | UUID]] = {}
    for key in command.topics:
        topic = _find(image, key)
        groups.setdefault(topic.topic_id if topic else key, []).append(key)
    records: list[MetadataRecord] = []
    outcomes = []
    for keys in groups.values():
        topic = _find(image, keys[0])
        if keys.count(keys[0]) > 1:
            topic = None  # what is asked for twice is not looked up: the answer has what the request had
        name = topic.name if topic else keys[0] if isinstance(keys[0], str) else None
        topic_id = topic.topic_id if topic else keys[0] if isinstance(keys[0], UUID) else ZERO_UUID
        try:
            command.admit(_check_deletion(command, limits, keys, topic))
            records.append(RemoveTopicRecord(topic_id))
            outcomes.append(TopicOutcome(name, topic_id))
        except Refusal as refusal:
            outcomes.append(TopicOutcome(name, topic_id, refusal.code, refusal.message))
    return Decision(records, tuple(outcomes))


def _find(image: ClusterImage, key: str | UUID) -> TopicImage | None:
    return image.topic(key) if isinstance(key, str) else image.topic_by_id(key)


def _check_deletion(
    command: DeleteTopics, limits: ClusterLimits, keys: list[str | UUID], topic: TopicImage | None
) -> int:
    """How many partitions go."""
    if not limits.topic_deletion:
        raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if len(keys) > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name or topic ID.")
    if topic is None:
        if isinstance(keys[0], UUID):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {keys[0]}.")
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{keys[0]}'.")
    if topic.internal and not command.internal_allowed:
        message = f"Topic {topic.name} is internal and cannot be deleted."
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    return len(topic.partitions)


# ------------------------------------------------------------------------------------------------ partitions


def create_partitions(
    image: ClusterImage, limits: ClusterLimits, command: CreatePartitions
) -> Decision[tuple[PartitionsOutcome, ...]]:
    """Each topic that may grow gets PartitionRecords for its new partitions."""
    counts = Counter(topic.name for topic in command.topics)
    budget = _Budget(image, limits)
    records: list[MetadataRecord] = []
    outcomes = []
    for wanted in {topic.name: topic for topic in command.topics}.values():
        try:
            if counts[wanted.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            grown = _grow(image, budget, wanted)
            command.admit(len(grown))
            records += grown
            outcomes.append(PartitionsOutcome(wanted.name))
        except Refusal as refusal:
            outcomes.append(PartitionsOutcome(wanted.name, refusal.code, refusal.message))
    return Decision([] if command.validate_only else records, tuple(outcomes))


def _grow(image: ClusterImage, budget: _Budget, wanted: NewPartitions) -> list[MetadataRecord]:
    topic = image.topic(wanted.name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{wanted.name}'.")
    existing = len(topic.partitions)
    added = wanted.count - existing
    if added == 0:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if added < 0:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {existing} partition(s); {wanted.count} would not be an increase.",
        )
    budget.take(added)
    placed = _added(image, topic, added, wanted)
    return [
        partition_record(image, topic.topic_id, existing + index, replicas) for index, replicas in enumerate(placed)
    ]


def _added(image: ClusterImage, topic: TopicImage, added: int, wanted: NewPartitions) -> list[Replicas]:
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return spread(image, len(topic.partitions), added, factor, topic.topic_id.int)
    if len(wanted.assignments) != added:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but {len(wanted.assignments)} assignment(s) "
            "were specified.",
        )
    return [check_replicas(image, replicas, factor) for replicas in wanted.assignments]
