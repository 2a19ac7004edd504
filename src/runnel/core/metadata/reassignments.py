"""Decisions about who leads partitions and where their replicas are: elections (KIP-460), reassignments (KIP-455).

In: the image and a command. Out: PartitionChangeRecords and an outcome per partition; each stands for itself. Codes and
messages follow Apache Kafka's controller. A move of replicas begins here and ends when the replicas that were added are
in sync. One that could only be cancelled by electing a leader that lacks records is not cancelled.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from runnel.core.metadata.commands import (
    AlterPartitionReassignments,
    Decision,
    ElectLeaders,
    PartitionOutcome,
    PartitionReassignment,
)
from runnel.core.metadata.image import ClusterImage, PartitionImage, TopicImage
from runnel.core.metadata.partition_changes import Election, PartitionTarget, change_record
from runnel.core.metadata.placement import check_replicas
from runnel.core.metadata.records import NO_LEADER, PartitionChangeRecord
from runnel.wire.errors import ErrorCode, Refusal

ELECTION_TYPES = (Election.PREFERRED, Election.UNCLEAN)
Wanted = TypeVar("Wanted")


def _each(
    wanted: Sequence[Wanted],
    name_of: Callable[[Wanted], tuple[str, int]],
    decide: Callable[[Wanted], PartitionChangeRecord | None],
) -> Decision[tuple[PartitionOutcome, ...]]:
    """Every item for itself; one that comes again finds its partition decided, and is refused or skipped alike."""
    records: dict[tuple[str, int], PartitionChangeRecord] = {}
    outcomes = []
    for item in wanted:
        name = name_of(item)
        try:
            record = decide(item)
            if name in records:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"Partition {name[0]}-{name[1]} is named twice.")
            if record is not None:
                records[name] = record
            outcomes.append(PartitionOutcome(*name))
        except Refusal as refusal:
            outcomes.append(PartitionOutcome(*name, refusal.code, refusal.message))
    return Decision(list(records.values()), tuple(outcomes))


# ------------------------------------------------------------------------------------------------ elections


def elect_leaders(image: ClusterImage, command: ElectLeaders) -> Decision[tuple[PartitionOutcome, ...]]:
    """Where all partitions are asked for, those that need no election are not answered for."""

    def decide(name: tuple[str, int]) -> PartitionChangeRecord:
        if command.election_type not in ELECTION_TYPES:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown election type {command.election_type}")
        return _election(image, *name, Election(command.election_type))

    if command.partitions is not None:
        return _each(command.partitions, lambda name: name, decide)
    names = [(topic.name, partition.index) for topic in image.topics.values() for partition in topic.partitions]
    decision = _each(names, lambda name: name, decide)
    needed = [outcome for outcome in decision.reply if outcome.code is not ErrorCode.ELECTION_NOT_NEEDED]
    return Decision(decision.records, tuple(needed))


def _election(image: ClusterImage, name: str, index: int, election: Election) -> PartitionChangeRecord:
    topic = image.topic(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partition(index)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    led = partition.leader == partition.replicas[0] if election is Election.PREFERRED else partition.leader != NO_LEADER
    if led:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = change_record(image, topic.topic_id, partition, PartitionTarget.of(partition), election)
    if record is not None:
        return record
    if election is Election.PREFERRED:
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    message = "Eligible topic partition leaders are not available."
    raise Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)


# ------------------------------------------------------------------------------------------------ reassignments


def alter_reassignments(
    image: ClusterImage, command: AlterPartitionReassignments
) -> Decision[tuple[PartitionOutcome, ...]]:
    def decide(wanted: PartitionReassignment) -> PartitionChangeRecord | None:
        topic, partition = _existing(image, wanted)
        if wanted.replicas is None:
            target = _cancelled(wanted, partition)
        else:
            target = _moved(image, partition, wanted.replicas, command.replication_factor_may_change)
        return change_record(image, topic.topic_id, partition, target, Election.ONLINE)

    return _each(command.reassignments, lambda wanted: (wanted.topic, wanted.partition), decide)


def _existing(image: ClusterImage, wanted: PartitionReassignment) -> tuple[TopicImage, PartitionImage]:
    topic = image.topic(wanted.topic)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.topic}.")
    partition = topic.partition(wanted.partition)
    if partition is None:
        message = f"Unable to find partition {wanted.topic}:{wanted.partition}."
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return topic, partition


def _moved(
    image: ClusterImage, partition: PartitionImage, replicas: Sequence[int], factor_may_change: bool
) -> PartitionTarget:
    """The wanted replicas, and behind them those that are to leave once they are not needed any more."""
    wanted = check_replicas(image, replicas, None)
    factor = len(set(partition.replicas) - set(partition.adding_replicas))
    if not factor_may_change and len(wanted) != factor:
        message = f"The replication factor is changed from {factor} to {len(wanted)}"
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    removing = tuple(sorted(set(partition.replicas) - set(wanted)))
    adding = tuple(sorted(set(wanted) - set(partition.replicas)))
    return PartitionTarget((*wanted, *removing), partition.isr, adding, removing)


def _cancelled(wanted: PartitionReassignment, partition: PartitionImage) -> PartitionTarget:
    if not partition.adding_replicas and not partition.removing_replicas:
        message = "No partition reassignment is in progress."
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
    if not replicas or not isr:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {wanted.topic}:{wanted.partition} because it would require an "
            "unclean leader election.",
        )
    return PartitionTarget(replicas, isr)
