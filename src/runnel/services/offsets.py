"""Finding offsets: the ends of a log, the first record at or after a time, the end of a leader epoch."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from runnel.services.partition import Partition
from runnel.storage.errors import LogOffline
from runnel.wire.errors import ErrorCode, Malformed, Refusal

# ListOffsets writes these in place of a timestamp.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # KIP-734
EARLIEST_LOCAL = -4  # KIP-405
LATEST_TIERED = -5  # KIP-1005
EARLIEST_PENDING_UPLOAD = -6  # KIP-1023


class FoundOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = FoundOffset(-1, -1, -1)


class OffsetService:
    async def at(self, partition: Partition, timestamp: int) -> FoundOffset:
        """The offset that a ListOffsets timestamp (or special value) stands for."""
        log = partition.log
        if timestamp == LATEST:
            return FoundOffset(-1, partition.high_watermark, partition.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(-1, log.log_start_offset, epoch_at(partition, log.log_start_offset))
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return NOTHING
        if timestamp < 0 and timestamp != MAX_TIMESTAMP:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"{timestamp} stands for no offset that is known here")
        return await self._search(partition, timestamp)

    async def _search(self, partition: Partition, timestamp: int) -> FoundOffset:
        """Reads index and one batch from disk, so it runs in a thread."""
        log = partition.log
        loop = asyncio.get_running_loop()
        try:
            for segment in log.segments:
                segment.load_indexes()  # here, since rebuilding one beside a reader on the loop would mislead it
            if timestamp == MAX_TIMESTAMP:
                found = await loop.run_in_executor(None, log.max_timestamp_offset)
            else:
                found = await loop.run_in_executor(None, log.offset_for_timestamp, timestamp)
        except (LogOffline, OSError) as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except Malformed as error:  # batches are stored unopened: this one cannot be read by anybody
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"a stored batch cannot be decoded: {error}") from error
        if found is None or found[1] >= partition.high_watermark:
            return NOTHING
        return FoundOffset(*found)


def epoch_at(partition: Partition, offset: int) -> int:
    """The leader epoch that wrote, or will write, this offset."""
    before = [epoch for epoch, start_offset in partition.log.epochs.entries if start_offset <= offset]
    return before[-1] if before else partition.leader_epoch
