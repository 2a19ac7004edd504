"""Parsing what people write (addresses, positions, times), and partitioning as Kafka does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.client.address import Address, parse_address, parse_addresses
from runnel.client.errors import ClientError, known_code, refused
from runnel.client.offsets import Position, PositionKind, parse_position, parse_timestamp_ms
from runnel.client.partitioner import murmur2, partition_for_key
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
