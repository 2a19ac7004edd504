"""Decoding to Arrow: held equal to `wire.batch.decode_records`, record for record, on good bytes and on bad ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.client.reader import _visible
from runnel.spark.decode import chunk as chunk_module
from runnel.spark.decode.chunk import Chunk
from runnel.spark.decode.columns import TYPES, record_batch
from runnel.wire.batch import HEADER_BYTES as BATCH_HEADER_BYTES
from runnel.wire.batch import Record, RecordInput, decode_records, encode_batch, iterate_headers
from runnel.wire.compression import Compression
from runnel.wire.errors import Malformed
from runnel.wire.fetch import FetchPartitionReply

SCHEMA = pa.schema([pa.field(name, kind) for name, kind in TYPES.items()])
FOR_EVER = 1 << 62
CODECS = range(5)
I64_MAX = 2**63 - 1

texts = st.text(max_size=8)
contents = st.none() | st.binary(max_size=200)
record_inputs = st.tuples(
    st.integers(-1, 4_000_000_000_000), contents, contents, st.lists(st.tuples(texts, contents), max_size=3)
)
batches = st.lists(
    st.tuples(
        st.lists(record_inputs, min_size=1, max_size=12),
        st.sampled_from(CODECS),
        st.integers(0, 3),  # offsets that compaction left out before each batch
        st.none() | st.integers(0, 4_000_000_000_000),
    ),
    min_size=1,
    max_size=5,
)


def encode_log(parts: Sequence[tuple[list[RecordInput], int, int, int | None]]) -> bytes:
    log, offset = bytearray(), 0
    for records, codec, gap, append_time in parts:
        deltas = [position * (gap + 1) for position in range(len(records))]
        log += encode_batch(
            records,
            base_offset=offset + gap,
            compression=codec,
            offset_deltas=deltas,
            log_append_time_ms=append_time,
        )
        offset += gap + deltas[-1] + 1
    return bytes(log)


def decode(data: bytes, first: int = 0, until: int = FOR_EVER, **options: Any) -> list[dict[str, Any]]:
    check_crc = options.pop("check_crc", True)
    rows: list[dict[str, Any]] = []
    for found in Chunk(np.frombuffer(data, np.uint8), check_crc=check_crc).rows("t", 3, first, until, **options):
        batch = record_batch(found, SCHEMA)
        batch.validate(full=True)
        table = batch.set_column(5, "timestamp", batch.column(5).cast(pa.int64()))
        rows += table.to_pylist()
    return rows


def expected(records: Sequence[Record], append_time: bool) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "t",
            "partition": 3,
            "offset": wrapped(record.offset),
            "timestamp": micros(wrapped(record.timestamp)),
            "timestampType": int(append_time),
            "headers": [{"key": readable(name), "value": value} for name, value in record.headers] or None,
        }
        for record in records
    ]


def wrapped(number: int) -> int:
    """What 64 bits make of it."""
    return (number + 2**63) % 2**64 - 2**63


def micros(milliseconds: int) -> int:
    return (
        max(-I64_MAX, min(I64_MAX, milliseconds * 1000)) if abs(milliseconds) >= 2**63 // 1000 else milliseconds * 1000
    )


def readable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def oracle(data: bytes, first: int = 0, until: int = FOR_EVER) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for position, header in iterate_headers(data):
        if not header.is_control:
            rows += expected(decode_records(data, position), header.is_log_append_time)
    return [row for row in rows if first <= row["offset"] < until]


@settings(deadline=None)
@given(batches)
def test_equals_the_codec_of_wire(parts: list[Any]) -> None:
    log = encode_log(parts)
    assert decode(log) == oracle(log)


@settings(deadline=None)
@given(batches, st.integers(0, 60), st.integers(0, 60))
def test_an_offset_range_cuts_batches_at_both_ends(parts: list[Any], first: int, length: int) -> None:
    log = encode_log(parts)
    assert decode(log, first, first + length) == oracle(log, first, first + length)


@settings(deadline=None, max_examples=250)
@given(st.data())
def test_damaged_bytes_are_read_as_the_codec_of_wire_reads_them(data: st.DataObject) -> None:
    """Without checksums every lie reaches the kernels: they must refuse exactly what the plain codec refuses."""
    log = bytearray(encode_log(data.draw(batches)))
    for _ in range(data.draw(st.integers(1, 4))):
        log[data.draw(st.integers(61, len(log) - 1))] = data.draw(st.integers(0, 255))
    try:
        wanted: object = oracle(bytes(log), -(2**63), 2**63 - 1)
    except (Malformed, UnicodeDecodeError):
        wanted = Malformed
    try:
        found: object = decode(bytes(log), -(2**63), 2**63 - 1, check_crc=False)
    except Malformed:
        found = Malformed
    assert found == wanted


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_noise_is_never_records(noise: bytes) -> None:
    try:
        rows = decode(noise)
    except Malformed:
        return
    assert rows == []


@settings(deadline=None)
@given(batches, st.data())
def test_a_cut_off_end_is_left_for_the_next_fetch(parts: list[Any], data: st.DataObject) -> None:
    log = encode_log(parts)
    cut = data.draw(st.integers(0, len(log)))
    whole = [position + header.size_bytes for position, header in iterate_headers(log[:cut])]
    found = Chunk(np.frombuffer(log[:cut], np.uint8))
    assert found.end == (whole[-1] if whole else 0)
    assert decode(log[:cut]) == oracle(log[: found.end])


def test_a_flipped_bit_is_found_by_the_checksum_and_named() -> None:
    log = bytearray(encode_batch([(0, b"k", b"value", ())], base_offset=41))
    log[-3] ^= 1
    with pytest.raises(Malformed, match="checksum of the batch at offset 41"):
        decode(bytes(log))


def in_xerial_framing(batch: bytes) -> bytes:
    """An uncompressed batch, compressed as Java clients do: two sized blocks behind a header of 16 bytes."""
    body, middle = batch[61:], len(batch) // 2
    blocks = [bytes(cramjam.snappy.compress_raw(piece)) for piece in (body[:middle], body[middle:])]
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    framed += b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    made = bytearray(batch[:61] + framed)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, 2)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def test_snappy_in_the_framing_of_java_clients() -> None:
    log = in_xerial_framing(bytes(encode_batch([(5, b"k", b"v" * 1000, [("h", b"1")])] * 50)))
    assert decode(log) == oracle(log)
    assert len(decode(log)) == 50


def old_message(magic: int, value: bytes) -> bytes:
    """A message of Kafka 0.9 or 0.10: without key, and with a timestamp in the newer of the two."""
    content = struct.pack(">bb", magic, 0) + b"\0" * 8 * magic + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, 4 + len(content), zlib.crc32(content)) + content


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("log", [(b"",), (b"x",), (b"x",) * 5, (b"x" * 100,)], ids=lambda log: f"{len(b''.join(log))}")
def test_records_of_the_time_before_batches_are_refused_with_the_reason(magic: int, log: tuple[bytes, ...]) -> None:
    with pytest.raises(Malformed, match=f"magic {magic} cannot be read"):
        decode(b"".join(old_message(magic, value) for value in log))


def test_header_keys_that_are_not_text_are_readable_as_java_reads_them() -> None:
    log = encode_batch([(0, None, None, [("a\udcff", b"v"), ("b", None)])])
    assert decode(bytes(log))[0]["headers"] == [{"key": "a�", "value": b"v"}, {"key": "b", "value": None}]


@pytest.mark.parametrize("codec", CODECS)
def test_rows_come_in_bounded_pieces(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "ROWS_MAX", 100)
    monkeypatch.setattr(chunk_module, "INFLATED_BYTES_MAX", 2_000)
    parts = [([(number, b"k", b"v" * 20, ())] * 30, codec, 0, None) for number in range(40)]
    log = encode_log(parts)
    sizes = [rows.count for rows in Chunk(np.frombuffer(log, np.uint8)).rows("t", 3, 0, FOR_EVER)]
    assert sum(sizes) == 1200
    assert max(sizes) <= 120
    assert decode(log) == oracle(log)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_batch_of_very_many_records_comes_in_pieces(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes can inflate to millions of records: their index must not be made at once."""
    monkeypatch.setattr(chunk_module, "INDEX_ROWS_MAX", 64)
    headers = (("h", b"x"),)
    records = [(number, b"k" * (number % 3), b"%d" % number, headers) for number in range(1000)]
    log = encode_log([(records, codec, 0, None), (records[:64], codec, 0, None), (records[:3], codec, 0, None)])
    counts = [rows.count for rows in Chunk(np.frombuffer(log, np.uint8)).rows("topic", 0, 0, FOR_EVER)]
    assert max(counts) == 64
    assert sum(counts) == 1067
    assert decode(log) == oracle(log)
    assert decode(log, 100, 900) == oracle(log, 100, 900)


