"""The broker configs that Runnel has, under Kafka's names where Kafka has them.

Data only. `read_only` keys are read at start-up; the others can be changed by AlterConfigs on the running
broker, for one broker or for all. Where our default differs from Kafka's (a limit where Kafka has none) the
words say so.
"""

from runnel.core.configs.cleaner import CLEANER_CONFIGS
from runnel.core.configs.definitions import (
    LONG_MAX,
    Choices,
    ConfigDefinition,
    ConfigType,
    ConfigValue,
    ListOf,
    Range,
    Validator,
)
from runnel.core.configs.topic import TOPIC_CONFIGS


def _fixed(
    name: str,
    kind: ConfigType,
    default: ConfigValue,
    documentation: str,
    validator: Validator | None = None,
    *,
    effective: bool = True,
) -> ConfigDefinition:
    """A key that is read once, at start-up."""
    return ConfigDefinition(name, kind, default, documentation, validator, effective=effective, read_only=True)


_IDENTITY = (
    _fixed("node.id", ConfigType.INT, 1, "The number of this node in its cluster.", Range(0)),
    _fixed("broker.id", ConfigType.INT, -1, "The old name of node.id; Runnel sets it to the same number."),
    _fixed(
        "broker.rack",
        ConfigType.STRING,
        None,
        "The rack or zone of this broker, told to clients in Metadata.",
    ),
    _fixed(
        "cluster.id",
        ConfigType.STRING,
        None,
        "The id of the cluster; made at the first start and kept in meta.properties. Runnel's own key.",
    ),
    _fixed(
        "process.roles",
        ConfigType.LIST,
        ("broker", "controller"),
        "What this process is; Runnel is always both.",
    ),
    _fixed("log.dirs", ConfigType.LIST, None, "The folder with the data. Runnel uses one."),
)

_DOOR = (
    _fixed(
        "listeners",
        ConfigType.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "The addresses on which clients are served. Kafka's default is every interface; Runnel's is this machine only.",
    ),
    _fixed(
        "advertised.listeners",
        ConfigType.LIST,
        None,
        "The addresses that clients are told to connect to. Unset, each client is told the address that it used "
        "itself.",
    ),
    _fixed(
        "socket.request.max.bytes",
        ConfigType.INT,
        100 << 20,
        "The largest request that is read; a longer one closes its connection. Only a Produce may have more than "
        "16 MiB.",
        Range(1),
    ),
    ConfigDefinition(
        "max.connections",
        ConfigType.INT,
        20_000,
        "How many connections are held at once; one more is closed at once. Kafka's default is no limit.",
        Range(0),
    ),
    ConfigDefinition(
        "max.connections.per.ip",
        ConfigType.INT,
        20_000,
        "How many connections one address may hold at once. Kafka's default is no limit.",
        Range(0),
    ),
    _fixed(
        "connections.max.idle.ms",
        ConfigType.LONG,
        600_000,
        "How long a connection may be silent before it is closed.",
        Range(1, None, ((-1, "for no limit"),)),
    ),
    _fixed(
        "queued.max.request.bytes",
        ConfigType.LONG,
        512 << 20,
        "How many bytes of requests may be in work over all connections before the broker stops reading. Kafka's "
        "default is no limit (-1).",
        Range(1, None, ((-1, "for no limit"),)),
    ),
    _fixed(
        "fetch.max.bytes",
        ConfigType.INT,
        55 << 20,
        "The most bytes that one fetch is answered with, whatever the client asks for.",
        Range(1024),
    ),
    _fixed(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        1000,
        "How many incremental fetch sessions are remembered.",
        Range(0),
    ),
    _fixed(
        "max.request.partition.size.limit",
        ConfigType.INT,
        2000,
        "The most partitions that one DescribeTopicPartitions reply carries.",
        Range(1),
    ),
)

_QUOTAS = (
    _fixed(
        "quota.window.num",
        ConfigType.INT,
        11,
        "How many samples the rates of client quotas are taken over.",
        Range(1),
    ),
    _fixed(
        "quota.window.size.seconds",
        ConfigType.INT,
        1,
        "How long one such sample is, in seconds.",
        Range(1),
    ),
    _fixed(
        "controller.quota.window.num",
        ConfigType.INT,
        11,
        "How many samples the quota of topic and partition changes may save up (controller_mutation_rate).",
        Range(1),
    ),
    _fixed(
        "controller.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "How long one such sample is, in seconds.",
        Range(1),
    ),
)

