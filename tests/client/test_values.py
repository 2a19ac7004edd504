"""Parsing what people write (addresses, positions, times), and partitioning as Kafka does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.client.address import Address, parse_address, parse_addresses
from runnel.client.consumer_protocol import decode_assignment
from runnel.client.errors import ClientError, known_code, refused
from runnel.client.metadata import TopicPartition
from runnel.client.offsets import Position, PositionKind, parse_duration_ms, parse_position, parse_timestamp_ms
from runnel.client.partitioner import murmur2, partition_for_key
from runnel.client.quotas import Quota, applied_quotas, make_entity
from runnel.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", Address("localhost", 9092)),
        ("localhost:1234", Address("localhost", 1234)),
        ("PLAINTEXT://broker.example:19092", Address("broker.example", 19092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[fe80::1]", Address("fe80::1", 9092)),
    ],
)
def test_addresses_as_people_write_them(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:", "host:port", "host:0", "host:65536", "::1", "h:1:2", "h:٣"])
def test_what_is_not_an_address_is_refused_with_an_example(text: str) -> None:
    if text == "host:":
        assert parse_address(text).port == 9092
        return
    with pytest.raises(ClientError, match="9092"):
        parse_address(text)


def test_a_bootstrap_list_keeps_its_order_and_drops_repeats() -> None:
    assert parse_addresses("b:1, a:2,b:1,") == (Address("b", 1), Address("a", 2))
    with pytest.raises(ClientError, match="no broker address"):
        parse_addresses(" , ")


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("start", Position(PositionKind.START)),
        ("EARLIEST", Position(PositionKind.START)),
        ("end", Position(PositionKind.END)),
        ("42", Position(PositionKind.OFFSET, 42)),
        ("0", Position(PositionKind.OFFSET, 0)),
        ("-10", Position(PositionKind.FROM_END, 10)),
        ("-0", Position(PositionKind.FROM_END, 0)),
        ("@1700000000000", Position(PositionKind.TIMESTAMP, 1700000000000)),
        ("@2026-01-01T00:00", Position(PositionKind.TIMESTAMP, 1767225600000)),
        ("@2026-01-01", Position(PositionKind.TIMESTAMP, 1767225600000)),
        ("@2026-01-01T01:00+01:00", Position(PositionKind.TIMESTAMP, 1767225600000)),
        ("@2026-01-01T00:00:00.005Z", Position(PositionKind.TIMESTAMP, 1767225600005)),
    ],
)
def test_positions(text: str, position: Position) -> None:
    assert parse_position(text) == position


@pytest.mark.parametrize("text", ["", "middle", "1.5", "@", "@yesterday", "--1"])
def test_what_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match="is not a"):
        parse_position(text)


def test_times_without_a_zone_are_utc() -> None:
    assert parse_timestamp_ms("1970-01-01T00:00:01") == 1000


# The values are those of the unit test of Kafka's own Utils.murmur2.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


@settings(deadline=None)  # the first example imports the other client
@given(st.binary(max_size=64), st.integers(1, 1000))
def test_keys_go_where_another_client_sends_them(key: bytes, partition_count: int) -> None:
    from kafka.partitioner.default import murmur2 as their_murmur2  # kafka-python

    assert murmur2(key) == their_murmur2(key) & 0xFFFFFFFF
    assert 0 <= partition_for_key(key, partition_count) < partition_count


def test_errors_say_what_to_do_and_keep_the_brokers_own_words() -> None:
    unknown = refused(3, "topic 'x'")
    assert "does not exist" in unknown.message
    assert unknown.retriable
    config = refused(ErrorCode.INVALID_CONFIG, "topic 'x'", "Unknown topic config name: foo.")
    assert config.message == "topic 'x': Unknown topic config name: foo (INVALID_CONFIG)"
    assert not config.retriable
    assert "error code 30000" in refused(30000, "x").message
    assert known_code(30000) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("90m", 5_400_000),
        ("1h30m", 5_400_000),
        ("PT1H30M", 5_400_000),
        ("P7D", 604_800_000),
        ("p1dt2h3m4.5s", 93_784_500),
        ("2w", 1_209_600_000),
        ("250ms", 250),
        ("1m250ms", 60_250),
        ("0.5h", 1_800_000),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "h", "5", "5 apples", "-1h", "1h1d", "1h 30m"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ClientError, match="is not a duration: write 90m"):
        parse_duration_ms(text)


def test_an_assignment_of_the_consumer_protocol() -> None:
    encoded = b"\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\3" + b"\0\0\0\1" + b"\xff\xff\xff\xff"
    assert decode_assignment(encoded) == (TopicPartition("t", 1), TopicPartition("t", 3))
    assert decode_assignment(b"") == ()
    assert decode_assignment(encoded[:12]) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_an_assignment_or_none(data: bytes) -> None:
    found = decode_assignment(data)
    assert found is None or all(isinstance(target, TopicPartition) for target in found)


def test_the_most_specific_quota_applies() -> None:
    """Kafka's documented order: taking away the first leaves the next."""
    order: list[dict[str, str | None]] = [
        {"user": "u", "client-id": "c"},
        {"user": "u", "client-id": None},
        {"user": "u"},
        {"user": None, "client-id": "c"},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": "c"},
        {"client-id": None},
    ]
    quotas = [Quota(make_entity(parts), {"producer_byte_rate": float(rank)}) for rank, parts in enumerate(order)]
    others = [
        Quota(make_entity({"user": "x"}), {"producer_byte_rate": 99.0}),
        Quota(make_entity({"ip": None}), {"connection_creation_rate": 5.0}),
    ]
    for rank in range(len(order)):
        applied = applied_quotas([*others, *reversed(quotas[rank:])], "u", "c", "10.0.0.1")
        assert applied["producer_byte_rate"].value == rank
        assert applied["connection_creation_rate"].value == 5.0
    assert "producer_byte_rate" not in applied_quotas(others, "u", "c", None)
