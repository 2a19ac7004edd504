"""From one image and a run of records to the next image.

In: a `ClusterImage` and records, in log order. Out: the next image; the old one is untouched. Maps are copied
once per draft and topics once per draft that touches them, so a run of n records costs O(n + size of the
image). A record that does not fit the state before it means a damaged log or a bug of ours:
`MetadataInconsistent`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from uuid import UUID

from runnel.core.metadata.commands import ResourceType
from runnel.core.metadata.image import BrokerImage, ClusterImage, PartitionImage, ScramCredential, TopicImage
from runnel.core.metadata.records import (
    NO_LEADER_CHANGE,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from runnel.wire.types import BrokerId, LeaderEpoch

Value = TypeVar("Value")
Name = TypeVar("Name")


class MetadataInconsistent(RuntimeError):
    """The metadata log holds a record that cannot follow what came before it."""


def apply_records(image: ClusterImage, records: Iterable[MetadataRecord]) -> ClusterImage:
    """The image after these records."""
    draft = _Draft(image)
    for record in records:
        _APPLY[type(record)](draft, record)
        draft.version += 1
    return draft.finish()


class _TopicDraft:
    __slots__ = ("configs", "name", "partitions", "topic_id")

    def __init__(self, topic: TopicImage) -> None:
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.partitions = list(topic.partitions)
        self.configs = dict(topic.configs)

    def finish(self) -> TopicImage:
        return TopicImage(self.name, self.topic_id, tuple(self.partitions), MappingProxyType(self.configs))


class _ValuesDraft(Generic[Name, Value]):
    """Values of resources under change, by resource and key. What is not touched is not copied; a resource whose last
    value goes, goes too."""

    __slots__ = ("_before", "_touched")

    def __init__(self, before: Mapping[Name, Mapping[str, Value]]) -> None:
        self._before = before
        self._touched: dict[Name, dict[str, Value]] = {}

    def set(self, resource: Name, key: str, value: Value | None) -> None:
        values = self._touched.get(resource)
        if values is None:
            values = self._touched[resource] = dict(self._before.get(resource, {}))
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value

    def finish(self) -> Mapping[Name, Mapping[str, Value]]:
        if not self._touched:
            return self._before
        after = {**self._before, **{name: MappingProxyType(values) for name, values in self._touched.items()}}
        return MappingProxyType({name: values for name, values in after.items() if values})


class _Draft:
    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.version = image.version
        self.brokers = dict(image.brokers)
        self.topics = dict(image.topics)
        self.topic_names = dict(image.topic_names)
        self.configs: dict[int, _ValuesDraft[str, str]] = {
            ResourceType.BROKER: _ValuesDraft(image.broker_configs),
            ResourceType.GROUP: _ValuesDraft(image.group_configs),
            ResourceType.CLIENT_METRICS: _ValuesDraft(image.client_metrics_configs),
        }
        self.client_quotas = _ValuesDraft(image.client_quotas)
        self.scram_credentials: dict[tuple[str, int], ScramCredential] | None = None  # copied when first touched
        self.features = dict(image.features)
        self.next_producer_id = image.next_producer_id
        self.partition_count = image.partition_count
        self.touched: dict[UUID, _TopicDraft] = {}

    def finish(self) -> ClusterImage:
        for topic in self.touched.values():
            self.topics[topic.name] = topic.finish()
        return ClusterImage(
            cluster_id=self.image.cluster_id,
            controller_id=self.image.controller_id,
            version=self.version,
            brokers=MappingProxyType(self.brokers),
            topics=MappingProxyType(self.topics),
            topic_names=MappingProxyType(self.topic_names),
            broker_configs=self.configs[ResourceType.BROKER].finish(),
            group_configs=self.configs[ResourceType.GROUP].finish(),
            client_metrics_configs=self.configs[ResourceType.CLIENT_METRICS].finish(),
            client_quotas=self.client_quotas.finish(),
            scram_credentials=self.image.scram_credentials
            if self.scram_credentials is None
            else MappingProxyType(self.scram_credentials),
            features=MappingProxyType(self.features),
            next_producer_id=self.next_producer_id,
            partition_count=self.partition_count,
        )

    def credentials(self) -> dict[tuple[str, int], ScramCredential]:
        if self.scram_credentials is None:
            self.scram_credentials = dict(self.image.scram_credentials)
        return self.scram_credentials

    def topic(self, topic_id: UUID) -> _TopicDraft:
        """The topic under change, by id."""
        draft = self.touched.get(topic_id)
        if draft is None:
            name = self.topic_names.get(topic_id)
            if name is None:
                raise MetadataInconsistent(f"a record names topic {topic_id}, which does not exist")
            draft = self.touched[topic_id] = _TopicDraft(self.topics[name])
        return draft

    def topic_named(self, name: str) -> _TopicDraft:
        topic = self.topics.get(name)
        if topic is None:
            raise MetadataInconsistent(f"a record names topic '{name}', which does not exist")
        return self.topic(topic.topic_id)

    def broker(self, broker_id: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise MetadataInconsistent(f"a record names broker {broker_id}, which is not registered")
        return broker


def _register_broker(draft: _Draft, record: RegisterBrokerRecord) -> None:
    draft.brokers[record.broker_id] = BrokerImage(
        broker_id=BrokerId(record.broker_id),
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=record.end_points,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=record.log_dirs,
        features=record.features,
    )


def _unregister_broker(draft: _Draft, record: UnregisterBrokerRecord) -> None:
    draft.broker(record.broker_id)
    del draft.brokers[record.broker_id]


def _change_broker(draft: _Draft, record: BrokerRegistrationChangeRecord) -> None:
    broker = draft.broker(record.broker_id)
    draft.brokers[record.broker_id] = replace(
        broker,
        fenced=broker.fenced if record.fenced == 0 else record.fenced > 0,
        in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
        log_dirs=record.log_dirs or broker.log_dirs,
    )


def _add_topic(draft: _Draft, record: TopicRecord) -> None:
    if record.name in draft.topics:
        raise MetadataInconsistent(f"a record adds topic '{record.name}', which exists")
    draft.topics[record.name] = TopicImage(record.name, record.topic_id, ())
    draft.topic_names[record.topic_id] = record.name


def _remove_topic(draft: _Draft, record: RemoveTopicRecord) -> None:
    topic = draft.topic(record.topic_id)
    draft.partition_count -= len(topic.partitions)
    del draft.touched[record.topic_id]
    del draft.topic_names[record.topic_id]
    del draft.topics[topic.name]


def _add_partition(draft: _Draft, record: PartitionRecord) -> None:
    topic = draft.topic(record.topic_id)
    if record.partition_id != len(topic.partitions):
        raise MetadataInconsistent(
            f"topic '{topic.name}' has {len(topic.partitions)} partitions; number {record.partition_id} does not follow"
        )
    draft.partition_count += 1
    topic.partitions.append(
        PartitionImage(
            index=record.partition_id,
            leader=BrokerId(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
            replicas=record.replicas,
            isr=record.isr,
            partition_epoch=record.partition_epoch,
            directories=record.directories,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            leader_recovery_state=record.leader_recovery_state,
        )
    )


def _change_partition(draft: _Draft, record: PartitionChangeRecord) -> None:
    topic = draft.topic(record.topic_id)
    if not 0 <= record.partition_id < len(topic.partitions):
        raise MetadataInconsistent(
            f"a record changes partition {topic.name}-{record.partition_id}, which does not exist"
        )
    old = topic.partitions[record.partition_id]
    elected = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    topic.partitions[record.partition_id] = PartitionImage(
        index=old.index,
        leader=BrokerId(record.leader) if elected else old.leader,
        leader_epoch=LeaderEpoch(old.leader_epoch + 1) if elected else old.leader_epoch,
        replicas=_changed(old.replicas, record.replicas),
        isr=_changed(old.isr, record.isr),
        partition_epoch=old.partition_epoch + 1,
        directories=_changed(old.directories, record.directories),
        removing_replicas=_changed(old.removing_replicas, record.removing_replicas),
        adding_replicas=_changed(old.adding_replicas, record.adding_replicas),
        leader_recovery_state=old.leader_recovery_state if recovery < 0 else recovery,
    )


def _changed(old: Value, new: Value | None) -> Value:
    return old if new is None else new


def _set_config(draft: _Draft, record: ConfigRecord) -> None:
    if record.resource_type == ResourceType.TOPIC:
        _set_topic_config(draft.topic_named(record.resource_name).configs, record)
        return
    configs = draft.configs.get(record.resource_type)
    if configs is None:
        raise MetadataInconsistent(
            f"a config record names resource type {record.resource_type}, unknown to this release"
        )
    configs.set(record.resource_name, record.name, record.value)


def _set_topic_config(configs: dict[str, str], record: ConfigRecord) -> None:
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value


def _set_credential(draft: _Draft, record: UserScramCredentialRecord) -> None:
    credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
    draft.credentials()[record.name, record.mechanism] = credential


def _remove_credential(draft: _Draft, record: RemoveUserScramCredentialRecord) -> None:
    if draft.credentials().pop((record.name, record.mechanism), None) is None:
        raise MetadataInconsistent(f"a record removes a credential that user '{record.name}' does not have")


def _set_quota(draft: _Draft, record: ClientQuotaRecord) -> None:
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    draft.client_quotas.set(entity, record.key, None if record.remove else record.value)


def _set_feature(draft: _Draft, record: FeatureLevelRecord) -> None:
    if record.feature_level == 0:
        draft.features.pop(record.name, None)
    else:
        draft.features[record.name] = record.feature_level


def _set_producer_ids(draft: _Draft, record: ProducerIdsRecord) -> None:
    draft.next_producer_id = record.next_producer_id


def _do_nothing(draft: _Draft, record: NoOpRecord) -> None:
    """A NoOpRecord only moves the log on."""


_APPLY: dict[type, Callable[[_Draft, Any], None]] = {
    RegisterBrokerRecord: _register_broker,
    UnregisterBrokerRecord: _unregister_broker,
    BrokerRegistrationChangeRecord: _change_broker,
    TopicRecord: _add_topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: _add_partition,
    PartitionChangeRecord: _change_partition,
    ConfigRecord: _set_config,
    UserScramCredentialRecord: _set_credential,
    RemoveUserScramCredentialRecord: _remove_credential,
    ClientQuotaRecord: _set_quota,
    FeatureLevelRecord: _set_feature,
    ProducerIdsRecord: _set_producer_ids,
    NoOpRecord: _do_nothing,
}
