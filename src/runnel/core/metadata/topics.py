"""Decisions about topics: create, delete, add partitions.

In: the image, the rules, a command. Out: records and an outcome per topic; each topic stands for itself, and a refused
one leaves no record. Checks and messages follow Apache Kafka's controller.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
    """How many partitions this request may still make."""

    def __init__(self, image: ClusterImage, limits: ClusterLimits) -> None:
        self.request = limits.partitions_per_request_max
        self.cluster = limits.partitions_per_broker_max * max(1, len(image.brokers)) - image.partition_count
        self.limits = limits

    def take(self, partitions: int) -> None:
        if partitions > self.request:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                "Excessively large number of partitions per request: at most "
                f"{self.limits.partitions_per_request_max} are made at once.",
            )
        if partitions > self.cluster:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} more partition(s) would pass the limit of {self.limits.partitions_per_broker_max} per broker "
                "(max.partitions.per.broker).",
            )
        self.request -= partitions
        self.cluster -= partitions


# ------------------------------------------------------------------------------------------------ create


def create_topics(
    image: ClusterImage,
    rules: ConfigJudge,
    limits: ClusterLimits,
    command: CreateTopics,
    new_uuid: Callable[[], UUID],
) -> Decision[tuple[TopicOutcome, ...]]:
    """Each new topic becomes a TopicRecord, its ConfigRecords and its PartitionRecords, in Kafka's order."""
    counts = Counter(topic.name for topic in command.topics)
    creation = _Creation(image, rules, limits, command.topics)
    records: list[MetadataRecord] = []
    outcomes = []
    for topic in command.topics:
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
    """The creation of the topics of one request: what they share is the budget and the names that may collide."""

    def __init__(
        self, image: ClusterImage, rules: ConfigJudge, limits: ClusterLimits, topics: Iterable[NewTopic]
    ) -> None:
        self.image = image
        self.rules = rules
        self.limits = limits
        self.budget = _Budget(image, limits)
        # Folding every name costs a pass over all topics, so it is done once, and only where it can matter.
        collidable = any(may_collide(topic.name) for topic in topics)
        self.folded = {collision_key(name): name for name in image.topics} if collidable else {}

    def create(
        self, topic: NewTopic, new_uuid: Callable[[], UUID]
    ) -> tuple[TopicOutcome, list[MetadataRecord]]:
        self._check_name(topic.name)
        configs = self._checked_configs(topic.configs)
        self._check_numbers(topic)
        topic_id = new_uuid()
        placed = self._placed(topic, topic_id)
        partitions = [
            partition_record(self.image, topic_id, index, replicas) for index, replicas in enumerate(placed)
        ]
        self.budget.take(len(partitions))
        self.folded[collision_key(topic.name)] = topic.name
        records: list[MetadataRecord] = [TopicRecord(topic.name, topic_id)]
        records += [
            ConfigRecord(ResourceType.TOPIC, topic.name, name, value) for name, value in configs.items()
        ]
        records += partitions
        outcome = TopicOutcome(
            topic.name,
            topic_id,
            partition_count=len(placed),
            replication_factor=len(placed[0]),
            configs=configs,
        )
        return outcome, records

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            )
        check_topic_name(name)
        if name in self.image.topics:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        rival = self.folded.get(collision_key(name))
        if rival is not None:
            raise Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {rival}"
            )

    def _checked_configs(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        unset = [name for name, value in configs.items() if value is None]
        if unset:
            raise Refusal(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(unset)}"
            )
        checked = {name: value for name, value in configs.items() if value is not None}
        reason = self.rules.topic_refusal(checked) if checked else None
        if reason is not None:
            raise Refusal(ErrorCode.INVALID_CONFIG, reason)
        return checked

    def _check_numbers(self, topic: NewTopic) -> None:
        if topic.assignments:
            for number, what in (
                (topic.replication_factor, "replication factor"),
                (topic.partitions, "numPartitions"),
            ):
                if number != -1:
                    raise Refusal(
                        ErrorCode.INVALID_REQUEST,
                        f"A manual partition assignment was specified, but {what} was not set to -1.",
                    )
            return
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partitions < -1 or topic.partitions == 0:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )

    def _placed(self, topic: NewTopic, topic_id: UUID) -> list[Replicas]:
        if topic.assignments:
            return _manual(self.image, topic)
        count = self.limits.partitions_default if topic.partitions == -1 else topic.partitions
        factor = topic.replication_factor
        if factor == -1:
            factor = self.limits.replication_factor_default
        # Refused before anything of that size is made.
        if count > self.limits.partitions_per_request_max:
            self.budget.take(count)
        return spread(self.image, 0, count, factor, topic_id.int)


