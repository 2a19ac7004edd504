"""Metadata records: round trips, Kafka's bytes, hostile bytes, and Apache Kafka's own tool reading them."""

from __future__ import annotations

import base64
import dataclasses
import json
import typing
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from java_tools import run_java
from runnel.core.metadata.records import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    decode_record,
    encode_record,
)
from runnel.wire.batch import encode_batch
from runnel.wire.errors import Malformed

TOPIC_ID = UUID("01234567-89ab-cdef-0123-456789abcdef")
DIRECTORY = UUID(int=7)
KINDS: tuple[type[MetadataRecord], ...] = typing.get_args(MetadataRecord)

EXAMPLES: list[MetadataRecord] = [
    FeatureLevelRecord("metadata.version", 30),
    RegisterBrokerRecord(
        1,
        UUID(int=11),
        5,
        (Endpoint("PLAINTEXT", "127.0.0.1", 65535),),
        (FeatureRange("metadata.version", 1, 30),),
        "rack-a",
        fenced=False,
        log_dirs=(DIRECTORY,),
    ),
    RegisterBrokerRecord(2, UUID(int=12), 6),
    BrokerRegistrationChangeRecord(1, 5, fenced=-1, in_controlled_shutdown=1, log_dirs=(DIRECTORY,)),
    TopicRecord("orders", TOPIC_ID),
    ConfigRecord(2, "orders", "retention.ms", "1000"),
    ConfigRecord(2, "orders", "retention.ms", None),
    PartitionRecord(0, TOPIC_ID, (1, 2), (1,), 1, 3, 4, (DIRECTORY, DIRECTORY), leader_recovery_state=1),
    PartitionRecord(1, TOPIC_ID, (1,), (1,), 1, 0, 0, (DIRECTORY,), (3,), (4,), 0, (5,), (6,)),
    PartitionChangeRecord(0, TOPIC_ID, isr=(1, 2), leader=2, directories=(DIRECTORY,)),
    PartitionChangeRecord(0, TOPIC_ID, replicas=(1,), removing_replicas=(2,), adding_replicas=()),
    ProducerIdsRecord(1, 5, 2000),
    ConfigRecord(32, "group-a", "consumer.session.timeout.ms", "46000"),
    ConfigRecord(16, "subscription-a", "metrics", "*"),
    UserScramCredentialRecord("alice", 2, b"salt", b"stored key", b"server key", 8192),
    RemoveUserScramCredentialRecord("alice", 2),
    ClientQuotaRecord((QuotaEntityPart("client-id", None), QuotaEntityPart("user", "bob")), "producer_byte_rate", 1.5),
    ClientQuotaRecord((QuotaEntityPart("ip", "::1"),), "connection_creation_rate", 0.0, remove=True),
    RemoveTopicRecord(TOPIC_ID),
    UnregisterBrokerRecord(2, 6),
    NoOpRecord(),
]


def test_every_kind_has_an_example() -> None:
    assert {type(record) for record in EXAMPLES} == set(KINDS)


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_records_come_back_as_they_were(record: MetadataRecord) -> None:
    encoded = encode_record(record)
    assert decode_record(encoded) == record
    assert decode_record(memoryview(encoded)) == record


def test_the_bytes_are_kafkas() -> None:
    assert encode_record(TopicRecord("ab", TOPIC_ID)) == b"\x01\x02\x00" + b"\x03ab" + TOPIC_ID.bytes + b"\x00"
    assert encode_record(FeatureLevelRecord("f", 2)) == b"\x01\x0c\x00" + b"\x02f" + b"\x00\x02" + b"\x00"
    # Only the tagged field that differs from its default travels: tag 1 (leader), 4 bytes.
    changed = encode_record(PartitionChangeRecord(3, TOPIC_ID, leader=1))
    assert changed == b"\x01\x05\x02" + b"\0\0\0\x03" + TOPIC_ID.bytes + b"\x01" + b"\x01\x04" + b"\0\0\0\x01"


def test_older_versions_are_read() -> None:
    body = b"\0\0\0\x01" + UUID(int=11).bytes + b"\0" * 7 + b"\x05" + b"\x01" + b"\x01" + b"\x00" + b"\x01" + b"\x00"
    assert decode_record(b"\x01\x00\x00" + body) == RegisterBrokerRecord(1, UUID(int=11), 5)
    version_0 = (
        b"\0\0\0\0" + TOPIC_ID.bytes + b"\x02\0\0\0\x01" * 2 + b"\x01\x01" + b"\0\0\0\x01" + b"\0\0\0\0" * 2 + b"\0"
    )
    assert decode_record(b"\x01\x03\x00" + version_0) == PartitionRecord(0, TOPIC_ID, (1,), (1,), 1, 0, 0)


