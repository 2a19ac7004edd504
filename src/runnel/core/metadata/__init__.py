"""Cluster metadata as a replayed log: decide → log → replay.

Owns topics, partitions, brokers, dynamic configs, features and producer id blocks. Commands go in
(`commands`), a `Decision` comes out: records to log and a reply per item (`machine`). Only `replay` changes
the state, which readers see as an immutable `ClusterImage` (`image`). Records have Kafka's own encoding
(`records`).

Imports `runnel.wire` only; what a valid config is, is injected (`rules`).
"""

from runnel.core.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    Command,
    ConfigChange,
    ConfigOperation,
    ConfigOutcome,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    IncrementalAlterConfigs,
    NewPartitions,
    NewTopic,
    PartitionsOutcome,
    ProducerIdsOutcome,
    RegisterBroker,
    RegistrationOutcome,
    ResourceType,
    SetFeatures,
    TopicOutcome,
)
from runnel.core.metadata.image import (
    BrokerImage,
    ClusterImage,
    PartitionImage,
    QuotaEntity,
    ScramCredential,
    TopicImage,
)
from runnel.core.metadata.machine import MetadataMachine
from runnel.core.metadata.records import MetadataRecord, decode_record, encode_record
from runnel.core.metadata.rules import ClusterLimits, ConfigJudge
from runnel.core.metadata.snapshot import snapshot

__all__ = [
    "AllocateProducerIds",
    "AlterConfigs",
    "BrokerImage",
    "ClusterImage",
    "ClusterLimits",
    "Command",
    "ConfigChange",
    "ConfigJudge",
    "ConfigOperation",
    "ConfigOutcome",
    "ConfigResource",
    "CreatePartitions",
    "CreateTopics",
    "Decision",
    "DeleteTopics",
    "IncrementalAlterConfigs",
    "MetadataMachine",
    "MetadataRecord",
    "NewPartitions",
    "NewTopic",
    "PartitionImage",
    "PartitionsOutcome",
    "ProducerIdsOutcome",
    "QuotaEntity",
    "RegisterBroker",
    "RegistrationOutcome",
    "ResourceType",
    "ScramCredential",
    "SetFeatures",
    "TopicImage",
    "TopicOutcome",
    "decode_record",
    "encode_record",
    "snapshot",
]
