"""Planning a read: which bytes of which segment answer a fetch. No record is opened, no batch is cut.

In: an offset and byte limits; out: a `ReadPlan` that can be carried to another thread and read there. A sequential
reader costs no search: where its last read ended is remembered, and where its next one ends comes from the index.
"""

from __future__ import annotations

import bisect
from struct import Struct
from typing import TYPE_CHECKING

from runnel.storage.files import File
from runnel.storage.scan import BATCH_LENGTH_MIN
from runnel.storage.segment import NEVER, Segment
from runnel.wire.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES
from runnel.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from runnel.storage.log import Log

HINTS_MAX = 32
"""Positions remembered per log: readers beyond that many pay an index search per fetch."""

_WALK = Struct(">qi11xi")  # base offset, length, ..., last offset delta
_UNKNOWN = -1


class ReadPlan:
    """Whole batches in one file. Holds the open file, so neither eviction nor deletion can pull it away."""

    __slots__ = ("_file", "_hints", "_next_offset", "_walk_from", "length", "position", "segment")

    def __init__(
        self,
        segment: Segment,
        position: int,
        length: int,
        next_offset: int,
        walk_from: int = 0,
        hints: dict[int, tuple[Segment, int]] | None = None,
    ) -> None:
        self.segment = segment
        self.position = position
        self.length = length
        self._file: File | None = segment.log.get() if length else None
        self._next_offset = next_offset
        self._walk_from = walk_from
        self._hints = hints

    @property
    def is_empty(self) -> bool:
        return self.length == 0

    @property
    def is_sealed(self) -> bool:
        """The segment is not the last one: there is more to read after it already."""
        return self.segment.end_offset != NEVER

    @property
    def next_offset(self) -> int:
        """Where the next fetch continues. Free after `read`; before it, this reads."""
        if self._next_offset == _UNKNOWN and self._file is not None:
            self.read()
        return self._next_offset

    def resident(self) -> bool:
        """Whether `read` would (probably) not wait for the disk: then it need not go to another thread."""
        return self._file is None or self._file.resident(self.position, self.length)

    def read(self) -> bytes:
        """The bytes, as they lie on disk. Thread safe."""
        if self._file is None:
            return b""
        data = self._file.read(self.position, self.length)
        if len(data) != self.length:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.segment.log.path} is shorter than it was")
        if self._next_offset == _UNKNOWN:
            return self._learn(data, self._walk_from)
        return data

    def _learn(self, data: bytes, at: int) -> bytes:
        """Walk the last few batches: the index says where they end, but not at which offset."""
        end, next_offset = _walk(data, at)
        if end != len(data):
            self.segment.suspect_indexes()
            end, next_offset = _walk(data, 0)
            data = data[:end]
            self.length = end
        if not data:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"no batch starts at {self.position} of the segment")
        self._next_offset = next_offset
        if self._hints is not None:
            self._hints[next_offset] = (self.segment, self.position + end)
        return data


def _walk(data: bytes, at: int) -> tuple[int, int]:
    """Where the last whole batch at or after `at` ends, in bytes and in offsets."""
    next_offset = _UNKNOWN
    while len(data) - at >= HEADER_BYTES:
        base_offset, length, delta = _WALK.unpack_from(data, at)
        if length < BATCH_LENGTH_MIN or at + length + LENGTH_PREFIX_BYTES > len(data):
            break
        at += length + LENGTH_PREFIX_BYTES
        next_offset = base_offset + delta + 1
    return at, next_offset


def make_room(hints: dict[int, tuple[Segment, int]]) -> None:
    if len(hints) > HINTS_MAX:
        for stale in list(hints)[: HINTS_MAX // 2]:
            hints.pop(stale, None)


def plan_read(log: Log, offset: int, max_bytes: int, end_offset_max: int, min_one: bool) -> ReadPlan:
    if not log.log_start_offset <= offset <= log.end_offset:
        raise Refusal(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside of {log.log_start_offset} to {log.end_offset}",
        )
    limit_offset = min(end_offset_max, log.end_offset)
    if offset >= limit_offset:
        return ReadPlan(log.active, 0, 0, offset)
    segment, position = _start(log, offset)
    limit, limit_offset = _limit(log, segment, limit_offset)
    if limit <= position:
        return ReadPlan(segment, 0, 0, offset)
    hints = log.hints
    make_room(hints)
    if limit - position <= max_bytes:
        hints[limit_offset] = (segment, limit)
        return ReadPlan(segment, position, limit - position, limit_offset)
    return _plan_window(log, segment, position, limit, max_bytes, min_one, offset)


def _start(log: Log, offset: int) -> tuple[Segment, int]:
    hint = log.hints.get(offset)
    if hint is not None and (hint[1] < hint[0].size_bytes or hint[0] is log.active):
        return hint
    number = bisect.bisect_right(log.segments, offset, key=_base_offset) - 1
    if hint is None:
        found = log.segments[number].locate(offset)
        if found is not None:
            return log.segments[number], found[0]
    if hint is None or log.segments[number] is hint[0]:
        number += 1  # the offset lies in a gap at the end of its segment
    # Else the hint was the end of the segment before. The next one that holds anything continues.
    for following in log.segments[number:]:
        if following.size_bytes or following is log.active:
            return following, 0
    return log.active, log.active.size_bytes


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _limit(log: Log, segment: Segment, limit_offset: int) -> tuple[int, int]:
    """Up to which position this segment may be read, and the offset that this position stands for."""
    if limit_offset >= segment.end_offset:
        return segment.size_bytes, segment.end_offset
    if segment is log.active and limit_offset == log.end_offset:
        return segment.size_bytes, limit_offset
    hint = log.hints.get(limit_offset)
    if hint is not None and hint[0] is segment:
        return hint[1], limit_offset
    found = segment.locate(limit_offset)
    limit = segment.size_bytes if found is None else found[0]
    log.hints[limit_offset] = (segment, limit)
    return limit, limit_offset


def _plan_window(
    log: Log, segment: Segment, position: int, limit: int, max_bytes: int, min_one: bool, offset: int
) -> ReadPlan:
    """More is there than is wanted: end at a batch that the index knows, or find the end by walking."""
    segment.load_indexes()
    floor = segment.index.by_position(position + max_bytes)
    if floor is not None and position < floor.entry[1] <= limit:
        walk_from = max(0, floor.previous[1] - position) if floor.previous else 0
        return ReadPlan(segment, position, floor.entry[1] - position, _UNKNOWN, walk_from, log.hints)
    end, next_offset = position, offset
    for at, header in segment.headers(position):
        following = at + header.batch_length + LENGTH_PREFIX_BYTES
        if following > limit or (following - position > max_bytes and not (min_one and at == position)):
            break
        end, next_offset = following, header.base_offset + header.last_offset_delta + 1
    if end > position:
        log.hints[next_offset] = (segment, end)
    return ReadPlan(segment, position, end - position, next_offset)
