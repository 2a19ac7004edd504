"""Every group config of Apache Kafka 4.3, with Kafka's default and the broker key behind it (KIP-848, 932, 1071).

Data only. Numbers are also bounded by broker keys, `group.consumer.min.session.timeout.ms` and the like, which `LIMITS`
names; where this broker has no such key, Kafka's default of it stands. `effective=False` marks what is accepted, stored
and shown but changes nothing: share and streams groups are not built.
"""

from typing import NamedTuple

from runnel.core.configs.definitions import Choices, ConfigDefinition, ConfigType, OffsetReset, Range


class GroupLimit(NamedTuple):
    """The broker keys that bound a group config, with Kafka's defaults of them."""

    minimum_key: str
    minimum: int
    maximum_key: str
    maximum: int


class _Number(NamedTuple):
    name: str
    default: int
    minimum: int
    maximum: int | None
    documentation: str
    effective: bool = False


_NUMBERS = (
    _Number(
        "consumer.session.timeout.ms",
        45_000,
        45_000,
        60_000,
        "How long a member of a consumer group may be silent before it is taken for lost.",
        effective=True,
    ),
    _Number(
        "consumer.heartbeat.interval.ms",
        5_000,
        5_000,
        15_000,
        "How often the members of a consumer group are told to send a heartbeat.",
        effective=True,
    ),
    _Number(
        "consumer.assignment.interval.ms",
        0,
        0,
        15_000,
        "How long a consumer group waits at least between two assignments. Kafka's default is 1 s.",
        effective=True,
    ),
    _Number(
        "share.session.timeout.ms",
        45_000,
        45_000,
        60_000,
        "How long a member of a share group may be silent before it is taken for lost.",
    ),
    _Number(
        "share.heartbeat.interval.ms",
        5_000,
        5_000,
        15_000,
        "How often the members of a share group are told to send a heartbeat.",
    ),
    _Number(
        "share.assignment.interval.ms",
        1_000,
        0,
        15_000,
        "How long a share group waits at least between two assignments.",
    ),
    _Number(
        "share.record.lock.duration.ms",
        30_000,
        15_000,
        60_000,
        "How long a record that was handed to a member of a share group is locked for it.",
    ),
    _Number(
        "share.delivery.count.limit",
        5,
        2,
        10,
        "How often a record is handed out by a share group before it is given up.",
    ),
    _Number(
        "share.partition.max.record.locks",
        2_000,
        100,
        4_000,
        "How many records of one partition a share group may have locked at once.",
    ),
    _Number(
        "streams.session.timeout.ms",
        45_000,
        45_000,
        60_000,
        "How long a member of a streams group may be silent before it is taken for lost.",
    ),
    _Number(
        "streams.heartbeat.interval.ms",
        5_000,
        5_000,
        15_000,
        "How often the members of a streams group are told to send a heartbeat.",
    ),
    _Number(
        "streams.assignment.interval.ms",
        1_000,
        0,
        15_000,
        "How long a streams group waits at least between two assignments.",
    ),
    _Number(
        "streams.num.standby.replicas",
        0,
        0,
        2,
        "How many standby replicas each task of a streams group has.",
    ),
    _Number(
        "streams.initial.rebalance.delay.ms",
        3_000,
        0,
        None,
        "How long an empty streams group waits for more members after the first one joined.",
    ),
)

_WORDS = (
    ConfigDefinition(
        "share.auto.offset.reset",
        ConfigType.STRING,
        "latest",
        "Where a share group starts in a partition that it has not read: earliest, latest, or by_duration: and an "
        "ISO 8601 duration.",
        OffsetReset(),
        effective=False,
    ),
    ConfigDefinition(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        "Whether a share group sees records of transactions that are not committed.",
        Choices(("read_committed", "read_uncommitted")),
        effective=False,
    ),
    ConfigDefinition(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether members of a share group may renew the lock of a record.",
        effective=False,
    ),
)


def _definition(number: _Number) -> ConfigDefinition:
    return ConfigDefinition(
        number.name,
        ConfigType.INT,
        number.default,
        number.documentation,
        Range(0),
        broker_synonym=f"group.{number.name}",
        effective=number.effective,
    )


def _limit(number: _Number) -> GroupLimit:
    kind, _, rest = number.name.partition(".")
    maximum = 2**31 - 1 if number.maximum is None else number.maximum
    return GroupLimit(
        f"group.{kind}.min.{rest}", number.minimum, f"group.{kind}.max.{rest.removeprefix('num.')}", maximum
    )


GROUP_CONFIGS: dict[str, ConfigDefinition] = {
    definition.name: definition for definition in (*map(_definition, _NUMBERS), *_WORDS)
}
LIMITS: dict[str, GroupLimit] = {number.name: _limit(number) for number in _NUMBERS}
GROUP_KINDS = ("consumer", "share", "streams")
