"""Hostile frames: honest ones with damage, and pure noise. Used with a socket here and in process by fuzz/."""

from __future__ import annotations

import random
import struct
from typing import Any

from clients.protocol.calls import RANGES
from harness.batches import encode_batch
from harness.raw import encode_body, encode_header, is_flexible

INTEGERS = (0, 1, -1, 127, 128, 255, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1)
SIZES = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80" * 12,
)


def honest_bodies() -> dict[int, dict[str, Any]]:
    """A body for each API that uses its arrays and strings, for damage to have something to bite on."""
    topics = [{"name": "some-topic", "topic_id": None}]
    batch = encode_batch([b"value"] * 3)
    fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    configs = [{"name": "retention.ms", "value": "5"}]
    resource = {"resource_type": 2, "resource_name": "some-topic", "configs": configs}
    changes = [{"name": "retention.ms", "value": "5", "config_operation": 0}]
    described = {"resource_type": 2, "resource_name": "some-topic", "configuration_keys": ["a", "b"]}
    new_topic = {"name": "bad name/", "num_partitions": 1, "replication_factor": 1, "configs": configs}
    return {
        0: {
            "acks": 1,
            "timeout": 1,
            "topic_data": [{"name": "no", "partition_data": [{"index": 0, "records": batch}]}],
        },
        1: {"max_wait": 0, "min_bytes": 0, "max_bytes": 100, "topics": [{"topic": "no", "partitions": [fetched]}]},
        2: {"replica_id": -1, "topics": [{"name": "no", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        3: {"topics": topics},
        10: {"key_type": 0, "key": "group", "coordinator_keys": ["group"]},
        18: {"client_software_name": "name", "client_software_version": "1"},
        19: {"topics": [new_topic], "timeout": 1, "validate_only": True},
        20: {"topics": topics, "topic_names": ["no"], "timeout": 1},
        21: {"topics": [{"name": "no", "partitions": [{"partition_index": 0, "offset": 5}]}], "timeout": 1},
        22: {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
        23: {"replica_id": -1, "topics": [{"topic": "no", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        32: {"resources": [described]},
        33: {"resources": [resource], "validate_only": True},
        35: {"topics": [{"topic": "no", "partitions": [0, 1]}]},
        37: {"topics": [{"name": "no", "count": 2, "assignments": [{"broker_ids": [1]}]}], "timeout": 1},
        44: {"resources": [resource | {"configs": changes}], "validate_only": True},
        **_admin_bodies(),
        60: {"endpoint_type": 1},
        75: {"topics": [{"name": "no"}], "response_partition_limit": 10},
    }


def _admin_bodies() -> dict[int, dict[str, Any]]:
    """None of them would change anything, so that damaged ones do not either: a quota on everybody would last."""
    where = [{"name": "no", "partition_indexes": [0, 1]}]
    op = {"key": "no_such_rate", "value": 5.0, "remove": False}
    entity = {"entity_type": "user", "entity_name": "nobody"}
    credential = {"name": "nobody", "mechanism": 1, "iterations": 1, "salt": b"salt", "salted_password": b"secret"}
    moved = {"name": "no", "partitions": [{"partition_index": 0, "replicas": [1, 2]}]}
    update = {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1, "allow_downgrade": True}
    return {
        34: {"dirs": [{"path": "/no", "topics": [{"name": "no", "partitions": [0, 1]}]}]},
        43: {"election_type": 0, "topic_partitions": [{"topic": "no", "partitions": [0, 1]}], "timeout": 1},
        45: {"topics": [moved], "timeout": 1},
        46: {"topics": where, "timeout": 1},
        48: {"components": [{"entity_type": "user", "match_type": 0, "match": "nobody"}], "strict": True},
        49: {"entries": [{"entity": [entity], "ops": [op]}], "validate_only": True},
        50: {"users": [{"name": "nobody"}]},
        51: {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": [credential]},
        55: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        57: {"feature_updates": [update], "timeout": 1, "validate_only": True},
        61: {"topics": where},
        74: {"resource_types": [2, 4]},
    }


def honest_payload(api_key: int, version: int, correlation_id: int = 1) -> bytes:
    header = encode_header(api_key, version, correlation_id, flexible=is_flexible(api_key, version))
    return header + encode_body(api_key, version, honest_bodies()[api_key])


def every_version() -> list[tuple[int, int]]:
    """Each advertised API and version that is served."""
    first_served = {0: 3}
    pairs = []
    for api_key, (low, high) in RANGES.items():
        pairs += [(api_key, version) for version in range(first_served.get(api_key, low), high + 1)]
    return pairs


def damage(payload: bytes, chance: random.Random) -> bytes:
    """One to four wounds after the header's fixed part."""
    data = bytearray(payload)
    for _ in range(chance.randrange(1, 5)):
        position = chance.randrange(8, max(9, len(data) + 1))
        kind = chance.randrange(6)
        if kind == 0:
            del data[position:]
        elif kind == 1 and position < len(data):
            data[position] ^= 1 << chance.randrange(8)
        elif kind == 2:
            data[position : position + 4] = struct.pack(">i", _as_i32(chance.choice(INTEGERS)))
        elif kind == 3:
            data[position:position] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 4:
            data[position : position + 1] = chance.choice(SIZES)
        else:
            data[position : position + chance.randrange(1, 9)] = b""
    return bytes(data)


def _as_i32(value: int) -> int:
    return ((value + 2**31) % 2**32) - 2**31
