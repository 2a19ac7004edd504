"""Decisions about dynamic configs of topics, brokers, groups and client metrics: set, unset, append, replace all.

In: the image, the judge, a command. Out: ConfigRecords and an outcome per resource; a resource is changed as a whole
or not at all. What a valid set of configs is, the injected judge says.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from runnel.core.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ConfigOutcome,
    ConfigResource,
    Decision,
    IncrementalAlterConfigs,
    ResourceType,
)
from runnel.core.metadata.image import ClusterImage
from runnel.core.metadata.names import check_topic_name
from runnel.core.metadata.records import ConfigRecord, MetadataRecord
from runnel.core.metadata.rules import ConfigJudge
from runnel.wire.errors import ErrorCode, Refusal


def alter_configs(
    image: ClusterImage, judge: ConfigJudge, command: AlterConfigs | IncrementalAlterConfigs
) -> Decision[tuple[ConfigOutcome, ...]]:
    """Both alter APIs: work out the overrides after the change, judge them, log the difference."""
    replaces = isinstance(command, AlterConfigs)
    resources = [(resource, _changes(changes)) for resource, changes in command.resources]
    counts = Counter(resource for resource, _ in resources)
    records: list[MetadataRecord] = []
    outcomes = []
    for resource, changes in resources:
        try:
            if counts[resource] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            records += _altered(image, judge, resource, changes, replaces)
            outcomes.append(ConfigOutcome(resource))
        except Refusal as refusal:
            outcomes.append(ConfigOutcome(resource, refusal.code, refusal.message))
    return Decision([] if command.validate_only else records, tuple(outcomes))


def _changes(changes: Sequence[ConfigChange] | Sequence[tuple[str, str | None]]) -> list[ConfigChange]:
    """One shape for both APIs: to replace all overrides is to set each on an empty slate."""
    return [
        change if isinstance(change, ConfigChange) else ConfigChange(change[0], ConfigOperation.SET, change[1])
        for change in changes
    ]


def _altered(
    image: ClusterImage, judge: ConfigJudge, resource: ConfigResource, changes: list[ConfigChange], replaces: bool
) -> list[MetadataRecord]:
    target = _target(image, resource)
    current = _overrides(image, target)
    check_changes(changes)
    wanted = {} if replaces else dict(current)
    for change in changes:
        _apply(judge, target, wanted, change)
    refusal = judge.refusal(target.type, wanted)
    if refusal is not None:
        raise refusal
    # Last, as in Kafka: a config that could stand on no topic is told first.
    if target.type == ResourceType.TOPIC and target.name not in image.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{target.name}' does not exist.")
    return _difference(target, current, wanted)


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Refusal of what no resource takes: a key twice, or nothing where a value is needed."""
    if len({change.name for change in changes}) < len(changes):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    unset = [change.name for change in changes if change.value is None and change.operation != ConfigOperation.DELETE]
    if unset:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(unset)}")


_UNNAMED = {
    ResourceType.TOPIC: "Default topic resources are not allowed.",
    ResourceType.GROUP: "Default group resources are not allowed.",
    ResourceType.CLIENT_METRICS: "Subscription name can't be empty",
}


def _target(image: ClusterImage, resource: ConfigResource) -> ConfigResource:
    """The resource as the log names it: broker "01" is broker "1"."""
    kind, name = resource
    if kind == ResourceType.BROKER:
        return resource if name == "" else ConfigResource(kind, str(_broker_id(image, name)))
    if kind not in _UNNAMED:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    if name == "":
        raise Refusal(ErrorCode.INVALID_REQUEST, _UNNAMED[ResourceType(kind)])
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
    return resource


def _broker_id(image: ClusterImage, name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 11):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) not in image.brokers:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"There is no broker {name}.")
    return int(name)


def _overrides(image: ClusterImage, target: ConfigResource) -> Mapping[str, str]:
    if target.type == ResourceType.TOPIC:
        topic = image.topic(target.name)
        return topic.configs if topic else {}
    by_name = {
        ResourceType.BROKER: image.broker_configs,
        ResourceType.GROUP: image.group_configs,
        ResourceType.CLIENT_METRICS: image.client_metrics_configs,
    }
    return by_name[ResourceType(target.type)].get(target.name, {})


def _apply(judge: ConfigJudge, target: ConfigResource, wanted: dict[str, str], change: ConfigChange) -> None:
    name, operation, value = change
    if operation == ConfigOperation.DELETE:
        wanted.pop(name, None)
    elif operation == ConfigOperation.SET:
        wanted[name] = value or ""
    elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        wanted[name] = _edited_list(judge, target, wanted.get(name), change, _words(value or ""))
    else:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown config operation {operation}")


def _edited_list(
    judge: ConfigJudge, target: ConfigResource, current: str | None, change: ConfigChange, given: list[str]
) -> str:
    default = judge.list_default(target.type, change.name)
    verb = ConfigOperation(change.operation)
    if default is None:
        message = f"Can't {verb.name} to key {change.name} because its type is not LIST."
        raise Refusal(ErrorCode.INVALID_CONFIG, message)
    words = list(default) if current is None else _words(current)
    if verb is ConfigOperation.APPEND:
        words += [word for word in given if word not in words]
    else:
        words = [word for word in words if word not in given]
    return ",".join(words)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _difference(target: ConfigResource, current: Mapping[str, str], wanted: Mapping[str, str]) -> list[MetadataRecord]:
    removed = [ConfigRecord(target.type, target.name, name, None) for name in current if name not in wanted]
    changed = [
        ConfigRecord(target.type, target.name, name, value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
    return [*removed, *changed]
