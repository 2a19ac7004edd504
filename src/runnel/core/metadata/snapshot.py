"""An image as the shortest run of records that rebuilds it.

In: a `ClusterImage`. Out: records; replayed on an empty image of the same cluster they give an equal image.
Nothing calls it yet: the log is replayed whole (docs/adr/0005), and snapshots come with Raft.
"""

from collections.abc import Iterator

from runnel.core.metadata.commands import ResourceType
from runnel.core.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from runnel.core.metadata.records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)


def snapshot(image: ClusterImage) -> list[MetadataRecord]:
    """The records that rebuild this image; features first, as Kafka's snapshots have them."""
    return list(_records(image))


def _records(image: ClusterImage) -> Iterator[MetadataRecord]:
    for name, level in image.features.items():
        yield FeatureLevelRecord(name, level)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for topic in image.topics.values():
        yield from _topic_records(topic)
    for kind, resources in (
        (ResourceType.BROKER, image.broker_configs),
        (ResourceType.GROUP, image.group_configs),
        (ResourceType.CLIENT_METRICS, image.client_metrics_configs),
    ):
        for resource, configs in resources.items():
            for name, value in configs.items():
                yield ConfigRecord(kind, resource, name, value)
    for entity, quotas in image.client_quotas.items():
        parts = tuple(QuotaEntityPart(kind, name) for kind, name in entity)
        for key, quota in quotas.items():
            yield ClientQuotaRecord(parts, key, quota)
    for (user, mechanism), found in image.scram_credentials.items():
        secrets = (found.salt, found.stored_key, found.server_key)
        yield UserScramCredentialRecord(user, mechanism, *secrets, found.iterations)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(-1, -1, image.next_producer_id)


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        features=broker.features,
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def _topic_records(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(topic.name, topic.topic_id)
    for name, value in topic.configs.items():
        yield ConfigRecord(ResourceType.TOPIC, topic.name, name, value)
    for partition in topic.partitions:
        yield _partition_record(topic, partition)


def _partition_record(topic: TopicImage, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader_recovery_state=partition.leader_recovery_state,
    )
