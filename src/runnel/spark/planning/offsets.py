"""What brokers know that a plan needs: the partitions of a subscription, and the offsets that limits stand for.

In: `SourceOptions`. Out: offsets by partition. A question that fails for a passing reason (a partition without leader)
is asked again for as long as the cluster's patience lasts; then, and where a topic is unknown, fetchOffset.numRetries
times.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from runnel.client.errors import ClientError, refused
from runnel.client.metadata import TopicPartition, TopicView
from runnel.spark.brokers.cluster import Cluster, Patience
from runnel.spark.brokers.offsets import list_offsets
from runnel.spark.errors import OptionError
from runnel.spark.positions import EARLIEST, LATEST, Offsets
from runnel.spark.reading.ranges import OffsetRange
from runnel.spark.source_options import (
    Assign,
    AtOffsets,
    AtTimestamps,
    Edge,
    Limit,
    NoMatch,
    SourceOptions,
    Subscribe,
)
from runnel.wire.errors import ErrorCode
from runnel.wire.types import ZERO_UUID

NOT_FOUND = -1
# Waiting does not bring a deleted topic back: it is to be reported at once.
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
Answer = TypeVar("Answer")


class OffsetReader:
    """Asks the cluster on behalf of one query."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self.cluster = cluster
        self._options = options

    # Partitions -------------------------------------------------------------------------------------------------

    def partitions(self) -> set[TopicPartition]:
        """All partitions that the query reads now. Internal topics are never read, as in Spark's connector."""
        return self._try(self._partitions)

    def _partitions(self) -> set[TopicPartition]:
        strategy = self._options.strategy
        if isinstance(strategy, Subscribe):
            return self._of_topics(strategy.topics)
        if isinstance(strategy, Assign):
            return self._of_topics({target.topic for target in strategy.partitions}) & set(strategy.partitions)
        topics = self.cluster.refresh(None).topics.values()
        # Anywhere in the name, as Spark's connector has it; anchor the pattern to match whole names.
        return _targets(topic for topic in topics if re.search(strategy.pattern, topic.name))

    def _of_topics(self, names: Collection[str]) -> set[TopicPartition]:
        topics = self.cluster.refresh(sorted(names)).topics
        for name in names:
            if topics[name].error_code:
                raise refused(topics[name].error_code, f"topic '{name}'")
        return _targets(topics.values())

    def ranges(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        log_starts = {} if self._options.data_dir is None else self.earliest(ends)
        topics = self.cluster.view.topics
        return [
            OffsetRange(
                target,
                starts[target],
                end,
                topics[target.topic].topic_id if target.topic in topics else ZERO_UUID,
                log_starts.get(target, 0),
            )
            for target, end in ends.items()
            if target in starts
        ]

    # Offsets ----------------------------------------------------------------------------------------------------

    def earliest(self, targets: Collection[TopicPartition]) -> Offsets:
        """The first offsets of those of the partitions that (still) exist."""
        return self._try(lambda: self._at(dict.fromkeys(self._partitions() & set(targets), EARLIEST)))

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """The end of every partition. One that lies before a `known` offset is asked for again: it may be stale."""
        found = self._try(lambda: self._at(dict.fromkeys(self._partitions(), LATEST)))
        for _ in range(self._options.offset_attempts - 1):
            if all(found[target] >= offset for target, offset in (known or {}).items() if target in found):
                break
            time.sleep(self._options.offset_retry_ms / 1000)
            found = self._try(lambda: self._at(dict.fromkeys(self._partitions(), LATEST)))
        return found

    def resolve(self, limit: Limit, *, starting: bool, ends: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """The offsets that a limit stands for now. Where a timestamp means "at the end", that is none after `ends`."""
        return self._try(lambda: self._resolve(limit, starting, ends or {}))

    def _resolve(self, limit: Limit, starting: bool, ends: Mapping[TopicPartition, int]) -> Offsets:
        targets = self._partitions()
        if isinstance(limit, Edge):
            return self._at(dict.fromkeys(targets, limit.offset))
        if isinstance(limit, AtOffsets):
            _check_all_named(limit.offsets, targets, "Offsets", starting)
            edges = {target: offset for target, offset in limit.offsets.items() if offset in (LATEST, EARLIEST)}
            return {**limit.offsets, **self._at(edges)}
        if isinstance(limit, AtTimestamps):
            _check_all_named(limit.timestamps_ms, targets, "OffsetsByTimestamp", starting)
            return self._at_timestamps(limit.timestamps_ms, starting, ends)
        return self._at_timestamps(dict.fromkeys(targets, limit.timestamp_ms), starting, ends)

    def _at_timestamps(
        self, timestamps: Mapping[TopicPartition, int], starting: bool, ends: Mapping[TopicPartition, int]
    ) -> Offsets:
        found = self._at(timestamps)
        after_all = [target for target, offset in sorted(found.items()) if offset == NOT_FOUND]
        if after_all and starting and self._options.no_match is NoMatch.ERROR:
            target = after_all[0]
            raise OptionError(
                f"no record of {target} is as late as timestamp {timestamps[target]}: set the option "
                "startingOffsetsByTimestampStrategy to latest to begin at the end there"
            )
        latest = self._at(dict.fromkeys(after_all, LATEST))
        # Records may have been written since the ends were asked for.
        return {**found, **{target: min(offset, ends.get(target, offset)) for target, offset in latest.items()}}

    def _at(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Of partitions that the metadata has just named: a leader that does not know one has not heard of it yet."""
        try:
            return list_offsets(self.cluster, wanted, self._options.fetch.isolation, patience_s=0)
        except ClientError as error:
            if error.code not in _GONE:
                raise
            raise ClientError(error.message, code=ErrorCode.LEADER_NOT_AVAILABLE) from error

    def _try(self, ask: Callable[[], Answer]) -> Answer:
        patience = Patience(self.cluster.settings.patience_s)
        attempts_left = self._options.offset_attempts
        while True:
            try:
                return ask()
            except ClientError as error:
                if not error.retriable:
                    raise
                is_lost = error.code is ErrorCode.NETWORK_EXCEPTION
                if is_lost:
                    self.cluster.close()
                if error.code not in _GONE and patience.wait():
                    continue
                if is_lost:
                    raise  # to ask again would be to wait as long again for a broker that is not there
                attempts_left -= 1
                if not attempts_left:
                    raise
                time.sleep(self._options.offset_retry_ms / 1000)


def _targets(topics: Iterable[TopicView]) -> set[TopicPartition]:
    return {
        TopicPartition(topic.name, partition.index)
        for topic in topics
        if not topic.internal
        for partition in topic.partitions
    }


def _check_all_named(
    named: Mapping[TopicPartition, int], targets: Collection[TopicPartition], suffix: str, starting: bool
) -> None:
    if named.keys() == set(targets):
        return
    option = f"{'starting' if starting else 'ending'}{suffix}"
    given, there = (", ".join(map(str, sorted(each))) or "none" for each in (named, targets))
    raise OptionError(
        f"option {option} must name every partition that is read: it names {given}; there are {there}. "
        "Write -1 for latest and -2 for earliest"
    )
