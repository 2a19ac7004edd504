"""Every topic config of Apache Kafka 4.3, with Kafka's default, type, limits and broker synonym, and one of
our own.

Data only. `effective=False` marks what is accepted, stored and shown but changes nothing yet; docs/configuration.md
marks the same keys. A test compares this table with a running Apache Kafka.
"""

from runnel.core.configs.definitions import (
    LONG_MAX,
    Choices,
    ConfigDefinition,
    ConfigType,
    ListOf,
    Range,
    ReplicaList,
)

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

NO_LIMIT = (-1, "for no limit")
COMPRESSION_TYPES = Choices(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
GZIP_LEVELS = Range(1, 9, ((-1, "for the codec's own default"),))
LZ4_LEVELS = Range(1, 17)
ZSTD_LEVELS = Range(-131072, 22)
CLEANUP_POLICIES = ListOf(("compact", "delete"))
TIMESTAMP_TYPES = Choices(("CreateTime", "LogAppendTime"))
FOLLOW_RETENTION_MS = Range(-1, None, ((-2, "to follow retention.ms"),))
FOLLOW_RETENTION_BYTES = Range(-1, None, ((-2, "to follow retention.bytes"),))

_DEFINITIONS = (
    # ------------------------------------------------------------------ what is kept, and for how long
    ConfigDefinition(
        "cleanup.policy",
        ConfigType.LIST,
        ("delete",),
        "What happens to old segments: 'delete' drops them when the retention limits say so, 'compact' keeps the "
        "newest value of each key; both may be given, and an empty list keeps everything.",
        CLEANUP_POLICIES,
        "log.cleanup.policy",
    ),
    ConfigDefinition(
        "retention.ms",
        ConfigType.LONG,
        7 * _DAY_MS,
        "How long records are kept, in milliseconds, where cleanup.policy has 'delete'; a segment is dropped when its "
        "newest record is older. -1 sets no limit of time.",
        Range(0, None, (NO_LIMIT,)),
        "log.retention.ms",
    ),
    ConfigDefinition(
        "retention.bytes",
        ConfigType.LONG,
        -1,
        "How many bytes one partition may hold before its oldest segments are dropped, where cleanup.policy has "
        "'delete'. -1 sets no limit of size.",
        None,
        "log.retention.bytes",
    ),
    ConfigDefinition(
        "local.retention.ms",
        ConfigType.LONG,
        -2,
        "With tiered storage, how long a segment stays on the local disk after it was copied to the remote tier; -2 "
        "follows retention.ms.",
        FOLLOW_RETENTION_MS,
        "log.local.retention.ms",
        effective=False,
    ),
    ConfigDefinition(
        "local.retention.bytes",
        ConfigType.LONG,
        -2,
        "With tiered storage, how many bytes of one partition stay on the local disk; -2 follows retention.bytes.",
        FOLLOW_RETENTION_BYTES,
        "log.local.retention.bytes",
        effective=False,
    ),
    ConfigDefinition(
        "file.delete.delay.ms",
        ConfigType.LONG,
        60_000,
        "How long a file that was dropped from the log stays on disk, renamed, before it is removed.",
        Range(0),
        "log.segment.delete.delay.ms",
        effective=False,
    ),
    # ------------------------------------------------------------------ segments and indexes
    ConfigDefinition(
        "segment.bytes",
        ConfigType.INT,
        1 << 30,
        "The size at which a segment file is closed and the next one begins. Retention drops whole segments, so "
        "smaller ones follow the limits more closely.",
        Range(1 << 20),
        "log.segment.bytes",
    ),
    ConfigDefinition(
        "segment.ms",
        ConfigType.LONG,
        7 * _DAY_MS,
        "The age at which a segment is closed though it is not full, so that retention can reach quiet topics.",
        Range(1),
        "log.roll.ms",
    ),
    ConfigDefinition(
        "segment.jitter.ms",
        ConfigType.LONG,
        0,
        "The most that is taken off segment.ms at random, so that many partitions do not roll in the same moment.",
        Range(0),
        "log.roll.jitter.ms",
    ),
    ConfigDefinition(
        "segment.index.bytes",
        ConfigType.INT,
        10 << 20,
        "The largest size of a segment's offset index; a full index closes the segment. Runnel does not preallocate "
        "it.",
        Range(4),
        "log.index.size.max.bytes",
    ),
    ConfigDefinition(
        "index.interval.bytes",
        ConfigType.INT,
        4096,
        "About how many bytes of log lie between two entries of the offset index; less gives finer jumps and larger "
        "index files.",
        Range(0),
        "log.index.interval.bytes",
    ),
    ConfigDefinition(
        "preallocate",
        ConfigType.BOOLEAN,
        False,
        "Whether to reserve the whole file on disk when a segment begins. Runnel never reserves.",
        None,
        "log.preallocate",
        effective=False,
    ),
    # ------------------------------------------------------------------ durability
    ConfigDefinition(
        "acks.all.flush",
        ConfigType.BOOLEAN,
        True,
        "Runnel's own: true answers acks=all after an fsync that all waiting writers share; false answers after the "
        "write, as Apache Kafka does, and leaves the fsync to flush.messages, flush.ms and the operating system.",
        None,
        "acks.all.flush",
    ),
    ConfigDefinition(
        "flush.messages",
        ConfigType.LONG,
        LONG_MAX,
        "How many records may be written before the log is forced to disk; 1 forces it after each batch.",
        Range(1),
        "log.flush.interval.messages",
    ),
    ConfigDefinition(
        "flush.ms",
        ConfigType.LONG,
        LONG_MAX,
        "How long a written record may wait before the log is forced to disk.",
        Range(0),
        "log.flush.interval.ms",
    ),
    ConfigDefinition(
        "min.insync.replicas",
        ConfigType.INT,
        1,
        "How many replicas, the leader included, must be in sync before a write with acks=all is accepted; with fewer "
        "the producer gets NOT_ENOUGH_REPLICAS.",
        Range(1),
        "min.insync.replicas",
        effective=False,
    ),
    ConfigDefinition(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader when no other is left, at the price of losing "
        "records.",
        None,
        "unclean.leader.election.enable",
        effective=False,
    ),
    # ------------------------------------------------------------------ records
    ConfigDefinition(
        "max.message.bytes",
        ConfigType.INT,
        1_048_588,
        "The largest record batch that a producer may send, as it travels, compressed.",
        Range(0),
        "message.max.bytes",
    ),
    ConfigDefinition(
        "message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "Whether a record keeps the time its producer gave it (CreateTime) or gets the time of its append "
        "(LogAppendTime).",
        TIMESTAMP_TYPES,
        "log.message.timestamp.type",
    ),
    ConfigDefinition(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        LONG_MAX,
        "With CreateTime, how far a record's timestamp may lie behind the broker's clock before it is refused.",
        Range(0),
        "log.message.timestamp.before.max.ms",
    ),
    ConfigDefinition(
        "message.timestamp.after.max.ms",
        ConfigType.LONG,
        _HOUR_MS,
        "With CreateTime, how far a record's timestamp may lie ahead of the broker's clock before it is refused.",
        Range(0),
        "log.message.timestamp.after.max.ms",
    ),
    ConfigDefinition(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "The codec that batches are stored with. 'producer' keeps what the producer chose; Runnel stores every batch "
        "as it came, whatever is set here.",
        COMPRESSION_TYPES,
        "compression.type",
        effective=False,
    ),
    ConfigDefinition(
        "compression.gzip.level",
        ConfigType.INT,
        -1,
        "The level used where the broker itself compresses with gzip.",
        GZIP_LEVELS,
        "compression.gzip.level",
        effective=False,
    ),
    ConfigDefinition(
        "compression.lz4.level",
        ConfigType.INT,
        9,
        "The level used where the broker itself compresses with lz4.",
        LZ4_LEVELS,
        "compression.lz4.level",
        effective=False,
    ),
    ConfigDefinition(
        "compression.zstd.level",
        ConfigType.INT,
        3,
        "The level used where the broker itself compresses with zstd.",
        ZSTD_LEVELS,
        "compression.zstd.level",
        effective=False,
    ),
    # ------------------------------------------------------------------ compaction
    ConfigDefinition(
        "delete.retention.ms",
        ConfigType.LONG,
        _DAY_MS,
        "On a compacted topic, how long a tombstone stays readable after compaction met it, so that a reader who "
        "began at the start can still see the deletion.",
        Range(0),
        "log.cleaner.delete.retention.ms",
    ),
    ConfigDefinition(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        0.5,
        "On a compacted topic, the share of the log that must be new since the last pass before it is compacted again.",
        Range(0, 1),
        "log.cleaner.min.cleanable.ratio",
    ),
    ConfigDefinition(
        "min.compaction.lag.ms",
        ConfigType.LONG,
        0,
        "On a compacted topic, how long a record is safe from compaction after it was written.",
        Range(0),
        "log.cleaner.min.compaction.lag.ms",
    ),
    ConfigDefinition(
        "max.compaction.lag.ms",
        ConfigType.LONG,
        LONG_MAX,
        "On a compacted topic, how long a record may stay out of reach of compaction.",
        Range(1),
        "log.cleaner.max.compaction.lag.ms",
    ),
    # ------------------------------------------------------------------ replication throttles and tiers
    ConfigDefinition(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        (),
        "The replicas whose outgoing replication is throttled on the leader, as partition:broker pairs, or * for all.",
        ReplicaList(),
        effective=False,
    ),
    ConfigDefinition(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        (),
        "The replicas whose incoming replication is throttled on the follower, as partition:broker pairs, or * for "
        "all.",
        ReplicaList(),
        effective=False,
    ),
    ConfigDefinition(
        "remote.storage.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether closed segments of this topic are copied to a remote tier.",
        effective=False,
    ),
    ConfigDefinition(
        "remote.log.copy.disable",
        ConfigType.BOOLEAN,
        False,
        "With tiered storage, true stops further copies and leaves what is already in the remote tier readable.",
        effective=False,
    ),
    ConfigDefinition(
        "remote.log.delete.on.disable",
        ConfigType.BOOLEAN,
        False,
        "Whether the remote copies are deleted when tiered storage is switched off for the topic.",
        effective=False,
    ),
)

TOPIC_CONFIGS: dict[str, ConfigDefinition] = {definition.name: definition for definition in _DEFINITIONS}
