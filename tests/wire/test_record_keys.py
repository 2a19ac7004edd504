"""The fast walk over a batch's records finds what the full decoder finds, and refuses what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.wire.batch import HEADER_BYTES, decode_records, encode_batch, read_header
from runnel.wire.errors import Malformed
from runnel.wire.record_keys import KEY_BYTES_SHORT, has_null_value, rebase, record_end, timestamp_delta, walk_records

SIZES = (0, 1, 22, 23, 24, 31, 62, 63, 64, 65, 127, 128, 8_100, 8_192, 20_000)
CONTENTS = st.one_of(st.none(), st.binary(max_size=90), st.sampled_from([b"x" * size for size in SIZES]))
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1 << 42), CONTENTS, CONTENTS, st.lists(st.tuples(st.text(max_size=3), CONTENTS), max_size=2)
    ),
    min_size=1,
    max_size=8,
)


def upper(key: bytes) -> bytes:
    return b"long:" + key


@given(RECORDS, st.binary(max_size=20))
def test_the_walk_agrees_with_the_decoder(records: list[tuple[object, ...]], before: bytes) -> None:
    batch = bytes(encode_batch(records))
    data = before + batch[HEADER_BYTES:] + b"what follows"
    start, end = len(before), len(before) + len(batch) - HEADER_BYTES
    walked = walk_records(data, start, end, len(records), upper)
    decoded = decode_records(batch)
    expected = [key if key is None or len(key) <= KEY_BYTES_SHORT else upper(key) for _, _, key, _, _ in decoded]
    assert walked.keys == expected
    assert walked.null_values == [number for number, record in enumerate(decoded) if record.value is None]
    assert (walked.starts[0], walked.starts[-1]) == (start, end)
    header = read_header(batch)
    for number, record in enumerate(decoded):
        assert timestamp_delta(data, walked.starts[number])[0] == record.timestamp - header.base_timestamp
        assert record_end(data, walked.starts[number]) == walked.starts[number + 1]
        assert has_null_value(data, walked.starts[number]) == (record.value is None)


@given(RECORDS, st.integers(-(1 << 41), 1 << 41))
def test_another_base_timestamp_changes_nothing_else(records: list[tuple[object, ...]], shift: int) -> None:
    batch = encode_batch(records)
    data = bytes(batch[HEADER_BYTES:])
    starts = walk_records(data, 0, len(data), len(records), upper).starts
    moved = b"".join(rebase(data, starts[n], starts[n + 1], shift) for n in range(len(records)))
    base = read_header(batch).base_timestamp
    back = walk_records(moved, 0, len(moved), len(records), upper).starts
    assert [timestamp_delta(moved, at)[0] + shift for at in back[:-1]] == [record[0] - base for record in records]
    again = b"".join(rebase(moved, back[n], back[n + 1], -shift) for n in range(len(records)))
    assert again == data


@given(RECORDS, st.data())
def test_cut_or_changed_records_never_pass_for_others(records: list[tuple[object, ...]], chance: st.DataObject) -> None:
    data = bytes(encode_batch(records)[HEADER_BYTES:])
    cut = chance.draw(st.integers(0, len(data) - 1))
    with pytest.raises(Malformed):
        walk_records(data[:cut], 0, cut, len(records), upper)
    for count in (len(records) + 1, len(records) - 1):
        if count:
            with pytest.raises(Malformed):
                walk_records(data, 0, len(data), count, upper)


@given(st.binary(max_size=60), st.integers(0, 5))
def test_nonsense_is_malformed_or_walked_to_its_end(data: bytes, count: int) -> None:
    try:
        walked = walk_records(data, 0, len(data), count, upper)
    except Malformed:
        return
    assert len(walked.keys) == count
    assert walked.starts == sorted(walked.starts)
    assert walked.starts[-1] == len(data)


def test_a_negative_length_is_refused() -> None:
    for data in (b"\x01\0\0\0\0\0\0", b"\x81\x01\0\0\0\0\0\0", b"\x81\x80\x01\0\0\0\0\0\0"):
        with pytest.raises(Malformed, match="negative"):
            walk_records(data, 0, len(data), 1, upper)
