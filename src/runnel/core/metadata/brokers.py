"""Decisions about brokers: registration at start, producer id blocks.

In: the image and a command. Out: records and a reply.
"""

from runnel.core.metadata.commands import (
    AllocateProducerIds,
    Decision,
    ProducerIdsOutcome,
    RegisterBroker,
    RegistrationOutcome,
)
from runnel.core.metadata.image import ClusterImage
from runnel.core.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from runnel.wire.errors import ErrorCode

_PRODUCER_ID_MAX = 2**63 - 1


def register_broker(image: ClusterImage, command: RegisterBroker) -> Decision[RegistrationOutcome]:
    """A broker joins, with an epoch above every one before.

    After a stop in order nothing was lost and leader epochs stay as they are. After a crash, records that no
    replica forced to disk may be gone, and their offsets will be given again: a new leader epoch lets
    consumers notice (KIP-320) and marks where the new run of records begins.
    """
    epoch = 1 + max((broker.epoch for broker in image.brokers.values()), default=0)
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            broker_id=command.broker_id,
            incarnation_id=command.incarnation_id,
            broker_epoch=epoch,
            end_points=command.endpoints,
            features=command.features,
            rack=command.rack,
            fenced=False,
            log_dirs=command.log_dirs,
        )
    ]
    if command.unclean:
        records += _new_leader_epochs(image, command.broker_id)
    return Decision(records, RegistrationOutcome(epoch))


def _new_leader_epochs(image: ClusterImage, broker_id: int) -> list[PartitionChangeRecord]:
    return [
        PartitionChangeRecord(partition.index, topic.topic_id, leader=broker_id)
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.leader == broker_id
    ]


def allocate_producer_ids(image: ClusterImage, command: AllocateProducerIds) -> Decision[ProducerIdsOutcome]:
    """The next block of producer ids; ids are never given twice, so a block lost in a crash stays unused."""
    broker = image.brokers.get(command.broker_id)
    if broker is None:
        message = f"Broker {command.broker_id} is not registered."
        return Decision([], ProducerIdsOutcome(ErrorCode.BROKER_ID_NOT_REGISTERED, message))
    first = image.next_producer_id
    if command.count < 1 or first > _PRODUCER_ID_MAX - command.count:
        return Decision([], ProducerIdsOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, "No producer ids are left."))
    record = ProducerIdsRecord(command.broker_id, broker.epoch, first + command.count)
    return Decision([record], ProducerIdsOutcome(first_producer_id=first, count=command.count))
