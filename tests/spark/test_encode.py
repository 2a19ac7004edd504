"""Encoding from Arrow: the plain codec reads back what was put in, and keys meet where Java's client puts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.client.metadata import TopicPartition
from runnel.client.partitioner import partition_for_key
from runnel.spark.decode.columns import TYPES
from runnel.spark.decode.kernels import HEADER_BYTES
from runnel.spark.encode.kernels import choose_partitions
from runnel.spark.encode.lanes import Batch, Lane
from runnel.spark.encode.rows import read_rows
from runnel.spark.errors import RowError
from runnel.wire.batch import check_crc, decode_records, read_header

TARGET = TopicPartition("t", 0)
contents = st.none() | st.binary(max_size=300)
headers = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": contents}), max_size=3)
rows_strategy = st.lists(
    st.fixed_dictionaries({"key": contents, "value": contents, "headers": headers}), min_size=1, max_size=40
)
SCHEMA = pa.schema([pa.field(name, TYPES[name]) for name in ("key", "value", "headers")])


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def encode(batches: list[pa.RecordBatch], batch_bytes: int, now_ms: list[int]) -> list[Batch]:
    lane = Lane(TARGET, batch_bytes)
    made: list[Batch] = []
    number = 0
    for batch, now in zip(batches, now_ms, strict=True):
        rows = read_rows(batch, "t", number)
        number += rows.count
        made += lane.add(rows, np.arange(rows.count), now)
    return [*made, *lane.take()]


def expected(row: dict[str, Any], timestamp: int) -> tuple[Any, ...]:
    pairs = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return timestamp, row["key"], row["value"], pairs


@settings(deadline=None)
@given(
    st.lists(rows_strategy, min_size=1, max_size=4),
    st.sampled_from((1, 100, 500, 5_000, 100_000)),
    st.integers(0, 4),
    st.data(),
)
def test_the_plain_codec_reads_what_was_written(
    parts: list[list[dict[str, Any]]], batch_bytes: int, codec: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, 4_000_000_000_000))
    stamps = [start + data.draw(st.integers(0, 100_000)) for _ in parts]
    made = encode([batch_of(rows) for rows in parts], batch_bytes, stamps)
    found: list[tuple[Any, ...]] = []
    sequence = 0
    for batch in made:
        sealed = batch.sealed(codec, 7, 3, sequence)
        header = read_header(sealed)
        assert check_crc(sealed, 0, header)
        assert header.size_bytes == len(sealed)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, sequence)
        records = decode_records(sealed)
        assert len(records) == header.record_count == header.last_offset_delta + 1 == batch.count
        assert [record.offset for record in records] == list(range(batch.count))
        found += [record[1:] for record in records]
        sequence += batch.count
        assert batch.end <= batch_bytes or batch.count == 1
    assert found == [expected(row, stamp) for rows, stamp in zip(parts, stamps, strict=True) for row in rows]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 100))
def test_keys_choose_partitions_as_kafkas_client_does(keys: list[bytes], count: int) -> None:
    rows = read_rows(batch_of([{"key": key, "value": b""} for key in keys]), "t", 0)
    chosen = np.empty(len(keys), np.int64)
    every = np.arange(len(keys))
    assert choose_partitions(rows.keys, rows.fields, count, 0, rows.partitions, every, chosen) == -1
    assert chosen.tolist() == [partition_for_key(key, count) for key in keys]


def test_partitions_that_are_given_win_and_keyless_rows_stick_together() -> None:
    schema = pa.schema([*SCHEMA, pa.field("partition", pa.int32())])
    given_rows = [
        {"key": b"k", "value": b"", "partition": 4},
        {"key": None, "value": b"", "partition": None},
        {"key": None, "value": b"", "partition": None},
    ]
    rows = read_rows(batch_of(given_rows, schema), "t", 0)
    chosen = np.empty(3, np.int64)
    assert choose_partitions(rows.keys, rows.fields, 5, 3, rows.partitions, np.arange(3), chosen) == -1
    assert chosen.tolist() == [4, 3, 3]
    assert choose_partitions(rows.keys, rows.fields, 4, 3, rows.partitions, np.arange(3), chosen) == 0


@settings(deadline=None)
@given(rows_strategy, st.integers(0, 40), st.integers(0, 40))
def test_slices_of_batches_are_read_from_where_they_begin(rows: list[dict[str, Any]], start: int, length: int) -> None:
    sliced = batch_of(rows).slice(start, length)
    if sliced.num_rows:
        (made,) = encode([sliced], 1_000_000, [5])
        found = [record[1:] for record in decode_records(made.sealed(0, -1, -1, -1))]
        assert found == [expected(row, 5) for row in rows[start : start + length]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_text_and_large_columns_are_written_as_their_bytes(kind: pa.DataType) -> None:
    content: Any = "é" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "é".encode()
    batch = pa.record_batch([pa.array([content, None], kind)], names=["value"])
    (made,) = encode([batch], 1000, [5])
    assert [record.value for record in decode_records(made.sealed(0, -1, -1, -1))] == ["é".encode(), None]


def test_rows_are_grouped_by_topic_in_their_order() -> None:
    batch = pa.record_batch([pa.array([b"1", b"2", b"3"]), pa.array(["b", "a", "b"])], names=["value", "topic"])
    assert [(topic, rows.tolist()) for topic, rows in read_rows(batch, None, 0).topics] == [("b", [0, 2]), ("a", [1])]
    assert [topic for topic, _ in read_rows(batch, "option", 0).topics] == ["option"]


def test_errors_name_the_row() -> None:
    topics = pa.record_batch(
        [pa.array([b"1", b"2"]), pa.array([b"k", b"key2"]), pa.array(["a", None])], names=["value", "key", "topic"]
    )
    with pytest.raises(RowError, match="row 101 of the task, with key b'key2', has a null topic"):
        read_rows(topics, None, 100)
    headless = batch_of([{"value": b"", "headers": []}, {"value": b"", "headers": [{"key": None, "value": b"x"}]}])
    with pytest.raises(RowError, match="row 8 of the task has a header without a key"):
        read_rows(headless, "t", 7)


def test_halves_hold_the_same_records() -> None:
    rows = [{"key": b"%d" % number, "value": b"v", "headers": None} for number in range(5)]
    (made,) = encode([batch_of(rows)], 1000, [5])
    first, second = made.halved()
    assert (first.count, second.count) == (2, 3)
    keys = [record.key for half in (first, second) for record in decode_records(half.sealed(0, 1, 0, 0))]
    assert keys == [b"0", b"1", b"2", b"3", b"4"]
    assert [second.row(0), second.halved()[1].row(1)] == [
        "row 2 of the task, with key b'2'",
        "row 4 of the task, with key b'4'",
    ]


def test_rows_of_several_arrow_batches_keep_their_numbers() -> None:
    rows = [{"key": None, "value": b"v" * 20, "headers": None} for _ in range(4)]
    made = encode([batch_of(rows), batch_of(rows)], HEADER_BYTES + 100, [5, 5])
    assert [batch.count for batch in made] == [3, 3, 2]
    assert [batch.row(0) for batch in made] == [f"row {number} of the task, without key" for number in (0, 3, 6)]