def test_a_few_rows_do_not_keep_the_index_of_all_alive() -> None:
    log = bytes(encode_batch([(0, None, b"%d" % number, ()) for number in range(1000)]))
    rows = [rows for rows in Chunk(np.frombuffer(log, np.uint8)).rows("topic", 0, 500, 503) if rows.count]
    assert [row.index[0].tolist() for row in rows] == [[500, 501, 502]]
    assert rows[0].index.base is None, "a copy, not a view of the index of all 1000"


def test_an_empty_batch_that_names_a_codec_is_empty() -> None:
    """Brokers other than Kafka may leave the codec in the header of what compaction emptied."""
    empty = bytearray(encode_batch([(0, None, b"a", ()), (1, None, b"b", ())]))[:BATCH_HEADER_BYTES]
    struct.pack_into(">i", empty, 8, BATCH_HEADER_BYTES - 12)
    struct.pack_into(">h", empty, 21, Compression.GZIP)
    struct.pack_into(">i", empty, 57, 0)
    struct.pack_into(">I", empty, 17, crc32c(memoryview(empty)[21:]))
    after = encode_batch([(2, None, b"c", ())], base_offset=2)
    assert [row["offset"] for row in decode(bytes(empty) + bytes(after))] == [2]


def test_more_batches_than_one_table_holds() -> None:
    log = encode_log([([(1, None, b"v", ())], 0, 0, None)] * 5000)
    assert [row["offset"] for row in decode(log)] == list(range(5000))


