"""Decisions about dynamic configs of topics and brokers: set, unset, append to lists, replace all.

In: the image, the rules, a command. Out: ConfigRecords and an outcome per resource; a resource is changed as a whole or
not at all. What a valid set of configs is, the injected rules say.
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
from runnel.core.metadata.records import ConfigRecord, MetadataRecord
from runnel.core.metadata.rules import ConfigJudge
from runnel.wire.errors import ErrorCode, Refusal


def alter_configs(
    image: ClusterImage, rules: ConfigJudge, command: AlterConfigs | IncrementalAlterConfigs
) -> Decision[tuple[ConfigOutcome, ...]]:
    """Both alter APIs: work out the overrides after the change, judge them, log the difference."""
    counts = Counter(resource for resource, _ in command.resources)
    records: list[MetadataRecord] = []
    outcomes = []
    for resource, changes in command.resources:
        try:
            if counts[resource] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            records += _altered(image, rules, resource, changes)
            outcomes.append(ConfigOutcome(resource))
        except Refusal as refusal:
            outcomes.append(ConfigOutcome(resource, refusal.code, refusal.message))
    return Decision([] if command.validate_only else records, tuple(outcomes))


def _altered(
    image: ClusterImage,
    rules: ConfigJudge,
    resource: ConfigResource,
    changes: Sequence[ConfigChange] | Sequence[tuple[str, str | None]],
) -> list[MetadataRecord]:
    current = _current(image, resource)
    repeated = [name for name, count in Counter(change[0] for change in changes).items() if count > 1]
    if repeated:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {','.join(repeated)}")
    wanted = _wanted(rules, resource, current, changes)
    judge = rules.topic_refusal if resource.type == ResourceType.TOPIC else rules.broker_refusal
    reason = judge(wanted)
    if reason is not None:
        raise Refusal(ErrorCode.INVALID_CONFIG, reason)
    return _difference(resource, current, wanted)


def _current(image: ClusterImage, resource: ConfigResource) -> Mapping[str, str]:
    if resource.type == ResourceType.TOPIC:
        topic = image.topic(resource.name)
        if topic is None:
            raise Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
            )
        return topic.configs
    if resource.type == ResourceType.BROKER:
        if resource.name and not _is_broker(image, resource.name):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"There is no broker '{resource.name}'.")
        return image.broker_configs.get(resource.name, {})
    raise Refusal(ErrorCode.INVALID_REQUEST, f"Configs of resource type {resource.type} cannot be altered.")


def _is_broker(image: ClusterImage, name: str) -> bool:
    return name.isascii() and name.isdigit() and int(name) in image.brokers


def _wanted(
    rules: ConfigJudge,
    resource: ConfigResource,
    current: Mapping[str, str],
    changes: Sequence[ConfigChange] | Sequence[tuple[str, str | None]],
) -> dict[str, str]:
    """The overrides after the change."""
    wanted: dict[str, str] = {}
    if (changes and isinstance(changes[0], ConfigChange)) or not changes:
        wanted = dict(current)
    for change in changes:
        if isinstance(change, ConfigChange):
            _apply(rules, resource, wanted, change)
            continue
        name, value = change
        if value is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for {name}")
        wanted[name] = value
    return wanted


def _apply(
    rules: ConfigJudge, resource: ConfigResource, wanted: dict[str, str], change: ConfigChange
) -> None:
    if change.operation == ConfigOperation.DELETE:
        wanted.pop(change.name, None)
        return
    if change.value is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for {change.name}")
    if change.operation == ConfigOperation.SET:
        wanted[change.name] = change.value
        return
    find_list = rules.topic_list if resource.type == ResourceType.TOPIC else rules.broker_list
    default = find_list(change.name)
    if change.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Config operation {change.operation} is unknown.")
    verb = ConfigOperation(change.operation).name
    if default is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {change.name} because its type is not LIST."
        )
    words = _words(wanted[change.name]) if change.name in wanted else list(default)
    given = _words(change.value)
    if change.operation == ConfigOperation.APPEND:
        words += [word for word in given if word not in words]
    else:
        words = [word for word in words if word not in given]
    wanted[change.name] = ",".join(words)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _difference(
    resource: ConfigResource, current: Mapping[str, str], wanted: Mapping[str, str]
) -> list[MetadataRecord]:
    removed = [
        ConfigRecord(resource.type, resource.name, name, None) for name in current if name not in wanted
    ]
    changed = [
        ConfigRecord(resource.type, resource.name, name, value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
    return [*removed, *changed]
