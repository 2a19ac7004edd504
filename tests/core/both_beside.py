"""Apache Kafka and our metadata machine side by side: the same commands go to both."""

from __future__ import annotations

import uuid
from typing import Any

from kafka_beside import Answer, KafkaBeside

from runnel.core.configs import BrokerConfigView, ConfigRow, ConfigRules
from runnel.core.metadata import (
    Command,
    ConfigOutcome,
    ConfigResource,
    CreateTopics,
    CredentialOutcome,
    FeaturesOutcome,
    MetadataMachine,
    PartitionOutcome,
    QuotaOutcome,
    RegisterBroker,
    ResourceType,
    SetFeatures,
)
from runnel.core.metadata.features import FIRST_LEVELS, SUPPORTED_FEATURES

STATIC = {
    "log.retention.hours": "24",
    "log.roll.ms": "7000000",
    "log.segment.bytes": "20000000",
    "num.partitions": "2",
    "log.cleanup.policy": "compact,delete",
    "message.max.bytes": "2000000",
}


class Both:
    """Kafka and our machine, side by side."""

    def __init__(self, kafka: KafkaBeside) -> None:
        self.kafka = kafka
        self._static = BrokerConfigView(STATIC)
        self.machine = MetadataMachine("c", 1, ConfigRules(self._static))
        self.machine.limits = self.machine.limits.__class__(partitions_default=2)
        self._ours(RegisterBroker(1, uuid.uuid4(), (), features=SUPPORTED_FEATURES))
        self._ours(SetFeatures(FIRST_LEVELS))

    def _ours(self, command: Command) -> Any:
        decision: Any = self.machine.handle(command, 0, uuid.uuid4)  # type: ignore[call-overload]
        self.machine.replay_all(decision.records)
        return decision.reply

    def do(self, command: Command) -> tuple[list[Answer], list[Answer]]:
        """What Kafka answered, and what we answered."""
        reply = self._ours(command)
        ours = [
            Answer(
                _key(outcome),
                int(outcome.code),
                outcome.partition_count if isinstance(command, CreateTopics) else -1,
                outcome.replication_factor if isinstance(command, CreateTopics) else -1,
            )
            for outcome in (reply if isinstance(reply, tuple) else (reply,))
        ]
        return sorted(self.kafka.do(command), key=str), sorted(ours, key=str)

    @property
    def broker(self) -> BrokerConfigView:
        dynamic = self.machine.image.broker_configs
        return self._static.with_dynamic(dynamic.get("", {}), dynamic.get("1", {}))

    def check_topic_configs(self, name: str) -> None:
        rows = self.broker.topic(self.machine.image.topics[name].configs).describe()
        ours = {row.name: ours_as_plain(row) for row in rows if row.name != "acks.all.flush"}
        resource = ConfigResource(ResourceType.TOPIC, name)
        described = self.kafka.describe_until(resource, lambda theirs: plain(theirs) == ours)
        assert plain(described) == ours


def _key(outcome: Any) -> object:
    """What an outcome is about."""
    match outcome:
        case ConfigOutcome():
            return outcome.resource
        case QuotaOutcome():
            return outcome.entity
        case CredentialOutcome():
            return outcome.user
        case PartitionOutcome():
            return outcome.topic, outcome.partition
        case FeaturesOutcome():
            return None
        case _:
            return outcome.name


def ours_as_plain(row: ConfigRow) -> tuple[object, ...]:
    synonyms = [(synonym.name, synonym.value, int(synonym.source)) for synonym in row.synonyms]
    return row.name, row.value, int(row.source), row.read_only, row.sensitive, int(row.type), synonyms


def plain(theirs: dict[str, Any]) -> dict[str, tuple[object, ...]]:
    return {name: theirs_as_plain(row) for name, row in theirs.items()}


def theirs_as_plain(row: Any) -> tuple[object, ...]:
    synonyms = [(synonym.name, synonym.value, int(synonym.source)) for synonym in row.synonyms]
    return row.name, row.value, int(row.config_source), row.read_only, row.is_sensitive, int(row.config_type), synonyms