def _manual(image: ClusterImage, topic: NewTopic) -> list[Replicas]:
    by_index: dict[int, Replicas] = {}
    factor: int | None = None
    for index, replicas in topic.assignments:
        if index in by_index:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        by_index[index] = check_replicas(image, replicas, factor)
        factor = len(replicas)
    if sorted(by_index) != list(range(len(by_index))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [by_index[index] for index in range(len(by_index))]


# ------------------------------------------------------------------------------------------------ delete


def delete_topics(
    image: ClusterImage, limits: ClusterLimits, command: DeleteTopics
) -> Decision[tuple[TopicOutcome, ...]]:
    """Each topic that may go becomes a RemoveTopicRecord, which takes its partitions and configs with it."""
    found = [_find(image, wanted) for wanted in command.topics]
    counts = Counter(topic.topic_id for topic in found if topic is not None)
    records: list[MetadataRecord] = []
    outcomes = []
    for wanted, topic in zip(command.topics, found, strict=True):
        name = topic.name if topic else None
        topic_id = topic.topic_id if topic else ZERO_UUID
        if topic is None:
            name, topic_id = (wanted, ZERO_UUID) if isinstance(wanted, str) else (None, wanted)
        try:
            removed = _check_deletion(command, limits, wanted, topic)
            if counts[removed.topic_id] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
            records.append(RemoveTopicRecord(removed.topic_id))
            outcomes.append(TopicOutcome(name, topic_id))
        except Refusal as refusal:
            outcomes.append(TopicOutcome(name, topic_id, refusal.code, refusal.message))
    return Decision(records, tuple(outcomes))


def _find(image: ClusterImage, wanted: str | UUID) -> TopicImage | None:
    return image.topic(wanted) if isinstance(wanted, str) else image.topic_by_id(wanted)


def _check_deletion(
    command: DeleteTopics, limits: ClusterLimits, wanted: str | UUID, topic: TopicImage | None
) -> TopicImage:
    if not limits.topic_deletion:
        raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(wanted, str) else ErrorCode.UNKNOWN_TOPIC_ID
        raise Refusal(code, f"There is no topic {wanted}.")
    if topic.internal and not command.internal_allowed:
        raise Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic {topic.name} is internal and cannot be deleted."
        )
    return topic


# ------------------------------------------------------------------------------------------------ partitions


def create_partitions(
    image: ClusterImage, limits: ClusterLimits, command: CreatePartitions
) -> Decision[tuple[PartitionsOutcome, ...]]:
    """Each topic that may grow gets PartitionRecords for its new partitions."""
    counts = Counter(topic.name for topic in command.topics)
    budget = _Budget(image, limits)
    records: list[MetadataRecord] = []
    outcomes = []
    for wanted in command.topics:
        try:
            if counts[wanted.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _grow(image, budget, wanted)
            outcomes.append(PartitionsOutcome(wanted.name))
        except Refusal as refusal:
            outcomes.append(PartitionsOutcome(wanted.name, refusal.code, refusal.message))
    return Decision([] if command.validate_only else records, tuple(outcomes))


def _grow(image: ClusterImage, budget: _Budget, wanted: NewPartitions) -> list[MetadataRecord]:
    topic = image.topic(wanted.name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {wanted.name}.")
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
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        placed = spread(image, existing, added, factor, topic.topic_id.int)
    else:
        if len(wanted.assignments) != added:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
                "were specified.",
            )
        placed = [check_replicas(image, replicas, factor) for replicas in wanted.assignments]
    return [
        partition_record(image, topic.topic_id, existing + index, replicas)
        for index, replicas in enumerate(placed)
    ]
