"""Appending what producers send: check the batch header, append, then wait for what ``acks`` asks for.

Batches are opaque: only the 61-byte header and the CRC are looked at; those for compacted topics are opened too, since
every record needs a key there. Everything up to and including the append happens without a wait, so the order of
appends is the order of requests. What is awaited after it is only the disk.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from runnel.services.flusher import Flusher
from runnel.services.partition import Partition
from runnel.storage.errors import LogOffline
from runnel.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    read_header,
    set_log_append_time,
)
from runnel.wire.compression import Compression, decompress
from runnel.wire.errors import ErrorCode, Malformed, Refusal
from runnel.wire.record_keys import walk_records

ACKS = (0, 1, -1)
RECORD_BYTES_MIN = 14
"""Kafka's LegacyRecord.RECORD_OVERHEAD_V0: a smaller length is no batch of any magic."""
LONGEST_FLUSH_MS = 365 * 24 * 3600 * 1000
"""A longer flush.ms (Kafka's default is the largest long) means: leave it to the operating system."""


OPENED_BYTES_MAX = 32 << 20
OPENED_RECORDS_MAX = 200_000
"""The most that one batch for a compacted topic may hold when it is opened: everybody else waits for that."""
ERRORS_SHOWN = 3


class RecordsRefused(Refusal):
    """Some records of a batch are wrong: (number in the batch, message) of each. Nothing was appended."""

    def __init__(self, code: ErrorCode, record_errors: list[tuple[int, str]], log_start_offset: int) -> None:
        shown = ", ".join(f"RecordError(batchIndex={n}, message='{text}')" for n, text in record_errors[:ERRORS_SHOWN])
        super().__init__(
            code,
            f"One or more records have been rejected due to {len(record_errors)} record errors in total, and only "
            f"showing the first three errors at most: [{shown}]",
        )
        self.record_errors = record_errors
        self.log_start_offset = log_start_offset


class Appended(NamedTuple):
    """A batch that is in the log; ``durable`` is to be awaited before it may be acknowledged, where not None."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    durable: asyncio.Future[None] | None


class ProduceService:
    def __init__(self, flusher: Flusher) -> None:
        self._flusher = flusher

    def append(
        self, partition: Partition, records: memoryview | None, acks: int, zstd_allowed: bool, now_ms: int
    ) -> Appended:
        """Append one batch; raises Refusal for what the producer did wrong or the disk cannot do."""
        if not records:
            raise Refusal(ErrorCode.INVALID_RECORD, "the request carries no records for this partition")
        settings = partition.settings
        header = checked_header(records, settings.message_bytes_max, zstd_allowed)
        append_time_ms = -1
        if settings.log_append_time:
            append_time_ms = now_ms
            set_log_append_time(records, 0, now_ms)
            header = read_header(records)
        else:
            check_timestamps(header, partition, now_ms)
        if settings.keys_required:
            check_keys(records, header, partition)
        log = partition.log
        try:
            result = log.append(records, header, partition.leader_epoch, now_ms)
        except LogOffline as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if not result.duplicate:
            partition.appended(len(records))
        durable = None
        if (acks == -1 and settings.flush_on_acks_all) or log.unflushed_messages >= settings.flush_messages:
            durable = self._flusher.flushed(partition, result.last_offset + 1)
        elif settings.flush_ms < LONGEST_FLUSH_MS:
            self._flusher.sync_within(partition, settings.flush_ms)
        return Appended(result.base_offset, append_time_ms, log.log_start_offset, durable)


def checked_header(records: memoryview, size_max: int, zstd_allowed: bool) -> BatchHeader:
    """The header of the one batch that a partition's records must be; Refusal says what else they are."""
    if len(records) < HEADER_BYTES:
        raise _too_short(records)
    header = read_header(records)
    attributes = header.attributes
    size = header.batch_length + LENGTH_PREFIX_BYTES
    if size < RECORD_BYTES_MIN + LENGTH_PREFIX_BYTES or not 0 <= header.magic <= MAGIC:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes and magic {header.magic} is none")
    if header.magic != MAGIC:
        raise Refusal(ErrorCode.INVALID_RECORD, f"record batch has magic {header.magic}; only magic 2 is accepted")
    if size != len(records):
        raise _wrong_size(size, len(records))
    if size > size_max:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE, f"batch of {size} bytes exceeds max.message.bytes={size_max} of the topic"
        )
    if header.base_offset:
        raise Refusal(ErrorCode.INVALID_RECORD, f"the batch claims base offset {header.base_offset}; it must be 0")
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"batch counts {header.record_count} records but spans {header.last_offset_delta + 1} offsets",
        )
    if attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
        raise _not_for_clients(attributes)
    codec = attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD or (codec == Compression.ZSTD and not zstd_allowed):
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {codec} is not allowed in this version")
    if not check_crc(records, 0, header):
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the CRC of the record batch does not match its bytes")
    return header


def _too_short(records: memoryview) -> Refusal:
    """Too few bytes for a header. Kafka tells a length that cannot be from a batch that was cut short."""
    length = int.from_bytes(records[8:LENGTH_PREFIX_BYTES], "big", signed=True)
    if len(records) >= LENGTH_PREFIX_BYTES and length < RECORD_BYTES_MIN:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"batch declares {length} bytes, less than any record has")
    return Refusal(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are too few for a record batch")


def _wrong_size(declared: int, actual: int) -> Refusal:
    if declared < actual:
        return Refusal(ErrorCode.INVALID_RECORD, "a produce request carries exactly one batch per partition")
    return Refusal(ErrorCode.INVALID_RECORD, f"batch declares {declared} bytes but {actual} arrived")


def _not_for_clients(attributes: int) -> Refusal:
    if attributes & CONTROL_BIT:
        return Refusal(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    return Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not built yet (docs/limits.md)")


def check_timestamps(header: BatchHeader, partition: Partition, now_ms: int) -> None:
    settings = partition.settings
    newest = header.max_timestamp
    if newest - now_ms > settings.timestamp_after_ms_max:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {newest} is more than message.timestamp.after.max.ms="
            f"{settings.timestamp_after_ms_max} ahead of the broker's clock {now_ms}",
        )
    oldest = header.base_timestamp
    if oldest >= 0 and now_ms - oldest > settings.timestamp_before_ms_max:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {oldest} is more than message.timestamp.before.max.ms="
            f"{settings.timestamp_before_ms_max} behind the broker's clock {now_ms}",
        )


def check_keys(records: memoryview, header: BatchHeader, partition: Partition) -> None:
    """Compaction goes by keys: as in Kafka, a batch with a record that has none is refused whole."""
    if header.record_count > OPENED_RECORDS_MAX:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"a batch for a compacted topic may have {OPENED_RECORDS_MAX} records, not {header.record_count}",
        )
    try:
        data = decompress(header.compression, records[HEADER_BYTES:], OPENED_BYTES_MAX)
        keys = walk_records(data, 0, len(data), header.record_count, bytes).keys
    except Malformed as error:
        raise Refusal(ErrorCode.INVALID_RECORD, f"the records of the batch cannot be read: {error}") from error
    if None in keys:
        name = f"{partition.topic}-{partition.index}"
        message = f"Compacted topic cannot accept message without key in topic partition {name}"
        missing = [(number, message) for number, key in enumerate(keys) if key is None]
        raise RecordsRefused(ErrorCode.INVALID_RECORD, missing, partition.log.log_start_offset)
