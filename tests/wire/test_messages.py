"""The version-agnostic adapter: one body for all versions, defaults, mistakes, unknown tags, hostile lengths."""

from __future__ import annotations

import copy
import tracemalloc
import uuid
from typing import Any

import pytest

from runnel.wire import messages
from runnel.wire.apis import ApiKey
from runnel.wire.errors import ErrorCode, Malformed
from runnel.wire.messages import Struct, decode_request, decode_response, encode_request, encode_response
from runnel.wire.primitives import compact_count, compact_string, tagged
from runnel.wire.schemas import UnknownVersion
from runnel.wire.types import ZERO_UUID

TOPIC_ID = uuid.uuid4()
METADATA: dict[str, Any] = {
    "throttle_time_ms": 5,
    "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": None}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [
        {
            "error_code": ErrorCode.NONE,
            "name": "t",
            "topic_id": TOPIC_ID,
            "is_internal": True,
            "partitions": [
                {"error_code": ErrorCode.LEADER_NOT_AVAILABLE, "partition_index": 0, "leader_id": 1, "leader_epoch": 4,
                 "replica_nodes": (1, 2), "isr_nodes": [1], "offline_replicas": []}
            ],
            "topic_authorized_operations": 7,
        }
    ],
    "cluster_authorized_operations": 9,
    "error_code": 0,
}  # fmt: skip


def test_one_body_serves_every_version_and_missing_fields_read_as_defaults() -> None:
    for version in range(14):
        metadata = decode_response(3, version, encode_response(3, version, METADATA))
        (topic,) = metadata.topics
        (partition,) = topic.partitions
        assert metadata.throttle_time_ms == (5 if version >= 3 else 0)
        assert metadata.cluster_id == ("c" if version >= 2 else None)
        assert metadata.controller_id == (1 if version >= 1 else -1)
        assert topic.topic_id == (TOPIC_ID if version >= 10 else ZERO_UUID)
        assert topic.is_internal is (version >= 1)
        assert partition.leader_epoch == (4 if version >= 7 else -1)
        assert partition.offline_replicas == []
        assert (partition.error_code, partition.replica_nodes, partition.isr_nodes) == (5, [1, 2], [1])


def test_fields_renamed_between_versions_are_both_in_the_union() -> None:
    body = {"key": "group", "key_type": 0, "coordinator_keys": ["group"]}
    assert decode_request(10, 3, encode_request(10, 3, body)).key == "group"
    batched = decode_request(10, 4, encode_request(10, 4, body))
    assert (batched.coordinator_keys, batched.key) == (["group"], "")


def test_absent_keys_get_defaults() -> None:
    reply = decode_response(18, 3, encode_response(18, 3, {"api_keys": [{"api_key": 1, "max_version": 2}]}))
    assert reply.api_keys[0].to_dict() == {"api_key": 1, "min_version": 0, "max_version": 2}
    assert (reply.finalized_features_epoch, reply.supported_features, reply.zk_migration_ready) == (-1, [], False)


def test_a_key_of_no_version_is_our_own_mistake() -> None:
    with pytest.raises(KeyError, match="topicz"):
        encode_response(3, 9, {"topicz": []})
    with pytest.raises(KeyError, match="leader"):
        encode_response(3, 9, {"topics": [{"name": "t", "partitions": [{"leader": 1}]}]})
    with pytest.raises(AttributeError, match="topicz"):
        decode_request(3, 9, encode_request(3, 9, {})).topicz  # noqa: B018


def test_null_where_null_is_not_allowed_is_our_own_mistake() -> None:
    with pytest.raises(TypeError, match="host"):
        encode_response(3, 9, {"brokers": [{"host": None}]})


def test_unknown_versions() -> None:
    with pytest.raises(Malformed):
        decode_request(3, 99, b"")
    with pytest.raises(Malformed):
        decode_request(4, 0, b"")
    with pytest.raises(UnknownVersion):
        encode_response(3, 99, {})


def test_null_arrays_and_null_structs() -> None:
    assert decode_request(3, 1, b"\xff\xff\xff\xff").topics is None
    assert decode_request(3, 9, encode_request(3, 9, {"topics": None})).topics is None
    cursor = {"topic_name": "t", "partition_index": 3}
    for value in (None, cursor):
        decoded = decode_request(75, 0, encode_request(75, 0, {"cursor": value}))
        assert (None if decoded.cursor is None else decoded.cursor.to_dict()) == value


def test_bytes_after_a_message_are_ignored_as_in_kafka() -> None:
    """librdkafka 2.x sends three of them after its Metadata request v13."""
    assert decode_request(3, 13, encode_request(3, 13, {"topics": None}) + b"\0\0\0").topics is None


