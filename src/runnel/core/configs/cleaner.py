"""The broker configs of compaction, under Kafka's names and with Kafka's defaults. Data only."""

from runnel.core.configs.definitions import ConfigDefinition, ConfigType, Range

CLEANER_CONFIGS = (
    ConfigDefinition(
        "log.cleaner.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether compacted topics are compacted at all.",
        read_only=True,
    ),
    ConfigDefinition(
        "log.cleaner.threads",
        ConfigType.INT,
        1,
        "How many logs are compacted at once. Runnel compacts one at a time, in a process of its own.",
        Range(0),
        effective=False,
    ),
    ConfigDefinition(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        128 << 20,
        "The memory for the keys of one round of compaction; a log with more new keys takes several rounds. Runnel "
        "counts 176 bytes for a key (Kafka 24), and gives all of it back when there is nothing to compact.",
    ),
    ConfigDefinition(
        "log.cleaner.io.buffer.load.factor",
        ConfigType.DOUBLE,
        0.9,
        "The share of log.cleaner.dedupe.buffer.size that keys may fill.",
    ),
    ConfigDefinition(
        "log.cleaner.io.buffer.size",
        ConfigType.INT,
        512 << 10,
        "The memory for reading and writing during compaction. Runnel reads and writes 1 MiB at a time.",
        Range(0),
        effective=False,
    ),
    ConfigDefinition(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        1.7976931348623157e308,
        "The most bytes per second that compaction reads and writes, together. The default is no limit.",
    ),
    ConfigDefinition(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        15_000,
        "How long the cleaner waits when no log is to be compacted.",
        Range(0),
    ),
)
