"""The records of internal topics in plain values: `__consumer_offsets`, `__cluster_metadata`, `__transaction_state`.

In: a record. Out: a mapping with `type` first, made of JSON's values only; what is of a later release than this one
is told by its number. Secrets (SCRAM keys) are left out.
"""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

from runnel.cli.offline.kafka_metadata import decode_kafka_record
from runnel.client.consumer_protocol import decode_assignment
from runnel.core.groups.records import decode_record as decode_group_record
from runnel.core.metadata.records import decode_record as decode_metadata_record
from runnel.storage.checkpoints import encode_topic_id
from runnel.wire.batch import Record
from runnel.wire.errors import Malformed
from runnel.wire.primitives import (
    read_compact_count,
    read_compact_string,
    read_legacy_count,
    read_legacy_string,
    skip_tagged,
)

Decoder: TypeAlias = Callable[[Record], dict[str, Any]]

HIDDEN = "(hidden)"
_SECRETS = frozenset({"salt", "stored_key", "server_key"})
_CONTROL_KEY = Struct(">hh")
_CONTROL_TYPES = {
    0: "AbortMarker",
    1: "CommitMarker",
    2: "LeaderChange",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
_TRANSACTION_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
                       "PrepareEpochFence")  # fmt: skip
_TRANSACTION_HEAD = Struct(">hqhib")
_TRANSACTION_TIMES = Struct(">qq")
_I16 = Struct(">h")
_I32 = Struct(">i")


def decode_offsets(record: Record) -> dict[str, Any]:
    return _described(decode_group_record(record.key, record.value))


def decode_metadata(record: Record) -> dict[str, Any]:
    value = record.value or b""
    try:
        return _described(decode_metadata_record(value))
    except Malformed:
        decoded: dict[str, Any] = plain(decode_kafka_record(value))
        return decoded


def decode_transactions(record: Record) -> dict[str, Any]:
    """Kafka's TransactionLogKey 0 and TransactionLogValue 0 and 1 (without its tagged fields)."""
    key, value = record.key or b"", record.value
    try:
        if _I16.unpack_from(key)[0] != 0:
            return {"type": "Unknown", "key_version": _I16.unpack_from(key)[0]}
        transactional_id, _ = read_legacy_string(key, 2)
        if value is None:
            return {"type": "TransactionRemoved", "transactional_id": transactional_id}
        version, producer_id, epoch, timeout_ms, state = _TRANSACTION_HEAD.unpack_from(value)
        found = {
            "type": "Transaction",
            "transactional_id": transactional_id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "timeout_ms": timeout_ms,
            "state": _TRANSACTION_STATES[state] if 0 <= state < len(_TRANSACTION_STATES) else state,
        }
        return found | _transaction_rest(value, flexible=version >= 1)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"a record of __transaction_state does not parse: {error}") from error


def _transaction_rest(value: bytes, *, flexible: bool) -> dict[str, Any]:
    read_count = read_compact_count if flexible else read_legacy_count
    read_string = read_compact_string if flexible else read_legacy_string
    count, position = read_count(value, _TRANSACTION_HEAD.size, 2)
    partitions: list[str] = []
    for _ in range(count):
        topic, position = read_string(value, position)
        number, position = read_count(value, position, _I32.size)
        for _ in range(number):
            partitions.append(f"{topic}-{_I32.unpack_from(value, position)[0]}")
            position += _I32.size
        position = skip_tagged(value, position) if flexible else position
    updated_ms, started_ms = _TRANSACTION_TIMES.unpack_from(value, position)
    return {"partitions": partitions, "last_update_ms": updated_ms, "start_ms": started_ms}


def decode_control(record: Record) -> dict[str, Any]:
    """The markers that transactions and Raft put between records."""
    try:
        version, kind = _CONTROL_KEY.unpack_from(record.key or b"")
    except StructError:
        return {"type": "Control", "key": plain(record.key)}
    return {"type": _CONTROL_TYPES.get(kind, f"Control{kind}"), "version": version, "value": plain(record.value)}


DECODERS: dict[str, Decoder] = {
    "offsets": decode_offsets,
    "metadata": decode_metadata,
    "transactions": decode_transactions,
}
BY_TOPIC = {"__consumer_offsets": "offsets", "__cluster_metadata": "metadata", "__transaction_state": "transactions"}


def _described(record: Any) -> dict[str, Any]:
    values = plain(record)
    return {"type": type(record).__name__, **(values if isinstance(values, dict) else {"value": values})}


def plain(value: Any) -> Any:
    """JSON's values only."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, uuid.UUID):
        return encode_topic_id(value)
    if isinstance(value, bytes):
        return _bytes(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if hasattr(value, "_asdict"):
        return _fields(value._asdict())
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return [plain(item) for item in value]
    return value


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: HIDDEN if name in _SECRETS else _field(name, value) for name, value in values.items()}


def _field(name: str, value: Any) -> Any:
    if name == "assignment" and isinstance(value, bytes):
        assigned = decode_assignment(value)
        return plain(value) if assigned is None else [f"{each.topic}-{each.partition}" for each in assigned]
    return plain(value)


def _bytes(value: bytes) -> str:
    """Text where it is text, else hex."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex()
    return text if text.isprintable() else value.hex()
