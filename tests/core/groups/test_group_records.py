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
from runnel.core.groups.records import (
    ClassicSide,
    CurrentSaved,
    EpochSaved,
    Key,
    MemberSaved,
    MemberState,
    RegexSaved,
    Removed,
    SavedMember,
    TargetEpochSaved,
    TargetSaved,
    Unread,
)
from runnel.core.groups.records.consumer import NAMED_KEYS
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

NUMBERS = st.lists(st.integers(0, 2**31 - 1), max_size=3, unique=True)
PARTITIONS = st.dictionaries(st.uuids(), NUMBERS.map(tuple), max_size=2)
OWNED = st.dictionaries(st.uuids(), st.dictionaries(st.integers(0, 99), INTS, min_size=1, max_size=3), max_size=2)
NAMES = st.lists(TEXTS, max_size=3).map(tuple)
CLASSIC_SIDES = st.builds(ClassicSide, INTS, st.lists(st.tuples(TEXTS, st.binary())).map(tuple))
MAYBE = st.none() | TEXTS
CONSUMER_RECORDS = st.one_of(
    st.builds(
        MemberSaved, TEXTS, TEXTS, MAYBE, MAYBE, TEXTS, TEXTS, NAMES, TEXTS, INTS, MAYBE, st.none() | CLASSIC_SIDES
    ),
    st.builds(EpochSaved, TEXTS, INTS, st.integers(-(2**63), 2**63 - 1)),
    st.builds(TargetEpochSaved, TEXTS, INTS, LONGS),
    st.builds(TargetSaved, TEXTS, TEXTS, PARTITIONS),
    st.builds(CurrentSaved, TEXTS, TEXTS, INTS, INTS, st.sampled_from(MemberState), OWNED, OWNED),
    st.builds(RegexSaved, TEXTS, TEXTS, NAMES, LONGS, LONGS),
    st.builds(Removed, st.sampled_from(sorted(NAMED_KEYS)), TEXTS, TEXTS),
    st.builds(Removed, st.sampled_from([Key.EPOCH, Key.TARGET_EPOCH]), TEXTS, st.just("")),
)


@given(RECORDS | CONSUMER_RECORDS)
def test_there_and_back(record: GroupRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_the_bytes_of_a_committed_offset_are_kafkas() -> None:
    key, value = encode_record(OffsetCommitted("g", "t", 2, 5, 3, "m", 9, topic_id=UUID(int=7)))
    assert key.hex() == "0001" + "000167" + "000174" + "00000002"
    assert value is not None
    assert value.hex() == "0004" + f"{5:016x}" + "00000003" + "026d" + f"{9:016x}" + "010010" + f"{7:032x}"


# Taken from the log of Apache Kafka 4.3.1.
TOPIC_ID = UUID("ef7fbd52-dec3-4b61-a976-1587b6498767")
SUBSCRIPTION = bytes.fromhex("000300000001000174ffffffff00000000ffffffffffff")
WRITTEN_BY_KAFKA: list[tuple[GroupRecord, str, str]] = [
    (
        MemberSaved("s1", "sa", "i1", None, "raw-test", "/127.0.0.1", ("t",), "", 30_000),
        "00050002733100027361",
        "000003693100097261772d746573740b2f3132372e302e302e3102027401000075300001000100",
    ),
    (
        MemberSaved(
            "c",
            "k",
            "k",
            None,
            "raw-test",
            "/127.0.0.1",
            ("t",),
            "",
            20_000,
            None,
            ClassicSide(20_000, (("range", SUBSCRIPTION),)),
        ),
        "000500016300016b",
        "0000026b00097261772d746573740b2f3132372e302e302e310202740100004e20000100260100004e20020672616e6765"
        "18000300000001000174ffffffff00000000ffffffffffff0000",
    ),
    (EpochSaved("g", 2, 5587479208691930081), "0003000167", "0000000000020100084d8ab6bc8ff693e1"),
    (EpochSaved("s1", 5), "000300027331", "00000000000500"),
    (TargetEpochSaved("g", 2, 1794803406280), "0006000167", "000000000002010008000001a1e29e95c8"),
    (
        TargetSaved("g", "a", {TOPIC_ID: (2,)}),
        "0007000167000161",
        "000002ef7fbd52dec34b61a9761587b649876702000000020000",
    ),
    (
        CurrentSaved("r1", "b", 3, 3, MemberState.UNREVOKED, {}, {TOPIC_ID: {2: 3}}),
        "000800027231000162",
        "00000000000300000003010102ef7fbd52dec34b61a9761587b64987670200000002010005020000000300",
    ),
    (
        RegexSaved("rx03432", "x03432-.*", ("x03432-a",), 103, 1794803433546),
        "001000077278303334333200097830333433322d2e2a",
        "000002097830333433322d610000000000000067000001a1e29f004a00",
    ),
    (Removed(Key.CURRENT, "g", "a"), "0008000167000161", ""),
    (Removed(Key.TARGET_EPOCH, "s1"), "000600027331", ""),
]


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN_BY_KAFKA)
def test_records_of_consumer_groups_are_kafkas(record: GroupRecord, key: str, value: str) -> None:
    written = (bytes.fromhex(key), bytes.fromhex(value) or None)
    assert encode_record(record) == written
    assert decode_record(*written) == record


def test_records_of_before_the_epochs_of_partitions_are_read() -> None:
    """Kafka 4.2 and older: the partitions of a member have no epochs of their own (KIP-1251)."""
    value = bytes.fromhex("0000000000070000000600" + "02" + TOPIC_ID.hex + "0200000002" + "00" + "01" + "00")
    found = decode_record(bytes.fromhex("000800027231000162"), value)
    assert found == CurrentSaved("r1", "b", 7, 6, MemberState.STABLE, {TOPIC_ID: {2: 7}})


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
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\0\1\0\5g", b""),
        (b"\0\2\0\1g", b"\0\3"),
        (b"\0\2\0\1g", b"\0\x63"),
        (b"\0\3\0\1g", b"\0\1\0\0\0\1\0"),
        (b"\0\x08\0\1g\0\1m", b"\0\0\0\0\0\1\0\0\0\1\x07\1\1\0"),
        (b"\0\x07\0\1g\0\1m", b"\0\0\xff\xff\xff\xff\x0f"),
    ],
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