_TOPICS = (
    _fixed(
        "num.partitions",
        ConfigType.INT,
        1,
        "How many partitions a topic gets where the client names none.",
        Range(1),
    ),
    _fixed(
        "default.replication.factor",
        ConfigType.INT,
        1,
        "How many replicas a partition gets where the client names none.",
        Range(1, 32767),
    ),
    _fixed(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether asking for the metadata of an unknown topic creates it, where the client allows that.",
    ),
    _fixed("delete.topic.enable", ConfigType.BOOLEAN, True, "Whether topics may be deleted at all."),
    _fixed(
        "max.partitions.per.broker",
        ConfigType.INT,
        100_000,
        "How many partitions one broker may hold; a request that would make more is refused. Runnel's own key.",
        Range(1),
    ),
)

_GROUPS = (
    _fixed(
        "group.min.session.timeout.ms",
        ConfigType.INT,
        6000,
        "The shortest session timeout that a group member may ask for.",
        Range(0),
    ),
    _fixed(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        1_800_000,
        "The longest session timeout that a group member may ask for.",
        Range(0),
    ),
    _fixed("group.max.size", ConfigType.INT, 2**31 - 1, "How many members one group may have.", Range(1)),
    _fixed(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        0,
        "How long an empty group waits for more members after the first one joined. Kafka's default is 3 s; on one "
        "broker nobody needs to wait.",
        Range(0),
    ),
    _fixed(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        4096,
        "The most bytes of metadata that may be committed with an offset.",
        Range(0, 32767),
    ),
    _fixed(
        "offsets.retention.minutes",
        ConfigType.INT,
        10_080,
        "How long the committed offsets of a group are kept after it lost its last member.",
        Range(1),
    ),
    _fixed(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        600_000,
        "How often groups are checked for offsets past their retention.",
        Range(1),
    ),
    _fixed(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        50,
        "How many partitions __consumer_offsets gets when it is created.",
        Range(1),
    ),
    _fixed(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        1,
        "How many replicas __consumer_offsets gets when it is created. Kafka's default is 3.",
        Range(1),
    ),
    _fixed(
        "offsets.topic.segment.bytes",
        ConfigType.INT,
        100 << 20,
        "The segment size of __consumer_offsets, set when it is created.",
        Range(1),
    ),
)

_CONSUMER_GROUPS = (
    _fixed(
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "How long a member of a consumer group (KIP-848) may be silent before it is taken for lost.",
        Range(1),
    ),
    _fixed(
        "group.consumer.min.session.timeout.ms",
        ConfigType.INT,
        45_000,
        "The least that a group may have as consumer.session.timeout.ms.",
        Range(1),
    ),
    _fixed(
        "group.consumer.max.session.timeout.ms",
        ConfigType.INT,
        60_000,
        "The most that a group may have as consumer.session.timeout.ms.",
        Range(1),
    ),
    _fixed(
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        5_000,
        "How often the members of a consumer group are told to send a heartbeat.",
        Range(1),
    ),
    _fixed(
        "group.consumer.min.heartbeat.interval.ms",
        ConfigType.INT,
        5_000,
        "The least that a group may have as consumer.heartbeat.interval.ms.",
        Range(1),
    ),
    _fixed(
        "group.consumer.max.heartbeat.interval.ms",
        ConfigType.INT,
        15_000,
        "The most that a group may have as consumer.heartbeat.interval.ms.",
        Range(1),
    ),
    ConfigDefinition(
        "group.consumer.assignment.interval.ms",
        ConfigType.INT,
        0,
        "How long a consumer group waits at least between two assignments. Kafka's default is 1 s; on one broker a new "
        "member gets its partitions at once.",
        Range(0),
    ),
    _fixed(
        "group.consumer.min.assignment.interval.ms",
        ConfigType.INT,
        0,
        "The least that a group may have as consumer.assignment.interval.ms.",
        Range(0),
    ),
    _fixed(
        "group.consumer.max.assignment.interval.ms",
        ConfigType.INT,
        15_000,
        "The most that a group may have as consumer.assignment.interval.ms.",
        Range(0),
    ),
    _fixed(
        "group.consumer.max.size",
        ConfigType.INT,
        2**31 - 1,
        "How many members one consumer group may have.",
        Range(1),
    ),
    _fixed(
        "group.consumer.assignors",
        ConfigType.LIST,
        ("uniform", "range"),
        "The assignors that members of consumer groups may ask for; the first is the default. Empty: both.",
        ListOf(("uniform", "range")),
    ),
    _fixed(
        "group.consumer.migration.policy",
        ConfigType.STRING,
        "bidirectional",
        "Whether a group with members may go over to the consumer protocol (upgrade), back to the classic one "
        "(downgrade), both (bidirectional), or neither (disabled). Empty groups always may.",
        Choices(("bidirectional", "upgrade", "downgrade", "disabled")),
    ),
    _fixed(
        "group.consumer.regex.refresh.interval.ms",
        ConfigType.INT,
        600_000,
        "How long the topics that a subscribed expression matched are relied on while no topic comes or goes.",
        Range(10_000),
    ),
)

