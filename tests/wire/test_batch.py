"""Record batches: headers, CRC, patching in place, and records against two codecs that we did not write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder

from runnel.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    RecordInput,
    assign,
    check_crc,
    decode_records,
    encode_batch,
    iterate_headers,
    iterate_records,
    read_header,
    set_log_append_time,
)
from runnel.wire.errors import Malformed

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
codecs = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())

NULLABLE = st.none() | st.binary(max_size=40) | st.just(b"z" * 5000)
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3)
RECORDS = st.lists(st.tuples(st.integers(0, 2**45), NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=8)

SOME_RECORDS: list[RecordInput] = [
    (1_700_000_000_000 + index, b"k%d" % index if index % 3 else None, b"value" * index if index % 4 else None,
     [("trace", b"\x00\xff"), ("naïve", None)] if index % 2 else [])
    for index in range(100)
]  # fmt: skip


def as_input(records: Sequence[Any]) -> list[RecordInput]:
    return [(r.timestamp, r.key, r.value, [(name, value) for name, value in r.headers]) for r in records]


@codecs
@settings(max_examples=30, deadline=None)
@given(records=RECORDS, base_offset=st.integers(0, 2**60))
def test_round_trip(codec: int, records: list[RecordInput], base_offset: int) -> None:
    batch = encode_batch(records, base_offset=base_offset, compression=codec)
    decoded = decode_records(b"before" + bytes(batch), 6)
    assert as_input(decoded) == records
    assert [record.offset for record in decoded] == [base_offset + index for index in range(len(records))]
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert header.max_timestamp == max(record[0] for record in records)
    assert (header.size_bytes, header.record_count) == (len(batch), len(records))


@codecs
@pytest.mark.parametrize("builder_class", [AioBuilder, PythonBuilder], ids=["aiokafka", "kafka-python"])
def test_we_read_what_others_write(builder_class: Any, codec: int) -> None:
    builder = builder_class(
        magic=2, compression_type=codec, is_transactional=True, producer_id=7, producer_epoch=3,
        base_sequence=11, batch_size=10**6,
    )  # fmt: skip
    for offset, (timestamp, key, value, headers) in enumerate(SOME_RECORDS):
        builder.append(offset, timestamp, key, value, headers)
    batch = bytearray(builder.build())
    header = read_header(batch)
    assert check_crc(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert header.compression == codec
    assert as_input(decode_records(batch)) == SOME_RECORDS


@codecs
@pytest.mark.parametrize("batch_class", [AioBatch, PythonBatch], ids=["aiokafka", "kafka-python"])
def test_others_read_what_we_write(batch_class: Any, codec: int) -> None:
    batch = encode_batch(
        SOME_RECORDS, base_offset=42, compression=codec, producer_id=9, producer_epoch=1, base_sequence=5
    )
    theirs = batch_class(bytes(batch))
    assert theirs.validate_crc()
    assert theirs.producer_id == 9
    records = list(theirs)
    assert as_input(records) == SOME_RECORDS
    assert [record.offset for record in records] == list(range(42, 142))


def test_lz4_frames_have_independent_blocks() -> None:
    """Kafka's Java reader refuses linked blocks: bit 5 of the frame's flag byte must be set."""
    batch = encode_batch([(0, None, b"x" * 300_000, [])], compression=CODECS["lz4"])
    assert batch[HEADER_BYTES + 4] & 0x20


def test_header_properties() -> None:
    header = BatchHeader(100, 200, 3, 2, 0, 0b111100, 9, 5, 6, 77, 1, 2**31 - 5, 10)
    assert (header.size_bytes, header.last_offset, header.next_offset) == (212, 109, 110)
    assert header.last_sequence == 4
    assert header.compression == 4
    assert header.is_log_append_time
    assert header.is_transactional
    assert header.is_control
    assert header._replace(base_sequence=-1).last_sequence == -1
    plain = header._replace(attributes=0)
    assert not any((plain.is_log_append_time, plain.is_transactional, plain.is_control, plain.compression))


def test_assign_changes_offset_and_epoch_and_keeps_the_crc() -> None:
    buffer = bytearray(b"pad") + encode_batch(SOME_RECORDS)
    assign(memoryview(buffer), 3, 123_456_789_012, 17)
    header = read_header(buffer, 3)
    assert (header.base_offset, header.leader_epoch) == (123_456_789_012, 17)
    assert check_crc(buffer, 3, header)
    assert decode_records(buffer, 3)[0].offset == 123_456_789_012


@codecs
def test_log_append_time_needs_no_decompression_and_reaches_every_record(codec: int) -> None:
    buffer = bytearray(b"pad") + encode_batch(SOME_RECORDS, compression=codec)
    set_log_append_time(memoryview(buffer), 3, 5_000)
    header = read_header(buffer, 3)
    assert check_crc(buffer, 3, header)
    assert header.is_log_append_time
    assert header.max_timestamp == 5_000
    assert {record.timestamp for record in decode_records(buffer, 3)} == {5_000}
    assert buffer[3:] == bytes(encode_batch(SOME_RECORDS, compression=codec, log_append_time_ms=5_000))


def test_compaction_can_keep_gaps() -> None:
    batch = encode_batch([(1, b"a", b"", ()), (2, b"b", None, ())], base_offset=10, offset_deltas=[2, 7])
    assert [record.offset for record in iterate_records(batch)] == [12, 17]
    assert read_header(batch).last_offset == 17


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_after_the_crc_is_noticed(data: st.DataObject) -> None:
    batch = encode_batch(SOME_RECORDS[:5])
    position = data.draw(st.integers(21, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    assert not check_crc(batch, 0, read_header(batch))


def test_crc_of_a_cut_or_lying_batch_is_false() -> None:
    batch = bytes(encode_batch(SOME_RECORDS))
    header = read_header(batch)
    assert not check_crc(batch[:-1], 0, header)
    assert not check_crc(batch, 1, header)
    assert not check_crc(batch, 0, header._replace(batch_length=-1))
    assert not check_crc(batch, 0, header._replace(batch_length=2**31 - 1))


def test_iterate_headers_stops_before_a_cut_batch() -> None:
    first, second = encode_batch(SOME_RECORDS[:3]), encode_batch(SOME_RECORDS[:9], base_offset=3)
    whole = bytes(first + second)
    assert [(position, header.base_offset) for position, header in iterate_headers(whole)] == [(0, 0), (len(first), 3)]
    for cut in (len(whole) - 1, len(first) + HEADER_BYTES, len(first) + 5, len(first)):
        assert [position for position, _ in iterate_headers(whole[:cut])] == [0]
    assert list(iterate_headers(whole[:40])) == []


def test_iterate_headers_refuses_an_impossible_length() -> None:
    batch = encode_batch(SOME_RECORDS)
    batch[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(Malformed):
        list(iterate_headers(batch))


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1])
def test_short_headers_are_malformed(size: int) -> None:
    with pytest.raises(Malformed):
        read_header(bytes(size))


def test_header_keys_that_are_not_utf8_survive() -> None:
    """Kafka does not check them; compaction must write back the very bytes it read."""
    batch = encode_batch([(0, None, None, [("a\udcff", b"")])])
    (record,) = decode_records(batch)
    assert record.headers == (("a\udcff", b""),)
    assert b"a\xff" in batch


def test_an_empty_batch_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch([])
