"""The options of `format("runnel")` as a source: those of Spark's Kafka connector, with their precedence and checks.

In: options as Spark hands them over (names in any case). Out: `SourceOptions`, or OptionError with the cure. Ours, on
top of the connector's: `commitOffsets`, `runnel.data.dir`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from runnel.client.metadata import TopicPartition
from runnel.spark.errors import OptionError
from runnel.spark.kafka_options import (
    INT64_MAX,
    REFUSED_IN_SOURCE,
    BrokerSettings,
    FetchSettings,
    broker_settings,
    fetch_settings,
    kafka_settings,
    refuse,
    truth,
    whole_number,
)
from runnel.spark.positions import (
    EARLIEST,
    LATEST,
    OFFSETS_EXAMPLE,
    TIMESTAMPS_EXAMPLE,
    Offsets,
    parse_offsets,
    parse_partitions,
)

GROUP_PREFIX = "spark-runnel"
STRATEGIES = ("subscribe", "subscribePattern", "assign")
KNOWN = (
    *STRATEGIES,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
    "commitOffsets",
    "runnel.data.dir",
)
_MISSPELT_RATIO = 0.85
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_DURATION_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Subscribe:
    topics: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.topics)


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    pattern: str

    def __str__(self) -> str:
        return self.pattern


@dataclass(frozen=True, slots=True)
class Assign:
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return ",".join(dict.fromkeys(target.topic for target in self.partitions))


Strategy: TypeAlias = Subscribe | SubscribePattern | Assign


class NoMatch(Enum):
    """What a starting timestamp after the last record means."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Edge:
    """EARLIEST or LATEST, of every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    timestamps_ms: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """One moment for all partitions."""

    timestamp_ms: int


Limit: TypeAlias = Edge | AtOffsets | AtTimestamps | AtTimestamp


@dataclass(frozen=True, slots=True)
class SourceOptions:
    strategy: Strategy
    brokers: BrokerSettings
    fetch: FetchSettings
    starting: Limit | None
    ending: Limit | None
    no_match: NoMatch
    fail_on_data_loss: bool
    poll_timeout_ms: int
    offset_attempts: int
    offset_retry_ms: int
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_max_ms: int
    partitions_min: int | None
    records_per_partition_max: int | None
    include_headers: bool
    group_id: str | None
    """Where progress is committed; None where that is switched off."""
    group_id_is_custom: bool
    data_dir: str | None


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """What holds for batch and stream alike; see `batch_limits` and `check_stream` for the rest."""
    given = {name.lower(): value for name, value in options.items()}
    _find_misspelt(given)
    kafka = kafka_settings(given)
    strategy = _strategy(given)
    refuse(kafka, REFUSED_IN_SOURCE)
    least, most = _optional(given, "minOffsetsPerTrigger"), _optional(given, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    return SourceOptions(
        strategy=strategy,
        brokers=broker_settings(kafka),
        fetch=fetch_settings(kafka),
        starting=_limit(given, "starting"),
        ending=_limit(given, "ending"),
        no_match=_no_match(given),
        fail_on_data_loss=truth(given, "failondataloss", True, prefix=""),
        poll_timeout_ms=_number(given, "kafkaConsumer.pollTimeoutMs", 120_000, 1),
        offset_attempts=_number(given, "fetchOffset.numRetries", 3, 1),
        offset_retry_ms=_number(given, "fetchOffset.retryIntervalMs", 10, 0),
        offsets_per_trigger_max=most,
        offsets_per_trigger_min=least,
        trigger_delay_max_ms=_duration_ms(given.get("maxtriggerdelay", "15m")),
        partitions_min=_optional(given, "minPartitions"),
        records_per_partition_max=_optional(given, "maxRecordsPerPartition"),
        include_headers=truth(given, "includeheaders", False, prefix=""),
        group_id=_group_id(given, kafka, strategy),
        group_id_is_custom="group.id" in kafka,
        data_dir=given.get("runnel.data.dir", "").strip() or None,
    )


def stands_for(limit: Limit, target: TopicPartition, edge: int) -> bool:
    """Whether a limit means EARLIEST, or LATEST, for this partition, wherever that is when it is looked up."""
    if isinstance(limit, AtOffsets):
        return limit.offsets.get(target) == edge
    return limit == Edge(edge)


def batch_limits(options: SourceOptions) -> tuple[Limit, Limit]:
    """Where a batch query starts and ends, by default at the edges of what is there."""
    starting, ending = options.starting or Edge(EARLIEST), options.ending or Edge(LATEST)
    _not_at(starting, LATEST, "startingOffsets", "latest")
    _not_at(ending, EARLIEST, "endingOffsets", "earliest")
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _in_order(starting.offsets, ending.offsets, "Offsets")
    if isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        _in_order(starting.timestamps_ms, ending.timestamps_ms, "OffsetsByTimestamp")
    return starting, ending


def stream_start(options: SourceOptions) -> Limit:
    if options.ending is not None:
        raise OptionError(
            "a streaming query has no end: remove the ending... option, or read all that is there now with "
            "trigger(availableNow=True)"
        )
    return options.starting or Edge(LATEST)


def _not_at(limit: Limit, edge: int, option: str, name: str) -> None:
    if limit == Edge(edge):
        raise OptionError(f"option {option} cannot be {name} in a batch query: nothing would be read")
    if isinstance(limit, AtOffsets):
        for target, offset in limit.offsets.items():
            if offset == edge:
                raise OptionError(f"option {option} cannot be {edge} ({name}) for {target} in a batch query")


def _in_order(starts: Offsets, ends: Offsets, suffix: str) -> None:
    if starts.keys() != ends.keys():
        raise OptionError(
            f"options starting{suffix} and ending{suffix} name different partitions: "
            f"{_names(starts)} and {_names(ends)}"
        )
    for target, start in starts.items():
        if 0 <= ends[target] < start:
            raise OptionError(f"option starting{suffix} of {target} ({start}) lies after its end ({ends[target]})")


def _names(offsets: Offsets) -> str:
    return ", ".join(str(target) for target in sorted(offsets)) or "none"


def _strategy(given: Mapping[str, str]) -> Strategy:
    named = [name for name in STRATEGIES if name.lower() in given]
    if len(named) != 1:
        why = f"{' and '.join(named)} are given" if named else "none is given"
        raise OptionError(f"exactly one of the options {', '.join(STRATEGIES)} says what to read: {why}")
    value = given[named[0].lower()].strip()
    if named[0] == "assign":
        return Assign(parse_partitions("assign", value))
    if named[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic: write e.g. orders,payments")
        return Subscribe(topics)
    try:
        re.compile(value)
    except re.error as error:
        raise OptionError(f"option subscribePattern is no regular expression ({error}): {value}") from error
    if not value:
        raise OptionError("option subscribePattern is empty: write a regular expression, e.g. ^orders-.*")
    return SubscribePattern(value)


def _limit(given: Mapping[str, str], side: str) -> Limit | None:
    """The most exact of the three options wins: a timestamp, timestamps by partition, offsets."""
    timestamp, by_timestamp, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if timestamp.lower() in given:
        text = given[timestamp.lower()].strip()
        if not text.isdecimal() or int(text) > INT64_MAX:  # below 0 they are codes of the protocol
            raise OptionError(f"option {timestamp} is '{text}': write milliseconds since 1970")
        return AtTimestamp(int(text))
    if by_timestamp.lower() in given:
        timestamps = parse_offsets(by_timestamp, given[by_timestamp.lower()], TIMESTAMPS_EXAMPLE)
        for target, number in timestamps.items():
            if number < 0:
                raise OptionError(f"option {by_timestamp} is {number} for {target}: write milliseconds since 1970")
        return AtTimestamps(timestamps)
    if offsets.lower() not in given:
        return None
    text = given[offsets.lower()].strip()
    edges = {"latest": Edge(LATEST), "earliest": Edge(EARLIEST)}
    return edges.get(text.lower()) or AtOffsets(parse_offsets(offsets, text, f"latest, earliest or {OFFSETS_EXAMPLE}"))


def _no_match(given: Mapping[str, str]) -> NoMatch:
    text = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    try:
        return NoMatch(text)
    except ValueError:
        raise OptionError(f"option startingOffsetsByTimestampStrategy is '{text}': write error or latest") from None


def _group_id(given: Mapping[str, str], kafka: Mapping[str, str], strategy: Strategy) -> str | None:
    if not truth(given, "commitoffsets", True, prefix=""):
        return None
    # Named after what it reads, so that a restarted query goes on with the group that its operators watch.
    return kafka.get("group.id") or f"{given.get('groupidprefix', GROUP_PREFIX)}-{strategy}"


def _optional(given: Mapping[str, str], name: str) -> int | None:
    return _number(given, name, 0, 1) if name.lower() in given else None


def _number(given: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = given.get(name.lower())
    return whole_number({} if text is None else {name: text}, name, default, least=least, most=INT64_MAX, prefix="")


def _duration_ms(text: str) -> int:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found.group(2) not in _DURATION_MS:
        raise OptionError(f"option maxTriggerDelay is '{text}': write e.g. 500ms, 30s, 15m, 1h")
    return int(found.group(1)) * _DURATION_MS[found.group(2)]


def _find_misspelt(given: Mapping[str, str]) -> None:
    """Spark ignores what it does not know; a name that is nearly one of ours is a mistake worth stopping for."""
    known = {name.lower(): name for name in KNOWN}
    for name in given:
        if name in known or name.startswith("kafka."):
            continue
        for close in difflib.get_close_matches(name, known, 1, _MISSPELT_RATIO):
            raise OptionError(f"there is no option '{name}': did you mean {known[close]}?")