def test_uuid_none_is_written_as_zero_and_never_read_as_none() -> None:
    body = {"topics": [{"name": "t", "topic_id": None}]}
    assert decode_request(3, 12, encode_request(3, 12, body)).topics[0].topic_id == ZERO_UUID


def test_unknown_tagged_fields_are_skipped_in_every_nested_entity() -> None:
    unknown = tagged([(5, b"five"), (70_000, b"x" * 200)])
    config = compact_string("k") + compact_string(None) + unknown
    assignment = b"\0\0\0\0" + compact_count(1) + b"\0\0\0\1" + unknown
    topic = compact_string("t") + b"\0\0\0\3\0\1" + compact_count(1) + assignment + compact_count(1) + config + unknown
    request = decode_request(19, 7, compact_count(1) + topic + b"\0\0\x75\x30" + b"\1" + unknown)
    assert (request.timeout_ms, request.validate_only) == (30_000, True)
    (decoded,) = request.topics
    assert (decoded.name, decoded.num_partitions, decoded.assignments[0].broker_ids) == ("t", 3, [1])
    assert decoded.configs[0].to_dict() == {"name": "k", "value": None}


def test_a_known_tagged_field_must_have_the_size_it_says() -> None:
    head = b"\0" * 4 + b"\x01" + b"\0" * 4  # ApiVersions response v3: no error, no keys, no throttle
    epoch = b"\0" * 7 + b"\x05"
    reply = decode_response(18, 3, b"\0\0" + b"\x01" + b"\0" * 4 + tagged([(1, epoch)]))
    assert reply.finalized_features_epoch == 5
    for wrong in (epoch + b"\0", epoch[:-1]):
        with pytest.raises(Malformed):
            decode_response(18, 3, b"\0\0" + b"\x01" + b"\0" * 4 + tagged([(1, wrong)]))
    with pytest.raises(Malformed):
        decode_response(18, 3, head)


def test_structs_compare_copy_and_print() -> None:
    raw = encode_request(12, 4, {"group_id": "g", "generation_id": 5, "member_id": "m"})
    first, second = decode_request(12, 4, raw), decode_request(12, 4, raw)
    assert first == second
    assert first != decode_request(12, 3, encode_request(12, 3, first.to_dict()))
    assert "HeartbeatRequestV4(group_id='g', generation_id=5" in repr(first)
    assert copy.deepcopy(first.to_dict()) == first.to_dict()
    assert isinstance(first, Struct)


def test_default_lists_are_not_shared() -> None:
    request = decode_request(10, 3, encode_request(10, 3, {"key": "g"}))
    request.coordinator_keys.append("leak")
    assert request.coordinator_keys == []


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (3, 1, b"\x7f\xff\xff\xff" + b"\0" * 10),
        (3, 1, b"\xff\xff\xff\xfe"),
        (3, 1, b"\x80\0\0\0"),
        (3, 12, b"\xff\xff\xff\xff\x0f" + b"\0" * 10),
        (3, 12, b"\xff\xff\xff\xff\xff\x01"),
        (12, 0, b"\x7f\xffabc"),
        (12, 0, b"\xff\xff"),
        (12, 4, b"\0"),
        (12, 4, b"\x03\xff\xfe\0\0\0\0\x01\0\0"),
        (8, 2, b"\0\1g\0\0\0\0\0\0" + b"\0" * 8 + b"\x10\0\0\0"),
        (14, 0, b"\0\1g\0\0\0\0\0\0\0\0\0\1\0\0\x7f\xff\xff\xff"),
    ],
    ids=["array", "negative array", "most negative array", "compact array", "overlong varint",
         "string", "null string", "compact null string", "not utf-8", "nested array", "bytes"],
)  # fmt: skip
def test_hostile_lengths_are_malformed_and_cost_nothing(api_key: int, version: int, body: bytes) -> None:
    with pytest.raises(Malformed):
        decode_request(api_key, version, body)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            decode_request(api_key, version, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_more_items_than_any_honest_request_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nested entity of 5 bytes becomes an object of a hundred: the budget is for the whole message."""
    monkeypatch.setattr(messages, "REQUEST_ITEMS_MAX", 10)
    partitions = [{"partition_index": index} for index in range(4)]
    small = {"topics": [{"name": "a", "partitions": partitions}]}
    large = {"topics": [{"name": name, "partitions": partitions} for name in "abc"]}
    assert len(decode_request(ApiKey.DELETE_RECORDS, 2, encode_request(ApiKey.DELETE_RECORDS, 2, small)).topics) == 1
    with pytest.raises(Malformed, match="too many items"):
        decode_request(ApiKey.DELETE_RECORDS, 2, encode_request(ApiKey.DELETE_RECORDS, 2, large))