def transactional(records: int, producer_id: int, offset: int) -> bytearray:
    inputs: list[RecordInput] = [(0, b"k", b"%d" % producer_id, ())] * records
    return encode_batch(
        inputs, base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


def marker(kind: int, producer_id: int, offset: int) -> bytearray:
    key, value = bytes((0, 0, 0, kind)), b"\0\0\0\0\0\0"
    return encode_batch(
        [(0, key, value, ())],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("data", "abort", "commit", "plain")), st.integers(1, 3)), max_size=20))
def test_aborted_transactions_and_markers_are_left_out(steps: list[tuple[str, int]]) -> None:
    log, offset, begun = bytearray(), 0, {}
    aborted: list[tuple[int, int]] = []
    for step, producer_id in steps:
        if step == "data":
            log += transactional(2, producer_id, offset)
            begun.setdefault(producer_id, offset)
            offset += 2
        elif step == "plain":
            log += encode_batch([(0, b"k", b"plain", ())], base_offset=offset)
            offset += 1
        else:
            log += marker(0 if step == "abort" else 1, producer_id, offset)
            first = begun.pop(producer_id, None)
            if step == "abort" and first is not None:
                aborted.append((producer_id, first))
            offset += 1
    reply = FetchPartitionReply(0, 0, offset, aborted_transactions=aborted, records=bytes(log))
    seen = [position for position, _ in _visible(memoryview(bytes(log)), reply, 1) if position >= 0]
    wanted = [record.offset for position in seen for record in decode_records(log, position)]
    assert [row["offset"] for row in decode(bytes(log), aborted=aborted)] == wanted
    every = [
        record.offset
        for at, header in iterate_headers(log)
        if not header.is_control
        for record in decode_records(log, at)
    ]
    assert [row["offset"] for row in decode(bytes(log))] == every


def test_only_the_wanted_columns_are_made_in_their_order() -> None:
    log = encode_log([([(7, b"k", None, ())], 0, 0, None)])
    schema = pa.schema([pa.field("offset", pa.int64()), pa.field("value", pa.binary())])
    (rows,) = Chunk(np.frombuffer(log, np.uint8)).rows("t", 3, 0, FOR_EVER)
    assert record_batch(rows, schema).to_pylist() == [{"offset": 0, "value": None}]
