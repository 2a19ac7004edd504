"""What becomes of a partition when replicas are moved or a leader is wanted, as one PartitionChangeRecord.

In: the image, a partition, the replicas it is to have and which kind of election may be held. Out: the record that
says what differs, or None where nothing does. A move is under way from the moment that replicas are added or removed
until all that are to stay are in sync; then the record ends it.
"""

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from runnel.core.metadata.image import ClusterImage, PartitionImage
from runnel.core.metadata.placement import Replicas, directory
from runnel.core.metadata.records import NO_LEADER, NO_LEADER_CHANGE, PartitionChangeRecord

RECOVERING = 1


class Election(IntEnum):
    """PREFERRED and UNCLEAN have the numbers of ElectLeaders; ONLINE only keeps a partition led."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


@dataclass(slots=True)
class PartitionTarget:
    """The replicas that a partition is to have, changed step by step before the record is made."""

    replicas: Replicas
    isr: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @classmethod
    def of(cls, partition: PartitionImage) -> "PartitionTarget":
        """As it is."""
        return cls(partition.replicas, partition.isr, partition.adding_replicas, partition.removing_replicas)

    def complete(self) -> None:
        """End the move if everything that is to stay is in sync."""
        staying = _without(self.replicas, self.removing)
        in_sync = _without(self.isr, self.removing)
        if (self.adding or self.removing) and in_sync and set(staying) <= set(in_sync):
            self.replicas, self.isr, self.adding, self.removing = staying, in_sync, (), ()


def change_record(
    image: ClusterImage, topic_id: UUID, partition: PartitionImage, target: PartitionTarget, election: Election
) -> PartitionChangeRecord | None:
    target.complete()
    leader, unclean = _elected(image, partition, target, election)
    isr = (leader,) if unclean else target.isr
    # A replica that leaves must not go on as if it were one: a new epoch fences it off.
    fences = not set(partition.replicas) <= set(target.replicas)
    record = PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        isr=_if_new(partition.isr, isr),
        leader=leader if leader != partition.leader or fences else NO_LEADER_CHANGE,
        replicas=_if_new(partition.replicas, target.replicas),
        removing_replicas=_if_new(partition.removing_replicas, target.removing),
        adding_replicas=_if_new(partition.adding_replicas, target.adding),
        leader_recovery_state=RECOVERING if unclean and partition.leader_recovery_state != RECOVERING else -1,
        directories=_directories(image, partition, target),
    )
    return None if record == PartitionChangeRecord(partition.index, topic_id) else record


def _elected(
    image: ClusterImage, partition: PartitionImage, target: PartitionTarget, election: Election
) -> tuple[int, bool]:
    """Who leads, and whether it may lack records that were acknowledged."""
    able = [replica for replica in target.replicas if _can_lead(image, replica)]
    clean = [replica for replica in able if replica in target.isr]
    if election is Election.PREFERRED and target.replicas[0] in clean:
        return target.replicas[0], False
    if partition.leader in clean:
        return partition.leader, False
    if clean:
        return clean[0], False
    if election is Election.UNCLEAN and able:
        return able[0], True
    return NO_LEADER, False


def _can_lead(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def _directories(image: ClusterImage, partition: PartitionImage, target: PartitionTarget) -> tuple[UUID, ...] | None:
    if target.replicas == partition.replicas:
        return None
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return tuple(known.get(replica) or directory(image, replica) for replica in target.replicas)


def _without(replicas: Replicas, removed: Replicas) -> Replicas:
    return tuple(replica for replica in replicas if replica not in removed)


def _if_new(old: Replicas, new: Replicas) -> Replicas | None:
    return None if old == new else new