def test_a_tag_from_a_later_version_is_skipped() -> None:
    encoded = encode_record(TopicRecord("a", TOPIC_ID))
    assert decode_record(encoded[:-1] + b"\x01\x09\x02xy") == TopicRecord("a", TOPIC_ID)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x01",
        b"\x02\x02\x00",
        b"\x01\x63\x00",
        b"\x01\x02\x01",
        encode_record(EXAMPLES[0]) + b"\x00",
        encode_record(TopicRecord("ab", TOPIC_ID)).replace(b"ab", b"\xff\xfe"),
        b"\x01\x02\x00\x00" + TOPIC_ID.bytes + b"\x00",
        b"\x01\x03\x02\0\0\0\0" + TOPIC_ID.bytes + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_junk_is_malformed(junk: bytes) -> None:
    with pytest.raises(Malformed):
        decode_record(junk)


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_every_cut_is_malformed(record: MetadataRecord) -> None:
    encoded = encode_record(record)
    for length in range(len(encoded)):
        with pytest.raises(Malformed):
            decode_record(encoded[:length])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_are_a_record_or_malformed(junk: bytes) -> None:
    try:
        record = decode_record(b"\x01" + junk)
    except Malformed:
        return
    encoded = encode_record(record)  # bytes are compared, since a quota's number may be no number
    assert encode_record(decode_record(encoded)) == encoded


_NUMBERS = {"port": st.integers(0, 2**16 - 1), "broker_epoch": st.integers(-1, 2**63 - 1)}
_NUMBERS["next_producer_id"] = _NUMBERS["broker_epoch"]
_BYTES = {"fenced", "in_controlled_shutdown", "leader_recovery_state", "resource_type", "mechanism"}
_SHORTS = {"security_protocol", "min_supported_version", "max_supported_version", "feature_level"}


def values(name: str, kind: typing.Any) -> st.SearchStrategy[typing.Any]:
    """A strategy for one field, by its type and, for integers, by how wide Kafka makes it."""
    if typing.get_origin(kind) is tuple:
        return st.lists(values(name, typing.get_args(kind)[0]), max_size=3).map(tuple)
    if typing.get_args(kind):
        return st.one_of(*(values(name, option) for option in typing.get_args(kind)))
    if kind is int:
        bits = 8 if name in _BYTES else 16 if name in _SHORTS else 32
        return _NUMBERS.get(name, st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
    if dataclasses.is_dataclass(kind):
        return instances(typing.cast(type, kind))
    simple = {str: st.text(max_size=8), UUID: st.uuids(), bool: st.booleans(), type(None): st.none()}
    simple |= {bytes: st.binary(max_size=8), float: st.floats(allow_nan=False)}
    return simple[kind]


def instances(kind: type) -> st.SearchStrategy[typing.Any]:
    return st.builds(kind, **{name: values(name, hint) for name, hint in typing.get_type_hints(kind).items()})


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(KINDS).flatmap(instances))
def test_any_record_comes_back_as_it_was(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


# ------------------------------------------------------------------------------------------------ Apache Kafka reads it


@pytest.mark.java
def test_apache_kafka_prints_our_records(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    batch = encode_batch([(0, None, encode_record(record), ()) for record in EXAMPLES], leader_epoch=1)
    log.write_bytes(batch)
    arguments = ("--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(log))
    done = run_java("org.apache.kafka.tools.DumpLogSegments", *arguments)
    assert done.returncode == 0, done.stderr
    assert "Could not decode" not in done.stdout
    printed = [json.loads(line.partition("payload: ")[2]) for line in done.stdout.splitlines() if "payload: " in line]
    assert [entry["type"] for entry in printed] == [_kafka_type(record) for record in EXAMPLES]
    for entry, record in zip(printed, EXAMPLES, strict=True):
        _check_printed(entry["data"], record)


def _kafka_type(record: MetadataRecord) -> str:
    """NoOpRecord is NO_OP_RECORD."""
    name = type(record).__name__
    return "".join(("_" if letter.isupper() and index else "") + letter.upper() for index, letter in enumerate(name))


def _check_printed(data: dict[str, typing.Any], record: MetadataRecord) -> None:
    """What Kafka printed is what was written; it leaves out tagged fields that have their default."""
    expected = _as_json(record)
    assert {name: data.get(name, expected[name]) for name in expected} == expected
    left_out = {field.name for field in dataclasses.fields(record) if _camel(field.name) not in data}
    for field in dataclasses.fields(record):
        assert field.name not in left_out or getattr(record, field.name) == field.default


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _as_json(value: typing.Any) -> typing.Any:
    """As Kafka's tool writes it: names in camel case, ids in base64 for URLs."""
    if dataclasses.is_dataclass(value):
        return {_camel(field.name): _as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value
