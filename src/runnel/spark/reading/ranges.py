"""The values of reading: offset ranges of partitions, and pieces of them as they arrive.

Owns: `OffsetRange`, `Piece`, `Missing` (what to do about records that are gone). All travel from driver to executor.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runnel.client.metadata import TopicPartition
from runnel.spark.errors import DataLoss
from runnel.wire.types import ZERO_UUID

if TYPE_CHECKING:
    from runnel.spark.decode.chunk import Chunk

log = logging.getLogger("runnel.spark")


class OffsetRange(NamedTuple):
    """Records of one partition from `start` to before `until`. The topic id tells a topic from its namesakes."""

    target: TopicPartition
    start: int
    until: int
    topic_id: uuid.UUID = ZERO_UUID
    log_start: int = 0
    """The first offset that is not deleted, as the driver saw it; asked for only where files are to be read."""
    from_earliest: bool = False
    """Whether it begins with the oldest record, whichever that is when it is read: one that has expired by then is not
    missed."""

    @property
    def size(self) -> int:
        return self.until - self.start

    def part(self, start: int, until: int) -> OffsetRange:
        return self._replace(start=start, until=until, from_earliest=self.from_earliest and start == self.start)


class Piece(NamedTuple):
    """Batches of one partition; of their records those between the two offsets are wanted."""

    target: TopicPartition
    chunk: Chunk
    first_offset: int
    until_offset: int
    aborted: Sequence[tuple[int, int]] | None


@dataclass(frozen=True, slots=True)
class Missing:
    """What becomes of a query whose records are gone."""

    fail: bool

    def report(self, condition: str, reason: str) -> None:
        """Raises where the query is to fail; else the loss is logged, and the caller goes on without."""
        loss = DataLoss(condition, reason)
        if self.fail:
            raise loss
        log.warning("%s (failOnDataLoss is false: going on without)", reason)
