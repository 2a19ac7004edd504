"""Record batches of magic 2: the 61-byte header, its CRC, and (where a feature needs it) the records inside.

In: a buffer that holds batches as they travel and lie on disk; out: `BatchHeader`, `Record`, or a new batch.
The broker's hot path uses only the header half: read it, check the CRC, patch base offset and leader epoch in
place (both lie outside the CRC). Records are opened by compaction, timestamp lookups, gateways and clients.

    base_offset i64 | batch_length i32 | leader_epoch i32 | magic i8 | crc u32 | attributes i16 |
    last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 | producer_id i64 | producer_epoch i16 |
    base_sequence i32 | record_count i32 | records ...        (the CRC covers attributes to the end)
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""Base offset and batch_length: what comes before the bytes that batch_length counts."""
MAGIC = 2

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH = Struct(">qi")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
_CRC_FROM = 21
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_SEQUENCE_MASK = 0x7FFF_FFFF


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2**31 - 1 to 0. -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0


def read_header(buffer: ReadBuffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Only that it is there is checked, not what it says."""
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        raise Malformed("a record batch is shorter than its header")
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def check_crc(buffer: ReadBuffer, position: int, header: BatchHeader) -> bool:
    """Whether the CRC-32C over everything after the crc field is the header's; False if bytes are missing."""
    end = position + header.batch_length + LENGTH_PREFIX_BYTES
    if header.batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES or end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + _CRC_FROM : end]) == header.crc


def assign(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log. Both fields lie outside the CRC, by design of the format."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, position: int, now_ms: int) -> None:
    """Stamp the batch with the broker's time: attribute bit, max timestamp, new CRC; no record is touched."""
    (batch_length,) = _LEADER_EPOCH.unpack_from(buffer, position + 8)
    end = position + batch_length + LENGTH_PREFIX_BYTES
    if batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES or end > len(buffer):
        raise Malformed("a record batch is shorter than its length says")
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, now_ms)
    with memoryview(buffer) as view:
        _CRC.pack_into(buffer, position + _CRC_AT, crc32c(view[position + _CRC_FROM : end]))


def iterate_headers(buffer: ReadBuffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each complete batch; a cut-off last batch ends the walk silently.

    A length that no batch can have is Malformed: walking on from there would read garbage.
    """
    position, end = 0, len(buffer)
    while end - position >= HEADER_BYTES:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
        if header.batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
            raise Malformed(f"a record batch claims a length of {header.batch_length} bytes")
        following = position + header.batch_length + LENGTH_PREFIX_BYTES
        if following > end:
            return
        yield position, header
        position = following
