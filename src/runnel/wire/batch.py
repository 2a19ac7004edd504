"""Record batches of magic 2: the 61-byte header, its CRC, and (where a feature needs it) the records inside.

In: a buffer that holds batches as they travel and lie on disk; out: `BatchHeader`, `Record`, or a new batch.
The broker's hot path uses only the header half: read it, check the CRC, patch base offset and leader epoch in
place (both lie outside the CRC). Records are opened by compaction, timestamp lookups, gateways and clients.

    base_offset i64 | batch_length i32 | leader_epoch i32 | magic i8 | crc u32 | attributes i16 |
    last_offset_delta i32 | base_timestamp i64 | max_timestamp i64 | producer_id i64 | producer_epoch i16 |
    base_sequence i32 | record_count i32 | records ...        (the CRC covers attributes to the end)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from runnel.wire.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from runnel.wire.errors import Malformed
from runnel.wire.types import ReadBuffer
from runnel.wire.varints import decode_varint, decode_varlong, encode_varint

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""Base offset and batch_length: what comes before the bytes that batch_length counts."""
MAGIC = 2
RECORD_BYTES_MIN = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
"""Set by compaction (KIP-534): the base timestamp is the time from which the tombstones of the batch may go."""

_HEADER = Struct(">qiibIhiqqqhii")
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
_NULL = encode_varint(-1)


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
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


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
    _CRC.pack_into(buffer, position + _CRC_AT, crc32c(memoryview(buffer)[position + _CRC_FROM : end]))


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


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


RecordInput: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""timestamp, key, value, headers"""


def decode_records(
    buffer: ReadBuffer, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """Every record of the batch at `position`; control batches are decoded too."""
    return list(iterate_records(buffer, position, decompressed_bytes_max=decompressed_bytes_max))


def iterate_records(
    buffer: ReadBuffer, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The records of the batch at `position` one by one, for readers that stop early or keep few of them."""
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise Malformed(f"a record batch of magic {header.magic} cannot be read")
    end = position + header.size_bytes
    if header.size_bytes < HEADER_BYTES or end > len(buffer):
        raise Malformed("a record batch is shorter than its length says")
    packed = memoryview(buffer)[position + HEADER_BYTES : end]
    data = decompress(header.compression, packed, decompressed_bytes_max)
    if header.record_count < 0 or header.record_count * RECORD_BYTES_MIN > len(data):
        raise Malformed(f"{header.record_count} records do not fit into {len(data)} bytes")
    at = 0
    for _ in range(header.record_count):
        record, at = _decode_record(data, at, header)
        yield record
    if at != len(data):
        raise Malformed(f"{len(data) - at} bytes are left after the last record of a batch")


def _decode_record(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    length, at = decode_varint(data, at)
    end = at + length
    if length < RECORD_BYTES_MIN - 1 or end > len(data):
        raise Malformed(f"a record claims {length} of {len(data) - at} bytes")
    at += 1  # the attributes of a record, unused in magic 2
    # Deltas and null keys mostly take one byte; the minimum length above makes these reads safe.
    byte = data[at]
    if byte < 128:
        timestamp_delta, at = (byte >> 1) ^ -(byte & 1), at + 1
    else:
        timestamp_delta, at = decode_varlong(data, at)
    offset_delta, at = decode_varint(data, at)
    key, at = _decode_bytes(data, at, end)
    value, at = _decode_bytes(data, at, end)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if at == end - 1 and data[at] == 0:
        at = end
    else:
        headers, at = _decode_headers(data, at, end)
    if at != end:
        raise Malformed("a record is longer or shorter than its length says")
    if header.attributes & LOG_APPEND_TIME_BIT:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), at


def _decode_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at)
    if length < 0:
        return None, at  # Kafka reads any negative length as null
    following = at + length
    if following > end:
        raise Malformed("a key or value is longer than its record")
    return data[at:following], following


def _decode_headers(data: bytes, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = decode_varint(data, at)
    if count < 0 or count * 2 > end - at:
        raise Malformed(f"{count} record headers do not fit into {end - at} bytes")
    headers = []
    for _ in range(count):
        key, at = _decode_bytes(data, at, end)
        if key is None:
            raise Malformed("a record header has no key")
        value, at = _decode_bytes(data, at, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at


def encode_batch(
    records: Sequence[RecordInput],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    compression: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    offset_deltas: Sequence[int] | None = None,
) -> bytearray:
    """A whole batch, CRC included. `offset_deltas` (rising) keeps gaps, as compaction needs."""
    if not records:
        raise ValueError("a record batch holds at least one record")
    deltas: Sequence[int] = range(len(records)) if offset_deltas is None else offset_deltas
    base_timestamp = records[0][0]
    body = bytearray()
    for delta, record in zip(deltas, records, strict=True):
        _encode_record(body, delta, base_timestamp, record)
    data = compress(compression, body) if compression else bytes(body)
    attributes = compression & COMPRESSION_MASK
    attributes |= TRANSACTIONAL_BIT if transactional else 0
    attributes |= CONTROL_BIT if control else 0
    max_timestamp = max(record[0] for record in records)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = log_append_time_ms
    header = BatchHeader(
        base_offset, 0, leader_epoch, MAGIC, 0, attributes, deltas[-1], base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    return assemble(header, data)


def assemble(header: BatchHeader, records: ReadBuffer) -> bytearray:
    """A whole batch of this header and these (compressed) records; length and CRC are computed."""
    batch = bytearray(HEADER_BYTES)
    batch += records
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LENGTH_PREFIX_BYTES, crc=0))
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return batch


def _encode_record(body: bytearray, offset_delta: int, base_timestamp: int, record: RecordInput) -> None:
    timestamp, key, value, headers = record
    parts = [b"\0", encode_varint(timestamp - base_timestamp), encode_varint(offset_delta)]
    parts += (_NULL, b"") if key is None else (encode_varint(len(key)), key)
    parts += (_NULL, b"") if value is None else (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        encoded_name = name.encode("utf-8", "surrogateescape")
        parts += (encode_varint(len(encoded_name)), encoded_name)
        parts += (_NULL, b"") if content is None else (encode_varint(len(content)), content)
    encoded = b"".join(parts)
    body += encode_varint(len(encoded))
    body += encoded