# Tools that move replicas set these for the time of the move, and unset them afterwards.
_THROTTLES = tuple(
    ConfigDefinition(name, ConfigType.LONG, None, documentation, Range(0), effective=False)
    for name, documentation in (
        (
            "leader.replication.throttled.rate",
            "The most bytes per second that leaders send to the replicas in leader.replication.throttled.replicas.",
        ),
        (
            "follower.replication.throttled.rate",
            "The most bytes per second that followers fetch for the replicas in "
            "follower.replication.throttled.replicas.",
        ),
        (
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "The most bytes per second that replicas are moved with from one log directory to another.",
        ),
    )
)

_RETENTION = Range(1, None, ((-1, "for no limit"),))

_LOGS = (
    _fixed(
        "log.retention.hours",
        ConfigType.INT,
        168,
        "How long records are kept, in hours, where neither log.retention.ms nor log.retention.minutes is set.",
        _RETENTION,
    ),
    _fixed(
        "log.retention.minutes",
        ConfigType.INT,
        None,
        "How long records are kept, in minutes, where log.retention.ms is not set.",
        _RETENTION,
    ),
    _fixed(
        "log.retention.check.interval.ms",
        ConfigType.LONG,
        300_000,
        "How often logs are checked for segments that retention may drop.",
        Range(1),
    ),
    _fixed(
        "log.roll.hours",
        ConfigType.INT,
        168,
        "The age in hours at which a segment is closed, where log.roll.ms is not set.",
        Range(1),
    ),
    _fixed(
        "log.roll.jitter.hours",
        ConfigType.INT,
        0,
        "The most taken off log.roll.hours at random, where log.roll.jitter.ms is not set.",
        Range(0),
    ),
    _fixed(
        "log.flush.scheduler.interval.ms",
        ConfigType.LONG,
        LONG_MAX,
        "How long a written record may wait before its log is forced to disk, where log.flush.interval.ms is not set.",
    ),
    _fixed(
        "log.flush.offset.checkpoint.interval.ms",
        ConfigType.INT,
        60_000,
        "How often the offsets up to which the logs are on disk are written to the recovery checkpoint.",
        Range(0),
    ),
    ConfigDefinition(
        "producer.id.expiration.ms",
        ConfigType.INT,
        86_400_000,
        "How long the state of an idempotent producer is remembered after its last batch.",
        Range(1),
    ),
)

# Kafka keeps these unset by default, so that the coarser keys above can speak.
_UNSET = {"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"}
# A topic may keep nothing (retention.ms=0); a whole broker that keeps nothing is a mistake, in Kafka too.
_LIMITS: dict[str, Validator] = {"log.retention.ms": _RETENTION}


def _behind_topics() -> tuple[ConfigDefinition, ...]:
    """The broker keys that set the defaults of topic keys: same type, limits and meaning."""
    return tuple(
        ConfigDefinition(
            name=topic.broker_synonym,
            type=topic.type,
            default=None if topic.broker_synonym in _UNSET else topic.default,
            documentation=f"The default of the topic config {topic.name}. {topic.documentation}",
            validator=_LIMITS.get(topic.broker_synonym, topic.validator),
            effective=topic.effective,
        )
        for topic in TOPIC_CONFIGS.values()
        if topic.broker_synonym is not None
    )


# Kafka resolves these from several keys, finest first; the factor turns the coarser unit into milliseconds.
FAMILIES: dict[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
}

BROKER_CONFIGS: dict[str, ConfigDefinition] = {
    definition.name: definition
    for definition in (
        *_IDENTITY,
        *_DOOR,
        *_QUOTAS,
        *_TOPICS,
        *_GROUPS,
        *_CONSUMER_GROUPS,
        *_THROTTLES,
        *_LOGS,
        *CLEANER_CONFIGS,
        *_behind_topics(),
    )
}
