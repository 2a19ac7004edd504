"""The records of __consumer_offsets: there and back, older versions, and bytes that are none."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.core.groups import (
    GroupRecord,
    GroupRemoved,
    GroupSaved,
    OffsetCommitted,
    OffsetRemoved,
    decode_record,
    encode_record,
)
from runnel.core.groups.records import SavedMember, Unread
from runnel.wire.errors import Malformed

TEXTS = st.text(max_size=20)
INTS = st.integers(-1, 2**31 - 1)
LONGS = st.integers(-1, 2**63 - 1)
MEMBERS = st.builds(SavedMember, TEXTS, st.none() | TEXTS, TEXTS, TEXTS, INTS, INTS, st.binary(), st.binary())
RECORDS = st.one_of(
    st.builds(OffsetCommitted, TEXTS, TEXTS, INTS, LONGS, INTS, TEXTS, LONGS, st.just(-1), st.uuids()),
    st.builds(OffsetRemoved, TEXTS, TEXTS, INTS),
    st.builds(
        GroupSaved, TEXTS, TEXTS, INTS, st.none() | TEXTS, st.none() | TEXTS, LONGS, st.lists(MEMBERS).map(tuple)
    ),
    st.builds(GroupRemoved, TEXTS),
)


@given(RECORDS)
def test_there_and_back(record: GroupRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_the_bytes_of_a_committed_offset_are_kafkas() -> None:
    key, value = encode_record(OffsetCommitted("g", "t", 2, 5, 3, "m", 9, topic_id=UUID(int=7)))
    assert key.hex() == "0001" + "000167" + "000174" + "00000002"
    assert value is not None
    assert value.hex() == "0004" + f"{5:016x}" + "00000003" + "026d" + f"{9:016x}" + "010010" + f"{7:032x}"


def test_an_expiring_offset_is_written_in_version_1() -> None:
    record = OffsetCommitted("g", "t", 2, 5, -1, "m", 9, expire_ms=11)
    _, value = encode_record(record)
    assert value is not None
    assert value.hex() == "0001" + f"{5:016x}" + "00016d" + f"{9:016x}" + f"{11:016x}"


@pytest.mark.parametrize("version", [0, 2])
def test_older_offsets_are_read(version: int) -> None:
    key, _ = encode_record(OffsetRemoved("g", "t", 2))
    value = version.to_bytes(2, "big") + (5).to_bytes(8, "big") + b"\0\1m" + (9).to_bytes(8, "big")
    assert decode_record(key, value) == OffsetCommitted("g", "t", 2, 5, -1, "m", 9)


def test_kinds_that_are_not_ours_are_kept_apart() -> None:
    assert decode_record(b"\0\x0a\0\1g", b"whatever") == Unread(b"\0\x0a\0\1g")


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"", b""), (b"\0\1\0\5g", b""), (b"\0\2\0\1g", b"\0\3"), (b"\0\2\0\1g", b"\0\x63")]
)
def test_bytes_that_do_not_parse(key: bytes | None, value: bytes) -> None:
    with pytest.raises(Malformed):
        decode_record(key, value)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_record_or_malformed(key: bytes, value: bytes) -> None:
    try:
        decode_record(key, value)
    except Malformed:
        pass
