"""Where the replicas of new partitions go.

In: the image and what the client asked for. Out: a replica list per partition, or a Refusal with Kafka's
codes. Placement is round robin over the usable brokers from a start that the topic id picks; it needs no
randomness of its own.
"""

from collections.abc import Sequence
from uuid import UUID

from runnel.core.metadata.image import ClusterImage
from runnel.core.metadata.records import UNASSIGNED_DIRECTORY, PartitionRecord
from runnel.wire.errors import ErrorCode, Refusal

Replicas = tuple[int, ...]


def spread(image: ClusterImage, first: int, count: int, replication_factor: int, seed: int) -> list[Replicas]:
    """Replicas for partitions `first` up to `first + count`, leaders spread evenly."""
    brokers = image.usable_brokers()
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    start = seed % len(brokers)
    return [
        tuple(brokers[(start + index + step) % len(brokers)] for step in range(replication_factor))
        for index in range(first, first + count)
    ]


def check_replicas(image: ClusterImage, replicas: Sequence[int], replication_factor: int | None) -> Replicas:
    """A replica list that a client gave, if it can stand."""
    if not replicas:
        raise _bad("The manual partition assignment includes an empty replica list.")
    for broker in replicas:
        if broker not in image.brokers:
            raise _bad(f"The manual partition assignment includes broker {broker}, but no such broker is registered.")
    if len(set(replicas)) != len(replicas):
        twice = next(broker for broker in replicas if replicas.count(broker) > 1)
        raise _bad(f"The manual partition assignment includes the broker {twice} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return tuple(replicas)


def partition_record(image: ClusterImage, topic_id: UUID, index: int, replicas: Replicas) -> PartitionRecord:
    """A new partition, led by the first of its replicas that is up."""
    in_sync = tuple(broker for broker in replicas if not image.brokers[broker].fenced)
    if not in_sync:
        raise _bad("All brokers specified in the manual partition assignment are fenced or in controlled shutdown.")
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=in_sync,
        leader=in_sync[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(directory(image, broker) for broker in replicas),
    )


def directory(image: ClusterImage, broker_id: int) -> UUID:
    log_dirs = image.brokers[broker_id].log_dirs
    return log_dirs[0] if len(log_dirs) == 1 else UNASSIGNED_DIRECTORY


def _bad(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
